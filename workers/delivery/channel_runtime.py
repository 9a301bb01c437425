"""The state of a channel in a process: the gates of its relay, of its providers and of its hosts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.delivery.transport.channel import (
    Channel,
    ChannelOfDomains,
    ChannelOfHosts,
    ChannelWithProviders,
    Provider,
)
from workers.delivery.transport.host_gates import EnteredHost, HostGates, NotEntered
from workers.delivery.transport.relay_gate import MAX_THREADS, RelayGate

# With another provider, one failure is enough to use it. The one that is down is tried again this often.
PROVIDER_THRESHOLD = 1
PROVIDER_PAUSE_S = 60.0


class Entered(NamedTuple):
    """A provider that this thread may use, and its gate, which it must leave."""

    provider: Provider
    gate: RelayGate


@dataclass(slots=True)
class ChannelRuntime:
    """A channel of this process. `gate` is that of its relay, if it has only one provider.

    `bounce_domain`: the domain of the addresses to which its mails come back; empty: that of the sender.
    `is_chat`: a repeated message stands below the first one.
    """

    name: str
    channel: Channel
    public_url: str
    gate: RelayGate = field(default_factory=RelayGate)
    bounce_domain: str = ""
    is_chat: bool = False
    hosts: HostGates = field(default_factory=HostGates)
    # A domain limits no threads: people of one company are at one domain.
    domains: HostGates = field(
        default_factory=lambda: HostGates(max_threads=MAX_THREADS, max_of_account=MAX_THREADS)
    )
    _provider_gates: dict[str, RelayGate] = field(default_factory=dict)

    @property
    def is_of_hosts(self) -> bool:
        return isinstance(self.channel, ChannelOfHosts)

    def find_domain(self, to: str) -> str | None:
        """Return the domain of an address; None: those of this channel have none."""
        return self.channel.get_domain(to) if isinstance(self.channel, ChannelOfDomains) else None

    def enter_host(self, to: str, account: int) -> EnteredHost | NotEntered | None:
        """Enter the gates of the host or the domain of an address; None: those of this channel have none."""
        if isinstance(self.channel, ChannelOfHosts):
            return self.hosts.enter(self.channel.get_host(to), account)
        domain = self.find_domain(to)
        return self.domains.enter(domain, account) if domain is not None else None

    def enter(self) -> Entered | None:
        """Enter the gate of the first provider that is not down; None: no thread more may send now."""
        for provider in self._list_providers():
            gate = self.get_gate(provider)
            if gate.enter():
                return Entered(provider, gate)
            if not gate.is_down():
                # All threads of this provider are in use: the next one is for a failure only.
                return None
        return None

    def has_other(self, provider: Provider) -> bool:
        """Return whether another provider is not down."""
        others = (each for each in self._list_providers() if each.name != provider.name)
        return any(not self.get_gate(each).is_down() for each in others)

    def is_down(self) -> bool:
        """Return whether no provider of the channel can be used."""
        return all(self.get_gate(each).is_down() for each in self._list_providers())

    def get_gate(self, provider: Provider) -> RelayGate:
        if not isinstance(self.channel, ChannelWithProviders):
            return self.gate
        known = self._provider_gates.get(provider.name)
        if known is None:
            new = RelayGate(threshold=PROVIDER_THRESHOLD, pause_s=PROVIDER_PAUSE_S)
            # Another thread may have added it in this moment.
            known = self._provider_gates.setdefault(provider.name, new)
        return known

    def _list_providers(self) -> Sequence[Provider]:
        channel = self.channel
        if isinstance(channel, ChannelWithProviders):
            return channel.list_providers()
        return (Provider("", channel.create_connection),)
