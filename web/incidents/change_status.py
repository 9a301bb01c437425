"""Acknowledge or resolve an incident for a reader of a message, whatever way the answer came."""

from datetime import datetime
from functools import partial

from models.domain.effects import Author, ChangeSet
from models.domain.reasons import Reason
from models.load.lane import lock_incident
from models.store.store import store
from models.write.apply import apply
from pipeline import incidents
from pipeline.messages.content import ACTIONS
from workers import queue


def change_status(incident: int, author: Author, action: str, why: Reason, now: datetime) -> bool:
    """Do an action of ACTIONS on an incident (row number). Return whether its status allowed the action.

    The caller may have opened the transaction, and workers find the messages only after its commit.
    """
    to, allowed = ACTIONS[action]
    with store().write_transaction():
        context = lock_incident(incident, author, now)
        if context is None or context.incident.status not in allowed:
            return False
        written = apply(ChangeSet(effects=list(incidents.change_status(context, to, why))))
        store().after_commit(partial(queue.enqueue_deliveries, written.channels))
    return True
