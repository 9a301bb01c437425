"""One normalizer per monitoring tool, selected by the extension in the URL (contract X36 and section 6)."""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.alert import ParsedAlert
from pipeline.sources import generic, heartbeat, prometheus
from pipeline.sources.body import RequestBody

KIB = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """`parse` reads a body into its alerts, in order, or raises BadBody. `max_bytes` limits the body.

    `count` returns only their number, or raises the same error. Where a body can have many alerts, it is much
    cheaper.
    """

    extension: str
    parse: Callable[[RequestBody], list[ParsedAlert]]
    max_bytes: int
    count: Callable[[RequestBody], int]


def _count_one(parse: Callable[[RequestBody], list[ParsedAlert]]) -> Callable[[RequestBody], int]:
    return lambda body: len(parse(body))


SOURCES: dict[str, Source] = {
    source.extension: source
    for source in (
        Source(generic.EXTENSION, generic.parse, 512 * KIB, _count_one(generic.parse)),
        Source("prometheus", prometheus.parse, 8192 * KIB, prometheus.count),
        Source(heartbeat.EXTENSION, heartbeat.parse, 512 * KIB, _count_one(heartbeat.parse)),
    )
}

# The sources of stored receipts: also those that Tocsin writes itself. No URL leads to them, so that no
# sender can speak as Tocsin.
STORED_SOURCES: dict[str, Source] = {
    **SOURCES,
    heartbeat.MISSING_PING: Source(
        heartbeat.MISSING_PING, heartbeat.parse_missing, 512 * KIB, _count_one(heartbeat.parse_missing)
    ),
}
