"""What follows from a policy, an SLA or a service is planned anew as soon as that was changed or deleted.

Timers wake for what was planned, and are decided on from what is true then: what comes later now is put
off by itself. What comes sooner is found here, or, where the bell was lost, by the next audit.
"""

from datetime import datetime
from functools import partial

import structlog

from models.base import connection
from models.effects import Actor
from models.enums import ActorKind
from models.incident_states import open_incidents_of
from workers.planning import Why, counted, pages, reconciled

log = structlog.get_logger()

# What is said of a change, by the column of incidents that names what was changed. Incidents do not name any
# more what was deleted, and are found by their service.
CHANGES = {
    "escalation_policy": "the escalation policy changed",
    "service": "the service changed, or its policy or SLA is gone",
    "sla": "the SLA changed",
}


def plan_anew(column: str, row: int, now: datetime | None = None) -> int:
    """Have the timers wait that follow from a row now, for all open incidents that have it in this column;
    returns how many timers that changed."""
    change = CHANGES[column]
    why = Why(Actor(ActorKind.TIMER, "configuration"), "planned_anew", f"planned anew: {change}")
    changed = 0
    with connection():
        for page in pages(partial(open_incidents_of, column, row)):
            changed += counted(reconciled(page, why, now)).total()
    if changed:
        log.info("timers planned anew", since=change, row=row, timers=changed)
    return changed
