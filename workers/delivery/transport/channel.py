"""Define the interface of a channel, which sends messages to one type of contact.

Each line of models/domain/channels.py has a file of its name in workers/delivery/channels/ with the function
`create_channel(settings) -> Channel`. It is called once per process.

The relay of a channel is the server or service that takes its messages: a mail relay, or the API of a
provider. A channel raises only the four errors below; workers/delivery/deliver.py has an outcome for each.
Their reasons are stored and shown to users, so they contain no secret and no address.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from models.domain.reasons import Reason
from pipeline.messages.content import MessageContent

# The longest time that one message may take a thread, with connecting and TLS, if the relay hangs. No channel
# may exceed it: the claims of the outbox and the end of a worker rely on it.
DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message, ready to be sent. The same `message_id` means the same message.

    `to` is the value of the contact, in the form of the channel's line in models/domain/channels.py. `at` is
    the time of the attempt. The channel formats `content` and must shorten it itself. `reply_code`: what a
    person sends to acknowledge, in a channel without buttons; empty if there is nothing to acknowledge.
    `return_path`: the address to which a mail comes back; empty: that of the sender.
    """

    message_id: str
    to: str
    content: MessageContent
    at: datetime
    reply_code: str = ""
    return_path: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took the message. `provider` is its name and `provider_id` its id of the message.

    Both are empty if the relay gives no id that says more later.
    """

    reason: Reason
    provider: str = ""
    provider_id: str = ""


class SendError(Exception):
    """The message was not sent; `reason` says why.

    `provider`: the name of the provider that answered. `retry_after`: it asks not to be tried earlier.
    """

    def __init__(self, reason: Reason, *, provider: str = "", retry_after: timedelta | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.provider = provider
        self.retry_after = retry_after


class Refused(SendError):
    """The relay refuses this address. schedules/timers/retries.py decides whether that is permanent."""


class UnusableAddress(SendError):
    """No relay of this channel can take this address: use the user's own e-mail address."""


class TemporaryError(SendError):
    """The relay answers but does not accept this message now: retry it, and go on with the next message.

    Also if it says that it never will, but for another cause than the address.
    """


class HostError(TemporaryError):
    """The host of this address does not answer, or fails: retry, and pause the messages to this host.

    Only for a ChannelOfHosts or a ChannelOfDomains. The messages to other hosts go on.
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

    def send(self, message: OutgoingMessage) -> Accepted:
        """Send a message and return what the provider answered. Raise a SendError."""
        ...

    def close(self) -> None:
        """Close the connection; never raise."""
        ...


class ChangingConnection(RelayConnection, Protocol):
    """A connection of a channel with `can_change`."""

    def change(self, provider_id: str, message: OutgoingMessage) -> None:
        """Replace the content of a message that was sent with this id. Raise a SendError."""
        ...


class Channel(Protocol):
    """A way to send messages to one type of contact, with the settings of this process."""

    def find_missing_setting(self) -> str | None:
        """Describe the setting that is missing to send messages; None if nothing is missing."""
        ...

    def create_connection(self) -> RelayConnection:
        """Create a connection that is not open yet."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One of the services that take the messages of a channel. `name` is unique in its channel."""

    name: str
    create_connection: Callable[[], RelayConnection]


@runtime_checkable
class ChannelWithProviders(Channel, Protocol):
    """A channel with several providers, which replace each other.

    Each provider has its own gate (workers/delivery/transport/relay_gate.py). A message goes to the first
    provider that is not down. One RelayError is enough: then the next provider gets all messages, and every
    minute one message tries the first one again. If all are down, one thread tries each of them in turn. A
    Refused or TemporaryError does not change the provider. `create_connection` of the channel itself is
    only used by commands: return a connection to the first provider.
    """

    def list_providers(self) -> Sequence[Provider]:
        """Return the providers that are set, at least one, the preferred one first."""
        ...


@runtime_checkable
class ChannelOfHosts(Channel, Protocol):
    """A channel whose addresses name the host that takes the message, for example a URL of a user.

    Each host has its own gates: a HostError pauses the messages of this account to this host and no others.
    Few threads send to one host, so that dead hosts do not delay the messages to others.
    """

    def get_host(self, to: str) -> str:
        """Return the host of an address, in one form for all its addresses; never raise."""
        ...


@runtime_checkable
class ChannelOfDomains(Channel, Protocol):
    """A channel whose relay may wait for the host of an address, as a mail relay for the server of a domain.

    A HostError pauses the messages of the account to this domain. With those of other accounts and domains,
    it shows that the relay is down.
    """

    def get_domain(self, to: str) -> str:
        """Return the domain of an address, in one form for all its addresses; never raise."""
        ...
