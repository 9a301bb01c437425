"""URLs that users give and that Tocsin requests: their form, and the addresses to which they may lead.

An address is judged as a number, after the name was resolved: a text has many spellings of one address.
"""

import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2_000
DEFAULT_PORTS = {"http": 80, "https": 443}
# Below 1024 are the services of a host, such as mail and remote login. Above, these understand lines of text,
# so a request could contain commands for them.
FIRST_FREE_PORT = 1024
REFUSED_PORTS = frozenset({1433, 1521, 2049, 3306, 5432, 6379, 6667, 11211, 26379})

# Without user and password, and without a fragment, which is never sent.
URL_PATTERN = re.compile(r"https?://[A-Za-z0-9._\[\]:-]+(?:[/?][!-\"$-~]*)?")

# The networks that the registry of special addresses (RFC 6890) keeps from the internet, and others that do
# not lead to one host there. 168.63.129.16 is the service of a cloud for its own machines.
_REFUSED_V4 = tuple(
    IPv4Network(name)
    for name in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
    )
)  # fmt: skip
# Only these IPv6 addresses are in use in the internet.
_GLOBAL_V6 = IPv6Network("2000::/3")
# Protocols such as Teredo, documentation, and 6to4, which contains an IPv4 address.
_REFUSED_V6 = tuple(IPv6Network(name) for name in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")


class BadUrl(ValueError):
    """Tocsin does not request this URL; the text says what the URL must be, and continues "Must ..."."""


def parse_user_url(url: str) -> SplitResult:
    """Return the parts of a URL that has an allowed form. Raise BadUrl."""
    if len(url) > MAX_URL:
        raise BadUrl(f"have at most {MAX_URL} characters")
    if not URL_PATTERN.fullmatch(url):
        raise BadUrl(
            "be a URL that begins with https:// or http://, in ASCII, without user, password and fragment"
        )
    try:
        parts = urlsplit(url)
        port = get_port(parts)
    except ValueError:
        raise BadUrl("have a host and a port that can be read") from None
    if not parts.hostname:
        raise BadUrl("have a host and a port that can be read")
    if port not in DEFAULT_PORTS.values() and (port < FIRST_FREE_PORT or port in REFUSED_PORTS):
        raise BadUrl("have port 80, 443 or one from 1024 on, and not that of a database or a mail server")
    return parts


def find_problem(url: str) -> str:
    """Return a sentence about why Tocsin does not request this URL; empty if it does."""
    try:
        parse_user_url(url)
    except BadUrl as error:
        return f"Must {error}."
    return ""


def find_network_problem(url: str, networks: tuple[str, ...]) -> str:
    """Return a sentence about why no request may go to the address in a URL; empty if it may.

    `networks` are those of TOCSIN_WEBHOOK_NETWORKS. A host that is a name is not judged here: its addresses
    are checked where Tocsin connects.
    """
    try:
        address = _read_address(urlsplit(url).hostname or "")
    except ValueError:
        return ""
    if address is None or is_allowed(address, parse_networks(networks)):
        return ""
    return (
        "Must not lead to an address of an inner network: only addresses in the internet, and those in"
        " TOCSIN_WEBHOOK_NETWORKS, are requested."
    )


def _read_address(host: str) -> Address | None:
    """Return the address that a host is, in any spelling that the system reads; None if it is a name."""
    try:
        # This function of the system reads 127.1 and 0x7f000001 too. It resolves no name.
        return IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        return IPv6Address(host) if ":" in host else None


def get_port(parts: SplitResult) -> int:
    return parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]


def parse_networks(names: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(name) for name in names)


def is_allowed(address: Address, networks: tuple[Network, ...] = ()) -> bool:
    """Return whether a request of a user may go to this address: it is public, or in one of `networks`."""
    inner = _find_inner(address)
    if inner is not None:
        return is_allowed(inner, networks) or _is_in(address, networks)
    return is_public(address) or _is_in(address, networks)


def is_public(address: Address) -> bool:
    """Return whether an address is that of a host in the internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _REFUSED_V6)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _find_inner(address: Address) -> IPv4Address | None:
    """Return the IPv4 address to which a mapped or translated IPv6 address leads."""
    if isinstance(address, IPv4Address):
        return None
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address.ipv4_mapped
