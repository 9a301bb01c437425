"""Looks at every open incident now and then: has it the timers that it should have, was anybody told?

Mends what was never written, and what a change of configuration moved whose bell was lost.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import structlog

from models.domain.effects import Actor
from models.domain.enums import ActorKind, IncidentStatus
from models.load.incidents import list_open_incidents, list_resolved_with_timers
from models.store.base import STORE_ERRORS, connection, store
from models.tables.incidents import Incident
from runtime import metrics
from workers.timers.reconcile import Cause, Difference, PageLoader, count_timers, load_pages, reconcile

log = structlog.get_logger()

CAUSE = Cause(Actor(ActorKind.TIMER, "audit"), "timers_repaired", "timers reconciled by the audit")


def audit(now: datetime | None = None) -> int:
    """Look at all open incidents; returns how many. An incident that fails keeps none of the others from it,
    nor does a service whose incidents the store cannot read. Raises what the store said where nothing could
    be read, and at once where nobody can use it."""
    checked, repaired = 0, Counter[str]()
    errors: list[Exception] = []
    with connection():
        for service, load_page in _list_page_loaders():
            try:
                for page in load_pages(load_page):
                    checked += len(page)
                    repaired += _report(reconcile(page, CAUSE, now))
            except STORE_ERRORS as error:
                if store().is_unavailable(error):
                    raise
                errors.append(error)
                log.warning("incidents cannot be audited", service=service, error=type(error).__name__)
    if repaired:
        log.warning("the audit found timers that were not as they should be", **repaired)
    if errors and not checked:
        raise errors[0]
    return checked


def _list_page_loaders() -> Iterator[tuple[int | None, PageLoader]]:
    """All open incidents by their service, and others for which timers wait."""
    query = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
    for (service_row,) in list(query.distinct().tuples()):
        yield service_row, partial(list_open_incidents, service_row)
    yield None, list_resolved_with_timers


def _report(repaired: Sequence[Difference]) -> Counter[str]:
    counts = count_timers(repaired)
    timers = {difference.incident.row: difference.description for difference in repaired if difference.timers}
    if timers:
        log.warning("timers mended", **counts, incidents=timers)
    for what, count in counts.items():
        metrics.count_repaired(what, count)
    return counts
