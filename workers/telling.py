"""Telling people that something was set aside (law 9): an incident on a service, within its transaction."""

from collections.abc import Callable
from datetime import datetime

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, db
from models.effects import Outcome
from models.services import Service
from pipeline import unreadable
from pipeline.state import Key, LaneState
from workers import anew, lane_state

log = structlog.get_logger()


def name_of(error: Exception, stage: str) -> str:
    """An error by its class alone: its text may quote what users wrote."""
    return f"{type(error).__name__} at {stage}"


def tell(
    service: Service,
    integration: int,
    trace_id: str,
    receipt: int,
    at: datetime,
    what: str,
    now: datetime | None = None,
) -> frozenset[int]:
    """Open the incident about it on a locked service, or leave the one that is open; the channels to ring."""
    log.error("an alert is set aside", trace_id=trace_id, error=what)
    alert = unreadable.alert_for(trace_id, receipt, integration, at)
    keys = {(integration, alert.entity_id)}
    return _told(service, keys, at, now, lambda state: unreadable.tell(alert, state))


def tell_lost(service: Service, name: str, count: int, at: datetime) -> frozenset[int]:
    """Open an incident on a locked service about alerts whose integration was deleted before it was their
    turn; `name` is theirs alone. The channels to ring."""
    log.error("alerts of a deleted integration are set aside", service=service.id, count=count)
    return _told(service, set(), at, None, lambda state: unreadable.tell_lost(name, count, state, at))


def _told(
    service: Service,
    keys: set[Key],
    at: datetime,
    now: datetime | None,
    decide: Callable[[LaneState], Outcome],
) -> frozenset[int]:
    try:
        with db.atomic():
            state = lane_state.load(service, keys, accepted_at=at, now=now)
            return apply(decide(state), lane_state.rows_of(state)).channels
    except (*STORE_ERRORS, *anew.ANOTHER_TRANSACTION):
        raise
    except Exception:
        # What broke the alert may break this as well; the alerts behind it must go on all the same.
        log.exception("nobody could be told of an alert that was set aside", service=service.id)
        return frozenset()
