"""Decide which connections are closed when there are many, so that new senders are served.

The server accepts no connection beyond a limit. A request is complete within milliseconds, so that a
connection without a complete one is that of a client that is slow, or that wants to keep others out. Only
such connections are closed, long before the limit: by their age, because with single bytes a client can keep
a connection busy for as long as it likes. Connections that wait for their next request stay, up to nearly
the limit.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    """What a connection is doing."""

    # No first line or headers yet, or not all of them.
    HEADERS = auto()
    BODY = auto()
    ANSWER = auto()
    # It has got its answer, and waits for the next request.
    IDLE = auto()


@dataclass(frozen=True, slots=True)
class Connection:
    """`handle` is its open file, `client` IP:PORT.

    `age_s` is the time since the last answer, or since it was opened; `silence_s` that since its last byte.
    """

    handle: int
    client: str
    phase: Phase
    age_s: float
    silence_s: float


# Above half of the limit, those are closed whose headers take longer, and whose bodies are silent for longer.
HEADERS_S = 5.0
SILENCE_S = 1.0
# There, one client network has at most this share of the limit without complete headers.
NETWORK_SHARE = 1 / 8
# Above three quarters, those are closed whose requests take longer.
CROWDED_S = 0.5
# Above this share, those too that wait for their next request, the longest silence first. HTTP allows it.
FULL = 63 / 64


def choose_to_close(
    connections: Sequence[Connection], limit: int, find_network: Callable[[str], str | None]
) -> list[Connection]:
    """Return the connections to close, of all open ones, so that new ones have room below the limit.

    `find_network` returns the network of a client; None: many clients may share this one.
    """
    if len(connections) <= limit // 2:
        return []
    oldest = sorted(connections, key=lambda each: -each.age_s)
    chosen = dict.fromkeys(_list_beyond_share(oldest, max(1, int(limit * NETWORK_SHARE)), find_network))
    for share, candidates in (
        (1 / 2, [each for each in oldest if _is_slow(each)]),
        (3 / 4, [each for each in oldest if _is_unfinished(each) and each.age_s >= CROWDED_S]),
        (FULL, sorted(filter(_is_idle, connections), key=lambda each: -each.silence_s)),
    ):
        excess = len(connections) - len(chosen) - int(limit * share)
        more = (each for each in candidates if each not in chosen)
        chosen |= dict.fromkeys(each for each, _ in zip(more, range(excess), strict=False))
    return list(chosen)


def _list_beyond_share(
    oldest: Sequence[Connection], most: int, find_network: Callable[[str], str | None]
) -> Iterator[Connection]:
    """Yield the oldest connections without complete headers of each network that has more than its share."""
    by_client = {each: find_network(each.client) for each in oldest if each.phase is Phase.HEADERS}
    excess = Counter(network for network in by_client.values() if network is not None)
    excess.subtract(dict.fromkeys(excess, most))
    for each, network in by_client.items():
        if network is not None and excess[network] > 0:
            excess[network] -= 1
            yield each


def _is_slow(connection: Connection) -> bool:
    if connection.phase is Phase.BODY:
        return connection.silence_s >= SILENCE_S
    return connection.phase is Phase.HEADERS and connection.age_s >= HEADERS_S


def _is_unfinished(connection: Connection) -> bool:
    return connection.phase in (Phase.HEADERS, Phase.BODY)


def _is_idle(connection: Connection) -> bool:
    return connection.phase is Phase.IDLE and connection.silence_s >= SILENCE_S
