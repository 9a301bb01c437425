"""Report the dead letters of workers/alerts/process_lane.py and workers/alerts/process_router.py.

Report skipped rules. Make dead letters of pending alerts whose service, integration or router was deleted.

An incident on the alert's service reports a dead letter: invariant 9 (design, section 2). If there is no
service left, the dead letter is listed (`tocsin dead-letters`), counted and logged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import peewee
import structlog

from models.domain.effects import ChangeSet
from models.domain.enums import WorkState
from models.domain.reasons import Reason, make_reason
from models.load.lane import lock_service
from models.store.peewee_internals import get_table_name
from models.store.store import STORE_ERRORS, db, store
from models.tables.events import Event, Receipt
from models.tables.services import Service
from models.write.apply import apply
from pipeline.alert import Alert
from pipeline.incidents import dead_letter_incident, skipped_rules_incident
from pipeline.lane_state import EntityKey, LaneState
from workers.alerts import amazon, load_lane_state, retry
from workers.delivery import deliver

log = structlog.get_logger()


def describe_error(error: Exception, stage: str) -> Reason:
    """Return the class of an error and the stage. The error's text may quote what users wrote."""
    if isinstance(error, amazon.CertificateUnavailable):
        return error.reason
    return make_reason("alert_failed", error=type(error).__name__, stage=stage)


def report_dead_letter(
    service: Service,
    integration: int,
    trace_id: str,
    receipt: int,
    at: datetime,
    error: Reason,
    now: datetime | None = None,
) -> frozenset[int]:
    """Open an incident about a dead letter on a locked service, unless there is an open one.

    Return the channels with messages to send.
    """
    log.error("alert became a dead letter", service=service.id, trace_id=trace_id, error=str(error))
    alert = dead_letter_incident.build_alert(trace_id, receipt, integration, at)
    keys = {(integration, alert.entity_id)}
    return _open_incident(
        service, keys, at, now, lambda state: dead_letter_incident.open_for_dead_letter(alert, state)
    )


def report_skipped_rules(
    service: Service, alert: Alert, now: datetime | None = None, router: str | None = None
) -> frozenset[int]:
    """Open an incident on a locked service about skipped rules, unless there is an open one.

    `router` is the name of the router to which the rules belong (None: they belong to the integration).
    Return the channels with messages to send.
    """
    log.warning("rules of an alert were skipped", trace_id=alert.trace_id, service=service.id)
    return _open_incident(
        service,
        {(alert.integration, skipped_rules_incident.get_entity_id(router))},
        alert.effective_at,
        now,
        lambda state: skipped_rules_incident.open_for_skipped_rules(alert, state, router),
    )


def report_deleted_integration(service: Service, name: str, count: int, at: datetime) -> frozenset[int]:
    """Open an incident on a locked service about the pending alerts of a deleted integration.

    `name` is unique for these alerts. Return the channels with messages to send.
    """
    log.error("alerts of a deleted integration became dead letters", service=service.id, count=count)
    return _open_incident(
        service,
        set(),
        at,
        None,
        lambda state: dead_letter_incident.open_for_deleted_integration(name, count, state, at),
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
            state = load_lane_state.load(service, keys, accepted_at=at, now=now)
            return apply(decide(state), load_lane_state.get_rows(state)).channels
    except (*STORE_ERRORS, *retry.RETRY_ERRORS):
        raise
    except Exception:
        # The error that caused the dead letter may occur here too. Later alerts must still be processed.
        log.exception("incident by Tocsin could not be opened", service=service.id)
        return frozenset()


# --- alerts whose service, integration or router was deleted -------------------------------------------


@dataclass(frozen=True, slots=True)
class LostOwner:
    """A kind of deleted owner: `condition` selects the rows of `table` whose `owner` was deleted.

    `has_service`: the rows still have a service, and an incident on it reports them.
    """

    table: type[Receipt] | type[Event]
    owner: str
    condition: peewee.Expression
    has_service: bool = False


LOST_OWNERS = (
    LostOwner(
        Receipt,
        "service or router",
        Receipt.router.is_null() & Receipt.service.is_null() & Receipt.integration.is_null(),
    ),
    LostOwner(
        Receipt,
        "integration",
        Receipt.service.is_null(False) & Receipt.integration.is_null(),
        has_service=True,
    ),
    LostOwner(Event, "service", Event.service.is_null()),
    LostOwner(
        Event, "integration", Event.service.is_null(False) & Event.integration.is_null(), has_service=True
    ),
)


def collect_dead_letters() -> None:
    """Make dead letters of all pending alerts whose owner was deleted, and report them."""
    for owner_lost in LOST_OWNERS:
        pending = (owner_lost.table.state == WorkState.PENDING) & owner_lost.condition
        if not owner_lost.table.select().where(pending).exists():
            continue
        if owner_lost.has_service:
            for (service,) in (
                owner_lost.table.select(owner_lost.table.service).where(pending).distinct().tuples()
            ):
                _collect_of_service(service, owner_lost, pending & (owner_lost.table.service == service))
        else:
            with store().write_transaction():
                count = _mark_dead_letters(owner_lost, pending)
            log.error(
                "alerts became dead letters, and no service is left to report them",
                owner=owner_lost.owner,
                count=count,
            )


def _mark_dead_letters(owner_lost: LostOwner, pending: peewee.Expression) -> int:
    query = owner_lost.table.update(
        state=WorkState.DEAD_LETTER, error=make_reason("owner_deleted", owner=owner_lost.owner)
    )
    return int(query.where(pending).execute())


def _collect_of_service(service_row: int, owner_lost: LostOwner, pending: peewee.Expression) -> None:
    with store().write_transaction():
        service = lock_service(service_row)
        first = owner_lost.table.select(peewee.fn.MIN(owner_lost.table.id)).where(pending).scalar()
        count = _mark_dead_letters(owner_lost, pending)
        if service is None or not count:
            return
        name = f"{get_table_name(owner_lost.table)} {first}"
        channels = report_deleted_integration(service, name, count, store().now())
    deliver.enqueue(channels)
