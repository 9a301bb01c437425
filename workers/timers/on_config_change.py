"""Reconcile the timers of open incidents after their policy, SLA or service was changed or deleted.

A timer fires at its stored due time, and the worker then decides from the current configuration. So nothing
is needed for a timer that is now due later than stored. A timer that is now due earlier is found here, or by
the next audit if the wake-up was lost.
"""

from datetime import datetime
from functools import partial

import dramatiq
import structlog

from models.domain.effects import Author
from models.domain.enums import AuthorKind
from models.domain.reasons import make_reason
from models.load.incident_states import list_open_incidents_with
from workers.broker import broker
from workers.lane_turns import turns
from workers.timers.reconcile import Cause, count_timers, load_pages, reconcile

log = structlog.get_logger()

# The reason in the timeline, by the column of incidents that refers to the changed row. If the row was
# deleted, incidents no longer refer to it and are found by their service.
REASONS = {
    "escalation_policy": make_reason("policy_edited"),
    "service": make_reason("service_edited"),
    "sla": make_reason("sla_edited"),
}


@dramatiq.actor(broker=broker, queue_name="reconcile", actor_name="reconcile")
def reconcile_timers(column: str, row: int) -> None:
    """Reconcile after a change of this row. One thread of this process at a time does this for a row."""
    if turns.work((column, row), lambda: reconcile_after_change(column, row)):
        reconcile_timers.send(column, row)


def reconcile_after_change(column: str, row: int, now: datetime | None = None) -> int:
    """Reconcile the timers of all open incidents with this row in this column. Return how many changed."""
    why = REASONS[column]
    cause = Cause(Author(AuthorKind.TIMER, "configuration"), "timers_reconciled", why)
    changed = 0
    for page in load_pages(partial(list_open_incidents_with, column, row)):
        changed += count_timers(reconcile(page, cause, now)).total()
    if changed:
        log.info("timers reconciled", reason=why.code, **{column: row}, timers=changed)
    return changed
