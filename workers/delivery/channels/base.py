"""What every channel is: something that carries a letter to an address, or says why it did not.

The three errors are all that a channel may say; whoever sends decides by them (workers/delivery/deliver.py).
Their texts are shown to users and kept, so they hold no secret and no address.
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
    """The letter was not sent; the text says why."""


class Refused(SendError):
    """For good: this address will not take it, however often it is tried."""


class TemporaryError(SendError):
    """The relay answers but does not take this letter now; trying again may help."""


class RelayError(SendError):
    """The relay does not answer, or nothing at all can be sent by it now."""


class RelayConnection(Protocol):
    """A way to the relay that serves one letter after another. Not shared between threads."""

    def open(self) -> bool:
        """Connect, unless connected; whether that had to be done. Raises RelayTrouble."""
        ...

    def send(self, message: OutgoingMessage) -> str:
        """Send, and say in words how it went. Raises Refused, NotNow or RelayTrouble."""
        ...

    def close(self) -> None:
        """Hang up; never raises."""
        ...


class Channel(Protocol):
    """A kind of contact that can be written to."""

    def find_missing_setting(self) -> str | None:
        """Which setting is missing to send anything by it, in words; None when none is."""
        ...

    def create_connection(self) -> RelayConnection:
        """A new line, not yet connected."""
        ...
