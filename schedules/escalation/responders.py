"""Calls for help with an incident: who is told of each, contract section 4.4, row 7."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import Actor, AddResponder, CreateNotification, Effect, IncidentState, RecordLog
from models.domain.enums import NotificationKind
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts
from schedules.escalation import escalation, notifications
from schedules.escalation.targets import find_first_people


@dataclass(frozen=True, slots=True)
class ResponderRequest:
    """Somebody to ask for help, or a policy whose people to ask: one of the two.

    `unique_id` names the call for ever: made again under the same name it tells nobody again.
    """

    unique_id: str
    person: PersonFacts | None = None
    policy: PolicyFacts | None = None
    subject: str | None = None
    message: str | None = None


def request_responders(
    incident: IncidentState,
    requests: Iterable[ResponderRequest],
    config: OnCallConfig,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Ask for help with an incident: a responder for each call, and word to those whom it names.

    They are told by their notification rules, also of an incident that somebody has acknowledged; not of
    one that is resolved. A policy is the people of its first step that has any. One that names nobody
    tells the team's managers, then the owner (law 9).
    """
    return tuple(
        effect for request in requests for effect in _request_responder(incident, request, config, actor, now)
    )


def build_key_prefix(incident: str, request: str) -> str:
    """What the keys of all notices begin with that a call owes."""
    return notifications.build_key_prefix(incident, NotificationKind.RESPONDER, request)


def _request_responder(
    incident: IncidentState, request: ResponderRequest, config: OnCallConfig, actor: Actor, now: datetime
) -> Iterable[Effect]:
    people, whom = _find_people(request, config, now)
    yield AddResponder(
        incident.unique_id,
        request.unique_id,
        now,
        request.person.row if request.person else None,
        request.policy.row if request.policy else None,
        request.subject,
        request.message,
    )
    yield RecordLog(incident.unique_id, now, "called", f"{whom} asked to help by {actor.name}", actor)
    if not incident.is_open:
        return
    reason = f"asked to help by {actor.name}"
    for person in people:
        for notification in notifications.build_notifications(
            incident, person, NotificationKind.RESPONDER, request.unique_id, reason, config, now
        ):
            yield CreateNotification(notification)


def _find_people(
    request: ResponderRequest, config: OnCallConfig, now: datetime
) -> tuple[list[PersonFacts], str]:
    """Whom a call reaches, and how the log names them."""
    if request.person is not None:
        return [request.person], notifications.describe_person(request.person, config, now)
    name = f"policy {request.policy.name}" if request.policy else "nobody"
    people = find_first_people(request.policy, config, now)
    if people:
        return (
            people,
            f"{name} ({', '.join(notifications.describe_person(person, config, now) for person in people)})",
        )
    people, fallback = escalation.get_last_resort(config)
    return people, f"{name} reaches nobody: {fallback}"
