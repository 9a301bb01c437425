"""The broker of Dramatiq. Its messages are wake-ups in our sorted sets (workers/sender.py).

Dramatiq's own Redis broker polls, and has a second consumer per queue for delayed messages. Our messages are
only wake-ups, so they need no retries, results, acknowledgements or dead letters. An actor has the name of
its queue, so a wake-up consists of its arguments.
"""

import atexit
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, TypeVar

import dramatiq
import redis
from dramatiq.broker import Consumer, MessageProxy

from runtime.late_logs import LateLogger
from runtime.redis import TIMEOUT_S, create_client, redis_status
from workers.sender import QueueSender, get_key

log = LateLogger()

# Pause of a consumer after the Redis server did not answer.
RETRY_S = 0.5
# Pause of a consumer after all wake-ups that it took were covered by running work. In a storm, they come
# every few milliseconds, and each request to Redis costs as much as some alerts.
COVERED_PAUSE_S = 0.01

R = TypeVar("R")


class Broker(dramatiq.Broker):
    """A broker without retries: the database knows the pending work of an actor that failed."""

    def __init__(self) -> None:
        super().__init__(middleware=[])
        self.url = ""
        self._sender: QueueSender | None = None
        self._covers: dict[str, Callable[..., bool]] = {}

    def connect(self, url: str) -> None:
        """Use this Redis until `close`. Without one, wake-ups are dropped."""
        self.url = url
        self._sender = QueueSender(url)
        atexit.register(self._sender.flush)

    def close(self) -> None:
        """Send the last wake-ups, also those of lanes that linger. Later ones are dropped."""
        sender, self._sender, self.url = self._sender, None, ""
        if sender is not None:
            atexit.unregister(sender.flush)
            sender.end_lingers()
            sender.flush()
            sender.close()

    def declare_queue(self, queue_name: str) -> None:
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: dramatiq.Message[R], *, delay: int | None = None) -> dramatiq.Message[R]:
        """Add a wake-up to its queue, unless it is there already.

        With a `delay` in ms, wake-ups for the same work are ignored for that time. Then one is added.
        """
        self.emit_before("enqueue", message, delay)
        sender = self._sender
        if sender is not None:
            sender.add(message.queue_name, json.dumps(message.args), delay)
        self.emit_after("enqueue", message, delay)
        return message

    def add_cover(self, queue_name: str, is_covered: Callable[..., bool]) -> None:
        """Ask `is_covered` about each wake-up of a queue, with its arguments, before a thread is given it.

        It returns whether work that already runs includes the work of this wake-up, which is then dropped. It
        must not wait.
        """
        self._covers[queue_name] = is_covered

    def is_covered(self, queue_name: str, args: tuple[object, ...]) -> bool:
        cover = self._covers.get(queue_name)
        try:
            return cover is not None and cover(*args)
        except Exception:
            # The actor fails with these arguments, too, and its error is logged. Others must not suffer.
            return False

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1000) -> Consumer:
        return QueueConsumer(self, queue_name, prefetch=prefetch, timeout=timeout)


class QueueConsumer(Consumer):
    """Take wake-ups from one queue. At most `prefetch` are taken and not done. `timeout` is in ms.

    A wake-up that comes to an empty queue is taken alone. What is pending after it is taken together, in one
    request.
    """

    def __init__(self, broker: Broker, queue_name: str, *, prefetch: int, timeout: int) -> None:
        self._broker = broker
        self._queue = queue_name
        self._timeout_s = timeout / 1000
        # The Redis server answers after `timeout` at the latest. A server that does not answer is down.
        self._client = create_client(broker.url, self._timeout_s + TIMEOUT_S)
        self._prefetch = prefetch
        self._capacity = threading.Semaphore(prefetch)
        # Taken from the queue, not yet returned.
        self._taken: deque[MessageProxy] = deque()
        self._may_have_more = False
        self._closed = threading.Event()

    def __next__(self) -> MessageProxy | None:
        if not self._taken:
            self._take()
        return self._taken.popleft() if self._taken else None

    def _take(self) -> None:
        """Take wake-ups for which there is capacity. Keep those that no running work covers."""
        if not self._capacity.acquire(timeout=self._timeout_s):
            return
        capacity = 1
        while capacity < self._prefetch and self._capacity.acquire(blocking=False):
            capacity += 1
        members = self._pop(capacity)
        for member in members:
            args = _parse(self._queue, member)
            if args is not None and not self._broker.is_covered(self._queue, args):
                self._taken.append(_build_message(self._queue, args))
        if unused := capacity - len(self._taken):
            self._capacity.release(unused)
        if members and not self._taken:
            self._closed.wait(COVERED_PAUSE_S)

    def _pop(self, count: int) -> list[bytes]:
        """Remove wake-ups from the queue and return them: one, or up to `count` if one was just there."""
        key = get_key(self._queue)
        began_at = monotonic()
        try:
            # Pairs of a member and its score.
            found: Any = self._client.zpopmin(key, count) if self._may_have_more else []
            if not found:
                # The key, the member and its score, or None.
                first: Any = self._client.bzpopmin(key, self._timeout_s)
                found = [first[1:]] if first else []
        except (redis.RedisError, OSError) as error:
            redis_status.report_down(error, began_at)
            self._closed.wait(RETRY_S)
            return []
        redis_status.report_up(began_at)
        self._may_have_more = bool(found)
        return [member for member, _ in found]

    def ack(self, message: MessageProxy) -> None:
        self._capacity.release()

    nack = ack

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        for message in messages:
            self._broker.enqueue(message.copy())

    def close(self) -> None:
        self._closed.set()
        self._client.close()
        self.requeue(self._taken)
        self._taken.clear()


def _parse(queue_name: str, member: bytes) -> tuple[object, ...] | None:
    try:
        return tuple(json.loads(member))
    except (ValueError, TypeError):
        log.warning("dropped a wake-up that is not valid JSON", queue_name=queue_name)
        return None


def _build_message(queue_name: str, args: tuple[object, ...]) -> MessageProxy:
    return MessageProxy(dramatiq.Message(queue_name, queue_name, args, {}, {}, queue_name))


# The broker of this process. All actors are declared on it; it is connected when the process starts.
broker = Broker()
dramatiq.set_broker(broker)
