"""Calls for help with an incident: who is told of each, contract section 4.4, row 7."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from models.effects import Actor, AddResponder, Effect, IncidentState, OweNotice, RecordLog
from models.enums import NoticeKind
from models.facts import Directory, PersonFacts, PolicyFacts
from schedules import escalation, notices
from schedules.targets import first_people


@dataclass(frozen=True, slots=True)
class Call:
    """Somebody to ask for help, or a policy whose people to ask: one of the two.

    `unique_id` names the call for ever: made again under the same name it tells nobody again.
    """

    unique_id: str
    person: PersonFacts | None = None
    policy: PolicyFacts | None = None
    subject: str | None = None
    message: str | None = None


def call_responders(
    incident: IncidentState, calls: Iterable[Call], directory: Directory, actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    """Ask for help with an incident: a responder for each call, and word to those whom it names.

    They are told by their notification rules, also of an incident that somebody has acknowledged; not of
    one that is resolved. A policy is the people of its first step that has any. One that names nobody
    tells the team's managers, then the owner (law 9).
    """
    return tuple(effect for call in calls for effect in _call(incident, call, directory, actor, now))


def owed_for(incident: str, call: str) -> str:
    """What the keys of all notices begin with that a call owes."""
    return notices.owed_for(incident, NoticeKind.RESPONDER, call)


def _call(
    incident: IncidentState, call: Call, directory: Directory, actor: Actor, now: datetime
) -> Iterable[Effect]:
    people, whom = _reached(call, directory, now)
    yield AddResponder(
        incident.unique_id,
        call.unique_id,
        now,
        call.person.row if call.person else None,
        call.policy.row if call.policy else None,
        call.subject,
        call.message,
    )
    yield RecordLog(incident.unique_id, now, "called", f"{whom} asked to help by {actor.name}", actor)
    if not incident.is_open:
        return
    reason = f"asked to help by {actor.name}"
    for person in people:
        for notice in notices.notices_for(
            incident, person, NoticeKind.RESPONDER, call.unique_id, reason, directory, now
        ):
            yield OweNotice(notice)


def _reached(call: Call, directory: Directory, now: datetime) -> tuple[list[PersonFacts], str]:
    """Whom a call reaches, and how the log names them."""
    if call.person is not None:
        return [call.person], notices.named(call.person, directory, now)
    name = f"policy {call.policy.name}" if call.policy else "nobody"
    people = first_people(call.policy, directory, now)
    if people:
        return people, f"{name} ({', '.join(notices.named(person, directory, now) for person in people)})"
    people, instead = escalation.last_resort(directory)
    return people, f"{name} reaches nobody: {instead}"
