"""Say to a person in Slack what became of a button or a text, apart from the answer to the callback.

A reply that is lost is not repeated: the message itself shows the state of its incident.
"""

import threading

import dramatiq
import structlog

from models.store.store import store
from runtime.settings import Settings
from workers import queue
from workers.broker import broker
from workers.delivery.channels.slack import SlackChannel
from workers.delivery.transport.channel import SendError
from workers.delivery.transport.http import HttpClient

log = structlog.get_logger()

# A reply is only useful at once.
DEADLINE_S = 3.0

# Threads of a worker that may wait for Slack at the same time: the others are for alerts.
MAX_THREADS = 2
# A reply that finds no thread is tried again after this time.
RETRY_MS = 250

_channels: list[SlackChannel] = []
_threads = threading.BoundedSemaphore(MAX_THREADS)


def configure(settings: Settings) -> None:
    """Use these settings; once, when a process starts."""
    _channels[:] = [SlackChannel(settings, HttpClient("slack", DEADLINE_S))]


def send(url: str, user: str, text: str) -> None:
    """Send a reply to the address of a callback or, without one, to the user. Log errors."""
    channel = _channels[0]
    if not url and channel.find_missing_setting():
        return
    try:
        channel.reply(url, user, text, store().now())
    except SendError as error:
        log.warning("a reply could not be sent", channel="slack", error=str(error))


def send_if_free(url: str, user: str, text: str) -> None:
    """Send a reply, or enqueue it again if MAX_THREADS threads send replies now."""
    if not _threads.acquire(blocking=False):
        queue.enqueue("replies.slack", url, user, text, delay_ms=RETRY_MS)
        return
    try:
        send(url, user, text)
    finally:
        _threads.release()


send_reply = dramatiq.actor(broker=broker, queue_name="replies.slack", actor_name="replies.slack")(
    send_if_free
)
