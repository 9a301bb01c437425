"""Dramatiq's way to the bells: a consumer that blocks until one rings, and nothing else.

Dramatiq's own Redis broker polls, and has a second consumer per queue for delayed messages. Here a
message is only a bell, so there are no delays, retries, results, acknowledgements or dead letters.
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

# How long a consumer waits before it tries a server again that did not answer.
RETRY_S = 0.5


class Broker(dramatiq.Broker):
    """Has no middleware: what an actor owes when it fails stands in the database."""

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
        """Ring; a bell cannot be delayed, due work is found by the clock."""
        if delay is not None:
            raise ValueError("a bell cannot be delayed")
        queue.enqueue(message.queue_name, *message.args)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1000) -> Consumer:
        return QueueConsumer(self.url, queue_name, prefetch=prefetch, timeout=timeout)


class QueueConsumer(Consumer):
    """One queue's bells. Takes no more than `prefetch` that are not worked off; `timeout` in ms."""

    def __init__(self, url: str, queue_name: str, *, prefetch: int, timeout: int) -> None:
        self._queue = queue_name
        self._timeout_s = timeout / 1000
        # The server answers after `timeout` at the latest; what takes longer is an outage.
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
        log.warning("a bell that cannot be read is dropped", queue_name=queue_name)
        return None
    return MessageProxy(dramatiq.Message(queue_name, queue_name, args, {}, {}))
