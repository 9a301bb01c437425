"""Telling people that something was set aside (law 9): an incident on a service, within its transaction."""

from collections.abc import Callable
from datetime import datetime

import structlog

from models.domain.effects import ChangeSet
from models.store.base import STORE_ERRORS, db
from models.tables.services import Service
from models.write.apply import apply
from pipeline.lane_state import EntityKey, LaneState
from pipeline.stages import dead_letter
from workers.alerts import lane_state, retry

log = structlog.get_logger()


def describe_error(error: Exception, stage: str) -> str:
    """An error by its class alone: its text may quote what users wrote."""
    return f"{type(error).__name__} at {stage}"


def report_dead_letter(
    service: Service,
    integration: int,
    trace_id: str,
    receipt: int,
    at: datetime,
    error: str,
    now: datetime | None = None,
) -> frozenset[int]:
    """Open the incident about it on a locked service, or leave the one that is open; the channels to ring."""
    log.error("an alert is set aside", trace_id=trace_id, error=error)
    alert = dead_letter.build_alert(trace_id, receipt, integration, at)
    keys = {(integration, alert.entity_id)}
    return _open_incident(service, keys, at, now, lambda state: dead_letter.report_dead_letter(alert, state))


def report_deleted_integration(service: Service, name: str, count: int, at: datetime) -> frozenset[int]:
    """Open an incident on a locked service about alerts whose integration was deleted before it was their
    turn; `name` is theirs alone. The channels to ring."""
    log.error("alerts of a deleted integration are set aside", service=service.id, count=count)
    return _open_incident(
        service, set(), at, None, lambda state: dead_letter.report_deleted(name, count, state, at)
    )


def _open_incident(
    service: Service,
    keys: set[EntityKey],
    at: datetime,
    now: datetime | None,
    decide: Callable[[LaneState], ChangeSet],
) -> frozenset[int]:
    try:
        with db.atomic():
            state = lane_state.load(service, keys, accepted_at=at, now=now)
            return apply(decide(state), lane_state.get_rows(state)).channels
    except (*STORE_ERRORS, *retry.RETRY_ERRORS):
        raise
    except Exception:
        # What broke the alert may break this as well; the alerts behind it must go on all the same.
        log.exception("nobody could be told of an alert that was set aside", service=service.id)
        return frozenset()
