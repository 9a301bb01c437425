"""What an alert brings to its incident beyond itself, as its sender and its rules want it: contract 4.2."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from models.effects import AddNote, AddTag, AddTask, Effect, IncidentState, OweNotice, RecordLog
from models.facts import Named
from pipeline import identity, moves
from pipeline.alert import Alert, actor_of
from pipeline.sources.cleaning import clean_line
from pipeline.state import LaneState
from schedules.responders import Call, call_responders

# A task's title is the first line of what a rule says.
LONGEST_TITLE = 255


def additions(alert: Alert, incident: IncidentState, state: LaneState, now: datetime) -> tuple[Effect, ...]:
    """The notes, tags, roles and responders that an alert brings to its incident, new or open."""
    name = incident.unique_id
    notes = [
        AddNote(name, identity.note_id(alert.event_id, place), text, now)
        for place, text in enumerate(alert.plan.notes)
    ]
    tags = [AddTag(name, identity.incident_tag_id(name, tag), tag, now) for tag in alert.plan.tags]
    return (*notes, *tags, *_roles(alert, name, state, now), *_responders(alert, incident, state, now))


def _roles(alert: Alert, incident: str, state: LaneState, now: datetime) -> Iterator[Effect]:
    """Only what changes anything: an incident's history tells each change once, however many alerts come."""
    roles = {role.row: role for role in state.facts.nameable.roles.values()}
    for row, username in alert.plan.roles:
        person = state.facts.directory.people.get(username)
        if row in roles and person is not None and state.roles.get((incident, row)) != person.row:
            whom = Named(person.row, person.name)
            unique_id = identity.assignment_id(incident, row)
            yield from moves.give_role(incident, unique_id, roles[row], whom, actor_of(alert), now)


def _responders(alert: Alert, incident: IncidentState, state: LaneState, now: datetime) -> tuple[Effect, ...]:
    """Nobody is asked twice, none to help with what is over, and none before the incident's first step."""
    if not incident.is_open:
        return ()
    calls = _calls(alert, incident.unique_id, state)
    called = call_responders(incident, calls, state.facts.directory, actor_of(alert), now)
    wait = incident.chain_started_at - now
    if wait.total_seconds() <= 0:
        return called
    return tuple(
        OweNotice(replace(effect.notice, not_before=effect.notice.not_before + wait))
        if isinstance(effect, OweNotice)
        else effect
        for effect in called
    )


def _calls(alert: Alert, incident: str, state: LaneState) -> Iterator[Call]:
    directory = state.facts.directory
    for username in alert.plan.responders:
        person = directory.people.get(username)
        if person is not None and (incident, person.row, None) not in state.called:
            yield Call(identity.responder_id(incident, "user", person.row), person=person)
    for row in alert.plan.responder_policies:
        if row in directory.policies and (incident, None, row) not in state.called:
            yield Call(identity.responder_id(incident, "policy", row), policy=directory.policies[row])


def tasks(alert: Alert, incident: str, now: datetime) -> Iterator[Effect]:
    """The tasks that an alert's rules bring to the incident that it opens."""
    actor = actor_of(alert)
    for place, text in enumerate(alert.plan.tasks):
        title = clean_line(text.partition("\n")[0], LONGEST_TITLE)
        yield AddTask(incident, identity.task_id(alert.event_id, place), title, text, now)
        yield RecordLog(incident, now, "task_added", f"task {title} added by {actor.name}", actor)
