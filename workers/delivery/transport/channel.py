"""Define the interface of a channel, which sends messages to one type of contact.

Each line of models/domain/channels.py has a file of its name in workers/delivery/channels/ with the function
`create_channel(settings) -> Channel`. It is called once per process.

The relay of a channel is the server or service that takes its messages: a mail relay, or the API of a
provider. A channel raises only the four errors below; workers/delivery/deliver.py has an outcome for each.
Their reasons are stored and shown to users, so they contain no secret and no address.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from models.domain.reasons import Reason
from pipeline.messages import MessageContent

# The longest time that one message may take a thread, with connecting and TLS, if the relay hangs. No channel
# may exceed it: the claims of the outbox and the end of a worker rely on it.
DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message, ready to be sent. The same `message_id` means the same message.

    `to` is the value of the contact, in the form of the channel's line in models/domain/channels.py. `at` is
    the time of the attempt. The channel formats `content` and must shorten it itself.
    """

    message_id: str
    to: str
    content: MessageContent
    at: datetime


class SendError(Exception):
    """The message was not sent; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Refused(SendError):
    """The relay refuses this address. schedules/timers/retries.py decides whether that is permanent."""


class UnusableAddress(SendError):
    """No relay of this channel can take this address: use the user's own e-mail address."""


class TemporaryError(SendError):
    """The relay answers but does not accept this message now: retry it, and go on with the next message.

    Also if it says that it never will, but for another cause than the address.
    """


class RelayError(SendError):
    """The relay does not answer, or accepts no message at all now: retry, and wait with other messages."""


class RelayConnection(Protocol):
    """A connection to the relay that sends one message after another. Not shared between threads."""

    def open(self) -> bool:
        """Connect if there is no connection. Return whether a new connection was made. Raise RelayError.

        A channel without connections returns False.
        """
        ...

    def send(self, message: OutgoingMessage) -> Reason:
        """Send a message and return the outcome. Raise a SendError."""
        ...

    def close(self) -> None:
        """Close the connection; never raise."""
        ...


class Channel(Protocol):
    """A way to send messages to one type of contact, with the settings of this process."""

    def find_missing_setting(self) -> str | None:
        """Describe the setting that is missing to send messages; None if nothing is missing."""
        ...

    def create_connection(self) -> RelayConnection:
        """Create a connection that is not open yet."""
        ...
