"""Looks at every open incident now and then: has it the timers that it should have, was anybody told?

Mends what was never written, and what a change of configuration moved whose bell was lost.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import structlog

from models.base import STORE_ERRORS, connection, store
from models.effects import Actor
from models.enums import ActorKind, IncidentStatus
from models.incident_states import open_incidents_after, over_with_timers_after
from models.incidents import Incident
from tocsin import metrics
from workers.planning import Difference, Walk, Why, counted, pages, reconciled

log = structlog.get_logger()

AUDIT = Why(Actor(ActorKind.TIMER, "audit"), "timers_mended", "planned anew by the audit")


def audit(now: datetime | None = None) -> int:
    """Look at all open incidents; returns how many. An incident that fails keeps none of the others from it,
    nor does a service whose incidents the store cannot read. Raises what the store said where nothing could
    be read, and at once where nobody can use it."""
    looked_at, mended = 0, Counter[str]()
    unread: list[Exception] = []
    with connection():
        for service, walk in _walks():
            try:
                for page in pages(walk):
                    looked_at += len(page)
                    mended += _told(reconciled(page, AUDIT, now))
            except STORE_ERRORS as error:
                if store().is_away(error):
                    raise
                unread.append(error)
                log.warning("incidents cannot be audited", service=service, error=type(error).__name__)
    if mended:
        log.warning("the audit found timers that were not as they should be", **mended)
    if unread and not looked_at:
        raise unread[0]
    return looked_at


def _walks() -> Iterator[tuple[int | None, Walk]]:
    """All open incidents by their service, and others for which timers wait."""
    open_ones = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
    for (service_row,) in list(open_ones.distinct().tuples()):
        yield service_row, partial(open_incidents_after, service_row)
    yield None, over_with_timers_after


def _told(mended: Sequence[Difference]) -> Counter[str]:
    counts = counted(mended)
    timers = {each.incident.row: each.told for each in mended if each.timers}
    if timers:
        log.warning("timers mended", **counts, incidents=timers)
    for what, count in counts.items():
        metrics.count_mended(what, count)
    return counts
