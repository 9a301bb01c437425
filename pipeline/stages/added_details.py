"""Build the details that an alert adds to its incident, as its sender and rules set them: contract 4.2."""

from collections.abc import Iterator
from datetime import datetime

from models.domain import identity
from models.domain.effects import (
    AddNote,
    AddTag,
    AddTask,
    CreateNotification,
    Effect,
    IncidentState,
    RecordLog,
)
from models.domain.facts import IncidentContext, Reference
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline import incidents
from pipeline.alert import Alert, build_alert_author
from pipeline.lane_state import LaneState
from pipeline.sources.reading.cleaning import clean_line
from schedules.escalation.responders import ResponderRequest, request_responders

# A task's title is the first line of the text of a rule.
MAX_TITLE_LENGTH = 255


def build_details(
    alert: Alert, incident: IncidentState, state: LaneState, now: datetime
) -> tuple[Effect, ...]:
    """Return the notes, tags, roles and responders that an alert adds to its incident, new or open."""
    name = incident.unique_id
    notes = [
        AddNote(name, identity.make_note_id(alert.event_id, index), text, now)
        for index, text in enumerate(alert.options.notes)
    ]
    tags = [AddTag(name, identity.make_incident_tag_id(name, tag), tag, now) for tag in alert.options.tags]
    return (
        *notes,
        *tags,
        *_assign_roles(alert, name, state, now),
        *_request_responders(alert, incident, state, now),
    )


def _assign_roles(alert: Alert, incident: str, state: LaneState, now: datetime) -> Iterator[Effect]:
    """Yield effects only for roles that change, so that the incident timeline shows each change once."""
    roles = state.facts.references.roles.by_row
    for row, username in alert.options.roles:
        person = state.facts.config.people.get(username)
        if row in roles and person is not None and state.roles.get((incident, row)) != person.row:
            holder = Reference(person.row, person.name)
            unique_id = identity.make_assignment_id(incident, row)
            yield from incidents.assign_role(
                incident, unique_id, roles[row], holder, build_alert_author(alert), now
            )


def _request_responders(
    alert: Alert, incident: IncidentState, state: LaneState, now: datetime
) -> tuple[Effect, ...]:
    """Request the responders of an open incident, each once, and not before the start of its escalation
    run.
    """
    requests = list(_list_requests(alert, incident.unique_id, state))
    if not requests or not incident.is_open:
        return ()
    facts, author = state.facts, build_alert_author(alert)
    effects = request_responders(
        IncidentContext(incident, facts.service, facts.config, author, now), requests
    )
    delay = incident.run_started_at - now
    if delay.total_seconds() <= 0:
        return effects
    return tuple(
        CreateNotification(replace(effect.notification, not_before=effect.notification.not_before + delay))
        if isinstance(effect, CreateNotification)
        else effect
        for effect in effects
    )


def _list_requests(alert: Alert, incident: str, state: LaneState) -> Iterator[ResponderRequest]:
    config = state.facts.config
    for username in alert.options.responders:
        person = config.people.get(username)
        if person is not None and (incident, person.row, None) not in state.responders:
            yield ResponderRequest(identity.make_responder_id(incident, "user", person.row), person=person)
    for row in alert.options.responder_policies:
        if row in config.policies and (incident, None, row) not in state.responders:
            yield ResponderRequest(
                identity.make_responder_id(incident, "policy", row), policy=config.policies[row]
            )


def build_tasks(alert: Alert, incident: str, now: datetime) -> Iterator[Effect]:
    """Return the tasks that an alert's rules add to the incident that it opens."""
    author = build_alert_author(alert)
    for index, text in enumerate(alert.options.tasks):
        title = clean_line(text.partition("\n")[0], MAX_TITLE_LENGTH)
        yield AddTask(incident, identity.make_task_id(alert.event_id, index), title, text, now)
        yield RecordLog(
            incident, now, "task_added", make_reason("task_added", task=title, by=author.name), author
        )
