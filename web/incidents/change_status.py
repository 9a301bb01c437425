"""Acknowledge, resolve or snooze an incident for a reader of a message, whatever way the answer came."""

from datetime import datetime

from models.domain.effects import Author, Effect
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason
from models.write.change_incident import change_incident
from pipeline import incidents
from pipeline.messages.content import ACTIONS
from workers import queue


def change_status(incident: int, author: Author, action: str, why: Reason, now: datetime) -> bool:
    """Do an action of ACTIONS on an incident (row number). Return whether its status allowed the action.

    The caller may have opened the transaction, and workers find the messages only after its commit.
    """
    to, allowed = ACTIONS[action]

    def decide(context: IncidentContext) -> tuple[Effect, ...] | None:
        return incidents.change_status(context, to, why) if context.incident.status in allowed else None

    return change_incident(incident, author, decide, now, queue.enqueue_deliveries) is not None


def snooze(incident: int, author: Author, until: datetime, now: datetime) -> bool:
    """Snooze an incident (row number). Return whether its status allowed that."""

    def decide(context: IncidentContext) -> tuple[Effect, ...] | None:
        can_be_snoozed = incidents.check_snooze(context.incident) is None
        return incidents.snooze(context, until) if can_be_snoozed else None

    return change_incident(incident, author, decide, now, queue.enqueue_deliveries) is not None
