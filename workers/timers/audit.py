"""Reconcile all open incidents periodically: check their timers, and whether anybody was notified.

The audit repairs timers that were never written, and timers after a change of configuration whose wake-up was
lost. It rests between the pages of incidents, because 100,000 incidents of 10,000 services take up to 18 s of
CPU time (docs/experiments/large-database.md). Without rests, alerts would wait.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import structlog

from models.domain.effects import Author
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import make_reason
from models.load.incident_states import list_open_incidents, list_resolved_with_timers
from models.store.store import STORE_ERRORS, connection, store
from models.tables.incidents import Incident
from runtime import metrics
from workers import steps
from workers.steps import Rest, Steps
from workers.timers.reconcile import Cause, Difference, PageLoader, count_timers, load_pages, reconcile

log = structlog.get_logger()

# The seconds from the beginning of an audit to that of the next one.
EVERY_S = 300
# An audit uses at most a fifth of a core. Later than REST_FOR_S after its beginning it has no rests, so that
# it ends before the next one is due.
REST_FACTOR = 4.0
REST_FOR_S = 0.8 * EVERY_S

CAUSE = Cause(Author(AuthorKind.TIMER, "audit"), "timers_repaired", make_reason("timers_repaired"))


def run() -> None:
    """Audit as a periodic job: with rests between the pages."""
    audit(rest=steps.rest)


def audit(now: datetime | None = None, rest: Rest | None = None) -> int:
    """Reconcile all open incidents, and resolved ones that still have timers. Return how many were checked.

    `rest` is called between two pages; None: there are no rests. If the process stops, only the first pages
    are checked.

    An incident that fails, or a service whose incidents cannot be read, does not stop the others. Raise the
    error of the database if no incident could be read, and immediately if the database is unavailable.
    """
    checked, repaired = 0, Counter[str]()
    errors: list[Exception] = []
    pages = Steps(rest, factor=REST_FACTOR, rest_for_s=REST_FOR_S)
    with connection():
        for service, load_page in _list_page_loaders():
            try:
                for page in load_pages(load_page, pages.begin):
                    checked += len(page)
                    repaired += _report(reconcile(page, CAUSE, now))
            except STORE_ERRORS as error:
                if store().is_unavailable(error):
                    raise
                errors.append(error)
                log.warning("incidents cannot be audited", service=service, error=type(error).__name__)
    if repaired:
        log.warning("audit found stored timers that differ from the expected timers", **repaired)
    if errors and not checked:
        raise errors[0]
    return checked


def _list_page_loaders() -> Iterator[tuple[int | None, PageLoader]]:
    """List the loaders of open incidents, one per service, and of resolved incidents with pending timers."""
    query = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
    for (service_row,) in list(query.distinct().tuples()):
        yield service_row, partial(list_open_incidents, service_row)
    yield None, list_resolved_with_timers


def _report(repaired: Sequence[Difference]) -> Counter[str]:
    counts = count_timers(repaired)
    timers = {each.incident.row: each.timers for each in repaired if each.timers}
    if timers:
        log.warning("timers repaired", **counts, incidents=timers)
    for what, count in counts.items():
        metrics.count_repaired(what, count)
    return counts
