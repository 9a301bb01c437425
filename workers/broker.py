"""The broker of Dramatiq. Its messages are wake-ups in our sorted sets (workers/sender.py).

Dramatiq's own Redis broker polls, and has a second consumer per queue for delayed messages. Our messages are
only wake-ups, so they need no retries, results, acknowledgements or dead letters. An actor has the name of
its queue, so a wake-up consists of its arguments.
"""

import atexit
import json
import threading
from collections.abc import Iterable
from typing import Any, TypeVar

import dramatiq
import redis
import structlog
from dramatiq.broker import Consumer, MessageProxy

from runtime.redis import TIMEOUT_S, create_client, redis_status
from workers.sender import QueueSender, get_key

log = structlog.get_logger()

# Pause of a consumer after the Redis server did not answer.
RETRY_S = 0.5

R = TypeVar("R")


class Broker(dramatiq.Broker):
    """A broker without retries: the database knows the pending work of an actor that failed."""

    def __init__(self) -> None:
        super().__init__(middleware=[])
        self.url = ""
        self._sender: QueueSender | None = None

    def connect(self, url: str) -> None:
        """Use this Redis from now on; once, when a process starts. Without it, wake-ups are dropped."""
        self.url = url
        self._sender = QueueSender(url)
        atexit.register(self._sender.flush)

    def close(self) -> None:
        """Send the last wake-ups, and nothing more."""
        if self._sender is not None:
            self._sender.flush()
            self._sender.close()

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
        if self._sender is not None:
            self._sender.add(message.queue_name, json.dumps(message.args), delay)
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1000) -> Consumer:
        return QueueConsumer(self, queue_name, prefetch=prefetch, timeout=timeout)


class QueueConsumer(Consumer):
    """Take wake-ups from one queue, at most `prefetch` at a time. `timeout` is in ms."""

    def __init__(self, broker: Broker, queue_name: str, *, prefetch: int, timeout: int) -> None:
        self._broker = broker
        self._queue = queue_name
        self._timeout_s = timeout / 1000
        # The Redis server answers after `timeout` at the latest. A server that does not answer is down.
        self._client = create_client(broker.url, self._timeout_s + TIMEOUT_S)
        self._capacity = threading.Semaphore(prefetch)
        self._closed = threading.Event()

    def __next__(self) -> MessageProxy | None:
        if not self._capacity.acquire(timeout=self._timeout_s):
            return None
        found = self._pop()
        if found is None:
            self._capacity.release()
        return found

    def _pop(self) -> MessageProxy | None:
        try:
            # The key, the member and its score, or None.
            found: Any = self._client.bzpopmin(get_key(self._queue), self._timeout_s)
        except (redis.RedisError, OSError) as error:
            redis_status.report_down(error)
            self._closed.wait(RETRY_S)
            return None
        redis_status.report_up()
        return _message(self._queue, found[1]) if found else None

    def ack(self, message: MessageProxy) -> None:
        self._capacity.release()

    nack = ack

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        for message in messages:
            self._broker.enqueue(message.copy())

    def close(self) -> None:
        self._closed.set()
        self._client.close()


def _message(queue_name: str, member: bytes) -> MessageProxy | None:
    try:
        args = tuple(json.loads(member))
    except (ValueError, TypeError):
        log.warning("dropped a wake-up that is not valid JSON", queue_name=queue_name)
        return None
    return MessageProxy(dramatiq.Message(queue_name, queue_name, args, {}, {}, queue_name))


# The broker of this process. All actors are declared on it; it is connected when the process starts.
broker = Broker()
dramatiq.set_broker(broker)
