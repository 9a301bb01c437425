"""Let Dramatiq take wake-ups from our queues, with a consumer that blocks until there is one.

Dramatiq's own Redis broker polls, and has a second consumer per queue for delayed messages. Our messages are
only wake-ups, so they need no delays, retries, results, acknowledgements or dead letters.
"""

import json
import threading
from collections.abc import Iterable
from typing import Any

import dramatiq
import redis
import structlog
from dramatiq.broker import Consumer, MessageProxy

from runtime.redis import TIMEOUT_S
from workers import queue

log = structlog.get_logger()

# Pause of a consumer after the Redis server did not answer.
RETRY_S = 0.5


class Broker(dramatiq.Broker):
    """A broker without middleware: the database knows the pending work of an actor that failed."""

    def __init__(self, url: str) -> None:
        super().__init__(middleware=[])
        self.url = url

    def declare_queue(self, queue_name: str) -> None:
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """Add a wake-up to the queue. There is no delay, because the due scan finds due work."""
        if delay is not None:
            raise ValueError("a wake-up cannot be delayed")
        queue.enqueue(message.queue_name, *message.args)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1000) -> Consumer:
        return QueueConsumer(self.url, queue_name, prefetch=prefetch, timeout=timeout)


class QueueConsumer(Consumer):
    """Take wake-ups from one queue, at most `prefetch` at a time. `timeout` is in ms."""

    def __init__(self, url: str, queue_name: str, *, prefetch: int, timeout: int) -> None:
        self._queue = queue_name
        self._timeout_s = timeout / 1000
        # The server answers after `timeout` at the latest; if it does not, it is down.
        self._client = queue.create_client(url, self._timeout_s + TIMEOUT_S)
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
            found = self._client.bzpopmin(queue.get_key(self._queue), self._timeout_s)
        except (redis.RedisError, OSError) as error:
            queue.redis_status.report_down(error)
            self._closed.wait(RETRY_S)
            return None
        queue.redis_status.report_up()
        return _message(self._queue, found[1]) if found else None

    def ack(self, message: MessageProxy) -> None:
        self._capacity.release()

    nack = ack

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        for message in messages:
            queue.enqueue(message.queue_name, *message.args)

    def close(self) -> None:
        self._closed.set()
        self._client.close()


def _message(queue_name: str, member: bytes) -> MessageProxy | None:
    try:
        args = tuple(json.loads(member))
    except (ValueError, TypeError):
        log.warning("dropped a wake-up that is not valid JSON", queue_name=queue_name)
        return None
    return MessageProxy(dramatiq.Message(queue_name, queue_name, args, {}, {}))
