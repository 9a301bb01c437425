"""What follows from a policy, an SLA or a service is planned anew as soon as that was changed or deleted.

Timers wake for what was planned, and are decided on from what is true then: what comes later now is put
off by itself. What comes sooner is found here, or, where the bell was lost, by the next audit.
"""

from datetime import datetime
from functools import partial

import structlog

from models.domain.effects import Actor
from models.domain.enums import ActorKind
from models.load.incidents import list_open_incidents_with
from models.store.base import connection
from workers.timers.reconcile import Cause, count_timers, load_pages, reconcile

log = structlog.get_logger()

# What is said of a change, by the column of incidents that names what was changed. Incidents do not name any
# more what was deleted, and are found by their service.
REASONS = {
    "escalation_policy": "the escalation policy changed",
    "service": "the service changed, or its policy or SLA is gone",
    "sla": "the SLA changed",
}


def reconcile_after_change(column: str, row: int, now: datetime | None = None) -> int:
    """Have the timers wait that follow from a row now, for all open incidents that have it in this column;
    returns how many timers that changed."""
    reason = REASONS[column]
    cause = Cause(Actor(ActorKind.TIMER, "configuration"), "timers_reconciled", f"planned anew: {reason}")
    changed = 0
    with connection():
        for page in load_pages(partial(list_open_incidents_with, column, row)):
            changed += count_timers(reconcile(page, cause, now)).total()
    if changed:
        log.info("timers planned anew", reason=reason, row=row, timers=changed)
    return changed
