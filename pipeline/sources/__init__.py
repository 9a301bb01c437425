"""One normalizer per monitoring tool, selected by the extension in the URL (contract X36 and section 6).

A tool of the catalogue (models/domain/applications.py) without a normalizer is read in the generic form.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from models.domain.applications import KINDS
from pipeline.alert import ParsedAlert
from pipeline.sources import generic, heartbeat, httphealthcheck, prometheus
from pipeline.sources.body import RequestBody

KIB = 1024
Parse = Callable[[RequestBody], list[ParsedAlert]]


@dataclass(frozen=True, slots=True)
class Source:
    """`parse` reads a body into its alerts, in order, or raises BadBody. `max_bytes` limits the body.

    `count_alerts` returns only their number, or raises the same error. Where a body can have many alerts, it
    is much cheaper. `is_generic`: the body is read in the generic form.
    """

    extension: str
    parse: Parse
    max_bytes: int = 512 * KIB
    count_alerts: Callable[[RequestBody], int] | None = None
    is_generic: bool = False

    def count(self, body: RequestBody) -> int:
        """Return the number of alerts in a body, or raise BadBody."""
        return len(self.parse(body)) if self.count_alerts is None else self.count_alerts(body)


# A line for each tool with a normalizer.
NORMALIZERS = (
    Source(generic.EXTENSION, generic.parse, is_generic=True),
    Source("prometheus", prometheus.parse, 8192 * KIB, prometheus.count),
    Source(heartbeat.EXTENSION, heartbeat.parse),
    Source(httphealthcheck.EXTENSION, httphealthcheck.parse),
)


def _parse_generic(kind: str, body: RequestBody) -> list[ParsedAlert]:
    return [replace(generic.parse_any(body), read_as_generic=kind)]


SOURCES: dict[str, Source] = {
    **{kind: Source(kind, partial(_parse_generic, kind), is_generic=True) for kind in KINDS},
    **{source.extension: source for source in NORMALIZERS},
}

# The sources of stored receipts: also those that Tocsin writes itself. No URL leads to them, so that no
# sender can speak as Tocsin.
STORED_SOURCES: dict[str, Source] = {
    **SOURCES,
    heartbeat.MISSING_PING: Source(heartbeat.MISSING_PING, heartbeat.parse_missing),
}
