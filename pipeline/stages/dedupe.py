"""Stage 4: is this alert news, or more of something already open? Contract sections 4.1 and 4.3."""

from dataclasses import replace
from datetime import datetime, timedelta

from models.effects import (
    Decision,
    Effect,
    EntityState,
    IncidentState,
    SaveEntity,
    go_on,
    stop,
)
from models.enums import AlertType, Collation, IncidentStatus, ServiceStatus
from pipeline import moves
from pipeline.additions import additions
from pipeline.alert import Alert, actor_of
from pipeline.coverage import covers
from pipeline.state import LaneState
from schedules.notices import told_at
from schedules.windows import in_force

# For how long after its acceptance a resolve still mutes triggers that are older than it (law 4).
RESOLVE_REMEMBERED = timedelta(hours=1)


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Suppress it, move the open incident of its entity, attach it there, or let it go on as new."""
    if alert.suppressed:
        return stop("suppressed: stored, no incident")
    entity = state.entity(alert.integration, alert.entity_id)
    if state.facts.service.status is ServiceStatus.DISABLED:
        return _while_disabled(alert, entity, state, now)
    if alert.alert_type is AlertType.RESOLVED:
        return _resolved(alert, entity, state, now)
    held = state.holder(entity)
    if alert.alert_type is AlertType.ACKNOWLEDGED:
        return _acknowledged(alert, held, state, now)
    maintenance = _maintenance(state, now)
    if maintenance is not None:
        return stop(maintenance, *_remembered(alert, entity, state, now), alert=alert.but(suppressed=True))
    if _older_than_resolve(alert, entity, now):
        return stop("older than the last resolve of its entity, by its source's own time")
    if held is not None:
        fires = () if entity.firing else (SaveEntity(entity.held_by(held.unique_id)),)
        added = additions(alert, held, state, now)
        return stop("its entity has an open incident", *fires, *added, incident=held.unique_id)
    return _collated(alert, entity, state, now) or go_on("its entity has no open incident")


def released(at: datetime) -> tuple[str, str]:
    """What the road says of an alert that was kept back until then."""
    return (
        "release",
        f"kept back no more, and it still burns: released {at:%Y-%m-%d %H:%M:%S} UTC",
    )


def _while_disabled(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision:
    """Stored only. What is kept back is not told any more once it is resolved. What was released before the
    service was disabled, or said by Tocsin itself, which asks first whether it is, waits until it is enabled.
    """
    effects: tuple[Effect, ...] = ()
    if alert.alert_type is AlertType.RESOLVED and entity.kept_back is not None:
        effects = (SaveEntity(replace(entity, kept_back=None)),)
    elif alert.released_at is not None or alert.parsed.is_own:
        effects = _remembered(alert, entity, state, now)
        if effects:
            return stop("the service is disabled: to be told when it is enabled again", *effects)
    return stop("the service is disabled: stored, no incident", *effects)


def _remembered(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> tuple[Effect, ...]:
    """What people would have been told of is remembered until they may be, if it still burns then
    (workers/maintenance.py)."""
    burns = covers(state.facts.integrations[alert.integration], alert.alert_type)
    if not burns or _older_than_resolve(alert, entity, now):
        return ()
    return (SaveEntity(replace(entity, kept_back=alert.event_id)),)


def _maintenance(state: LaneState, now: datetime) -> str | None:
    """By what the service is under maintenance, None when it is not: at the alert's own moment or, where that
    has waited, at the one at which it is worked on."""
    if state.facts.service.under_maintenance:
        return "the service is under maintenance"
    moments = dict.fromkeys((now, told_at(state.facts.directory, now)))
    found = (in_force(state.facts.windows, moment) for moment in moments)
    return next((str(one) for one in found if one is not None), None)


def _resolved(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision:
    said_at = min(alert.parsed.source_at, now) if alert.parsed.source_at else None
    cleared = replace(entity.released(is_seen=True), resolved_source_at=said_at, resolved_at=now)
    held = state.holder(entity)
    if held is None:
        return stop("nothing open to resolve", SaveEntity(cleared))
    others = state.others_firing(held, entity)
    if others > 0:
        added = additions(alert, held, state, now)
        reason = f"its entity is resolved, {others} more of the incident still fire{'s' * (others == 1)}"
        return stop(reason, SaveEntity(cleared), *added, incident=held.unique_id)
    moved = _move(alert, held, IncidentStatus.RESOLVED, state, now)
    added = additions(alert, held.but(status=IncidentStatus.RESOLVED), state, now)
    return stop("resolves the incident", SaveEntity(cleared), *moved, *added, incident=held.unique_id)


def _acknowledged(alert: Alert, held: IncidentState | None, state: LaneState, now: datetime) -> Decision:
    if held is None:
        return stop("nothing open to acknowledge")
    moved = _move(alert, held, IncidentStatus.ACKNOWLEDGED, state, now)
    reason = "acknowledges the incident" if moved else "the incident is acknowledged already"
    return stop(reason, *moved, *additions(alert, held, state, now), incident=held.unique_id)


def _move(
    alert: Alert, held: IncidentState, to: IncidentStatus, state: LaneState, now: datetime
) -> tuple[Effect, ...]:
    facts = state.facts
    reason = f"an alert said {alert.alert_type.name.lower()}"
    children = state.children_of(held) if to is IncidentStatus.RESOLVED else ()
    return moves.move(held, to, facts.service, facts.directory, actor_of(alert), now, reason, children)


def _older_than_resolve(alert: Alert, entity: EntityState, now: datetime) -> bool:
    """Law 4: only the sources' own times are compared, and only for an hour; equal times page."""
    said_at, resolved_said_at = alert.parsed.source_at, entity.resolved_source_at
    if said_at is None or resolved_said_at is None or entity.resolved_at is None:
        return False
    return said_at < resolved_said_at and now - entity.resolved_at <= RESOLVE_REMEMBERED


def _collated(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision | None:
    """Time-based collation: into the incident that still collects, counted from its creation."""
    service = state.facts.service
    if service.collation is not Collation.TIME_BASED:
        return None
    latest = state.collecting()
    if latest is None:
        return None
    if not covers(state.facts.integrations[alert.integration], alert.alert_type):
        return None
    if now - latest.creation_date > timedelta(minutes=service.collation_minutes):
        return None
    return stop(
        "joins the incident that the service is collecting into",
        SaveEntity(entity.held_by(latest.unique_id)),
        *additions(alert, latest, state, now),
        incident=latest.unique_id,
    )
