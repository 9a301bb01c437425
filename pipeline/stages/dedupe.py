"""Stage 4: decide whether an alert is new. A duplicate is an alert whose entity an open incident holds.

The stage also applies disabled services, maintenance and both kinds of collation: contract 4.1 and 4.3.
"""

from datetime import datetime, timedelta

from models.domain.effects import Decision, Effect, EntityState, IncidentState, SaveEntity, proceed, stop
from models.domain.enums import AlertType, Collation, IncidentStatus, ServiceStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline import incidents
from pipeline.alert import Alert, build_alert_author
from pipeline.incidents.grouping import get_keys
from pipeline.lane_state import LaneState
from pipeline.stages import resent_alerts
from pipeline.stages.added_details import build_details
from pipeline.stages.incident import opens_incident
from schedules.escalation.person_notifications import get_routing_time
from schedules.maintenance import find_in_force


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Decide on an alert, and on the times of its entity if the source sends the alert again."""
    if not (alert.parsed.is_resent or alert.parsed.is_expiry):
        return _decide(alert, state, now)
    entity = state.get_entity(alert.integration, alert.entity_id)
    if alert.parsed.is_resent and alert.suppressed:
        return _decide_suppressed(alert, entity, state, now)
    if alert.parsed.is_resent and _stays_unknown(alert, entity, state, now):
        return _decide(alert, state, now)
    if resent_alerts.is_known_end(alert, entity, now):
        return replace(stop(make_reason("sent_again")), is_repeated=True)
    if alert.parsed.is_expiry:
        if not resent_alerts.has_expired(entity, now):
            return replace(stop(make_reason("sent_again")), is_repeated=True)
        return resent_alerts.save_expiry(_decide(alert, state, now), resent_alerts.extend(alert, entity, now))
    extended = resent_alerts.extend(alert, entity, now)
    if resent_alerts.is_repeated(alert, entity, now):
        return replace(stop(make_reason("sent_again"), SaveEntity(extended)), is_repeated=True)
    return resent_alerts.save_expiry(_decide(alert, state, now), extended)


def _stays_unknown(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> bool:
    """Return whether a resent alert says nothing about its entity, so that the next one must be decided."""
    is_disabled = state.facts.service.status is ServiceStatus.DISABLED
    return is_disabled or _is_older_than_resolve(alert, entity, now)


def _decide_suppressed(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision:
    """Store a resent alert that a rule suppresses. It extends its entity, whose incident may be open."""
    decision, extended = _decide(alert, state, now), resent_alerts.extend_suppressed(alert, entity, now)
    return decision if extended is entity else resent_alerts.save_expiry(decision, extended)


def _decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Suppress the alert, change the open incident of its entity, attach the alert to it, or proceed as
    new.
    """
    if alert.suppressed:
        return stop(make_reason("suppressed"))
    entity = state.get_entity(alert.integration, alert.entity_id)
    if state.facts.service.status is ServiceStatus.DISABLED:
        return _decide_disabled(alert, entity, state, now)
    if alert.alert_type is AlertType.RESOLVED:
        return _decide_resolved(alert, entity, state, now)
    incident = state.get_open_incident(entity)
    if alert.parsed.is_comment:
        return _decide_comment(alert, incident, state, now)
    if alert.alert_type is AlertType.ACKNOWLEDGED:
        return _decide_acknowledged(alert, incident, state, now)
    maintenance = _find_maintenance(state, now)
    if maintenance is not None:
        return stop(
            maintenance, *_defer(alert, entity, state, now), alert=alert.with_changes(suppressed=True)
        )
    if _is_older_than_resolve(alert, entity, now):
        return stop(make_reason("older_than_resolve"))
    if incident is not None:
        saved = () if entity.firing else (SaveEntity(entity.with_incident(incident.unique_id)),)
        added = build_details(alert, incident, state, now)
        return stop(make_reason("entity_has_incident"), *saved, *added, incident=incident.unique_id)
    joined = _collate(alert, entity, state, now) or _join_group(alert, entity, state, now)
    return joined or proceed(make_reason("entity_is_new"))


def build_release_reason(at: datetime) -> tuple[str, Reason]:
    """Return the stage and the reason for an alert that maintenance deferred, released at this time."""
    return "maintenance_end", make_reason("released", at=at.isoformat())


