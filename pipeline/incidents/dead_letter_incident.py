"""Report an alert that Tocsin could not process: one incident per integration.

This is invariant 9 (design, section 2).
"""

from datetime import datetime

from models.domain import identity
from models.domain.effects import Author, ChangeSet, EntityState, SaveEntity
from models.domain.enums import AuthorKind
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason, make_reason
from pipeline import incidents
from pipeline.alert import Alert, ParsedAlert, build_alert_author
from pipeline.incidents.new_incident import NewIncident, build_incident
from pipeline.lane_state import LaneState

ENTITY_ID = "tocsin:dead_letter"
MESSAGE = "Tocsin could not read an alert"
SUMMARY = (
    "An alert was accepted but could not be processed. It is stored as a dead letter and can be replayed;"
    " later alerts are processed as usual."
)
DELETED_MESSAGE = "Tocsin could not process alerts of a deleted integration"
DELETED_SUMMARY = (
    "The integration was deleted while it had pending alerts. They are stored as dead letters and listed by"
    " `tocsin dead-letters`; without the integration they cannot be processed."
)


def build_alert(trace_id: str, receipt: int, integration: int, accepted_at: datetime) -> Alert:
    """Return the alert that Tocsin writes about an alert that it could not process.

    After each replay of the dead letter, the alert has another event_id.
    """
    return Alert(
        event_id=identity.make_event_id(f"{trace_id} {accepted_at.isoformat()}", -1, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=-1,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=ENTITY_ID,
        parsed=ParsedAlert(MESSAGE, SUMMARY, entity_id=ENTITY_ID),
    )


def open_for_dead_letter(alert: Alert, state: LaneState) -> ChangeSet:
    """Open one incident for all dead letters of an integration. While it is open, return no effects."""
    entity = state.get_entity(alert.integration, ENTITY_ID)
    if state.get_open_incident(entity) is not None:
        return ChangeSet()
    integrations = state.facts.integrations
    name = integrations[alert.integration].name if alert.integration in integrations else "?"
    summary = f"{SUMMARY} Its trace_id is {alert.trace_id}."
    title = f"{MESSAGE} from {name}"
    reason = make_reason("opened_by_dead_letter")
    author = build_alert_author(alert)
    return open_incident(alert.event_id, title, summary, state, author, alert.accepted_at, reason, entity)


def open_for_deleted_integration(name: str, count: int, state: LaneState, now: datetime) -> ChangeSet:
    """Open an incident about alerts whose integration was deleted before they were processed."""
    author = Author(AuthorKind.ALERT, "alerts of a deleted integration")
    reason = make_reason("opened_by_dead_letter")
    summary = f"{DELETED_SUMMARY} Alerts: {count}."
    return open_incident(name, DELETED_MESSAGE, summary, state, author, now, reason)


def open_incident(
    name: str,
    title: str,
    summary: str,
    state: LaneState,
    author: Author,
    now: datetime,
    reason: Reason,
    entity: EntityState | None = None,
) -> ChangeSet:
    """Open an incident by Tocsin itself. Its IDs follow from `name`.

    It collects no alerts: nobody would see them there.
    """
    facts = state.facts
    new = NewIncident(
        unique_id=identity.make_incident_id(name),
        incident_key=identity.make_incident_key(name),
        title=title,
        summary=summary,
        from_alert=True,
    )
    incident, advanced = build_incident(new, facts.service, facts.config, state.next_targets, now)
    context = IncidentContext(incident, facts.service, facts.config, author, now)
    opened = incidents.open_incident(context, reason, templates=[facts.service.task_template])
    held = (SaveEntity(entity.with_incident(incident.unique_id)),) if entity else ()
    return ChangeSet(effects=[*opened, *held, *advanced, *incidents.start_escalation(context)])
