"""Define the interface of a channel, which sends a message to an address.

A channel raises no other errors than the three below, and workers/delivery/deliver.py decides by them. Their
texts are stored and shown to users, so they contain no secret and no address.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message, ready to be sent. The same `message_id` means the same message."""

    message_id: str
    to: str
    subject: str
    text: str
    at: datetime


class SendError(Exception):
    """The message was not sent; the text says why."""


class Refused(SendError):
    """The relay refuses this address or message permanently; a retry does not help."""


class TemporaryError(SendError):
    """The relay answers but does not accept this message now; a retry may help."""


class RelayError(SendError):
    """The relay does not answer, or accepts no message at all now."""


class RelayConnection(Protocol):
    """A connection to the relay that sends one message after another. Not shared between threads."""

    def open(self) -> bool:
        """Connect if there is no connection. Return whether a new connection was made. Raise RelayError."""
        ...

    def send(self, message: OutgoingMessage) -> str:
        """Send a message and return the outcome in words. Raise Refused, TemporaryError or RelayError."""
        ...

    def close(self) -> None:
        """Close the connection; never raise."""
        ...


class Channel(Protocol):
    """A way to send messages to one kind of contact."""

    def find_missing_setting(self) -> str | None:
        """Describe the setting that is missing to send messages; None if nothing is missing."""
        ...

    def create_connection(self) -> RelayConnection:
        """Create a connection that is not open yet."""
        ...