def _decide_disabled(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision:
    """Store the alert without an incident, since the service is disabled. A resolve ends a deferred alert.

    An alert that was released before the service was disabled, or that Tocsin wrote itself, is deferred until
    the service is enabled. Tocsin writes an alert only while the service is enabled, so such a service was
    disabled afterwards.
    """
    effects: tuple[Effect, ...] = ()
    if alert.alert_type is AlertType.RESOLVED and entity.deferred_alert is not None:
        effects = (SaveEntity(replace(entity, deferred_alert=None)),)
    elif alert.released_at is not None or alert.parsed.is_own:
        effects = _defer(alert, entity, state, now)
        if effects:
            return stop(make_reason("service_disabled_deferred", service=state.facts.service.name), *effects)
    return stop(make_reason("service_disabled", service=state.facts.service.name), *effects)


def _defer(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> tuple[Effect, ...]:
    """Store a deferred alert that would open an incident, so that people are notified of it later.

    workers/periodic/release_maintenance.py releases the alert later if it is still firing.
    """
    is_firing = opens_incident(state.facts.integrations[alert.integration], alert.alert_type)
    if not is_firing or _is_older_than_resolve(alert, entity, now):
        return ()
    return (SaveEntity(replace(entity, deferred_alert=alert.event_id)),)


def _find_maintenance(state: LaneState, now: datetime) -> Reason | None:
    """Return why the service is under maintenance, or None.

    The maintenance can apply at the time of the alert or, if it was processed late, at the processing time.
    """
    if state.facts.service.under_maintenance:
        return make_reason("service_under_maintenance", service=state.facts.service.name)
    if not state.facts.windows:
        return None
    moments = dict.fromkeys((now, get_routing_time(state.facts.config, now)))
    found = (find_in_force(state.facts.windows, moment) for moment in moments)
    return next((window.why for window in found if window is not None), None)


def _decide_resolved(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision:
    source_at = min(alert.parsed.source_at, now) if alert.parsed.source_at else None
    cleared = replace(entity.without_incident(by_person=True), resolved_source_at=source_at, resolved_at=now)
    incident = state.get_open_incident(entity)
    if incident is None:
        return stop(make_reason("nothing_to_resolve"), SaveEntity(cleared))
    other_count = state.count_others_firing(incident, entity)
    if other_count > 0:
        added = build_details(alert, incident, state, now)
        why = make_reason("others_firing", count=other_count)
        return stop(why, SaveEntity(cleared), *added, incident=incident.unique_id)
    effects = _change_status(alert, incident, IncidentStatus.RESOLVED, state, now)
    added = build_details(alert, incident.with_changes(status=IncidentStatus.RESOLVED), state, now)
    why = make_reason("resolves_incident")
    return stop(why, SaveEntity(cleared), *effects, *added, incident=incident.unique_id)


def _decide_acknowledged(
    alert: Alert, incident: IncidentState | None, state: LaneState, now: datetime
) -> Decision:
    if incident is None:
        return stop(make_reason("nothing_to_acknowledge"))
    effects = _change_status(alert, incident, IncidentStatus.ACKNOWLEDGED, state, now)
    why = make_reason("acknowledges_incident") if effects else make_reason("acknowledged_already")
    return stop(why, *effects, *build_details(alert, incident, state, now), incident=incident.unique_id)


def _decide_comment(
    alert: Alert, incident: IncidentState | None, state: LaneState, now: datetime
) -> Decision:
    if incident is None:
        return stop(make_reason("nothing_to_comment"))
    added = build_details(alert, incident, state, now)
    return stop(make_reason("comments_incident"), *added, incident=incident.unique_id)


def _change_status(
    alert: Alert, incident: IncidentState, status: IncidentStatus, state: LaneState, now: datetime
) -> tuple[Effect, ...]:
    facts = state.facts
    children = tuple(state.get_children(incident)) if status is IncidentStatus.RESOLVED else ()
    context = IncidentContext(incident, facts.service, facts.config, build_alert_author(alert), now, children)
    why = make_reason("alert_says", level=alert.alert_type.name.lower())
    return incidents.change_status(context, status, why)


def _is_older_than_resolve(alert: Alert, entity: EntityState, now: datetime) -> bool:
    """Return whether the alert is older than the last resolve of its entity, by the source's own times.

    The times are compared for one hour only, and equal times do not count as older: invariant 4 (design,
    section 2).
    """
    source_at, resolved_source_at = alert.parsed.source_at, entity.resolved_source_at
    if source_at is None or resolved_source_at is None or not resent_alerts.remembers_resolve(entity, now):
        return False
    if alert.parsed.is_resent and resent_alerts.outlives_resolve(alert, entity, now):
        return False
    return source_at < resolved_source_at


def _collate(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision | None:
    """Add the alert to the collecting incident (time-based collation), if that incident is new enough.

    The minutes count from the creation of that incident.
    """
    service = state.facts.service
    latest = state.get_collecting() if service.collation is Collation.TIME_BASED else None
    integration = state.facts.integrations[alert.integration]
    if latest is None or not opens_incident(integration, alert.alert_type):
        return None
    if now - latest.creation_date > timedelta(minutes=service.collation_minutes):
        return None
    return stop(
        make_reason("joins_incident", service=service.name),
        SaveEntity(entity.with_incident(latest.unique_id)),
        *build_details(alert, latest, state, now),
        incident=latest.unique_id,
    )


def _join_group(alert: Alert, entity: EntityState, state: LaneState, now: datetime) -> Decision | None:
    """Add the alert to the incident that an alert with the same values opened (content-based grouping)."""
    integration = state.facts.integrations[alert.integration]
    if not opens_incident(integration, alert.alert_type):
        return None
    incident = state.find_grouped(get_keys(alert, state), now)
    if incident is None:
        return None
    return stop(
        make_reason("joins_group", service=state.facts.service.name),
        SaveEntity(entity.with_incident(incident.unique_id)),
        *build_details(alert, incident, state, now),
        incident=incident.unique_id,
    )
