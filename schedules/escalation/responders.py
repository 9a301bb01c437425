"""Ask responders to help with an incident and notify them. Contract section 4.4, row 7."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import AddResponder, Author, CreateNotification, Effect, IncidentState, RecordLog
from models.domain.enums import NotificationKind
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts
from schedules.escalation import escalation, notifications
from schedules.escalation.targets import find_first_people


@dataclass(frozen=True, slots=True)
class ResponderRequest:
    """Request help from a person or from the people of a policy: exactly one of the two.

    `unique_id` identifies the request: a second request with the same ID notifies nobody again.
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
    author: Author,
    now: datetime,
) -> tuple[Effect, ...]:
    """Add a responder for each request and notify the people whom it names.

    Their notification rules apply, also if the incident is acknowledged. If it is resolved, nobody is
    notified. A policy stands for the people of its first step with people. For a policy that names nobody,
    the team's managers or else the owner are notified: invariant 9 (design, section 2).
    """
    return tuple(
        effect
        for request in requests
        for effect in _request_responder(incident, request, config, author, now)
    )


def build_key_prefix(incident: str, request: str) -> str:
    """Return the common beginning of the keys of all notifications of a request."""
    return notifications.build_key_prefix(incident, NotificationKind.RESPONDER, request)


def _request_responder(
    incident: IncidentState, request: ResponderRequest, config: OnCallConfig, author: Author, now: datetime
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
    yield RecordLog(incident.unique_id, now, "called", f"{whom} asked to help by {author.name}", author)
    if not incident.is_open:
        return
    reason = f"asked to help by {author.name}"
    for person in people:
        for notification in notifications.build_notifications(
            incident, person, NotificationKind.RESPONDER, request.unique_id, reason, config, now
        ):
            yield CreateNotification(notification)


def _find_people(
    request: ResponderRequest, config: OnCallConfig, now: datetime
) -> tuple[list[PersonFacts], str]:
    """Return the people whom a request notifies, and the words for them in the log."""
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
