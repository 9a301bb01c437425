"""Ask responders to help with an incident and notify them. Contract section 4.4, row 7."""

from collections.abc import Iterable
from dataclasses import dataclass

from models.domain.effects import AddResponder, Effect
from models.domain.enums import NotificationKind
from models.domain.facts import IncidentContext, PersonFacts, PolicyFacts
from models.domain.reasons import Reason, make_reason
from schedules.escalation import escalation, person_notifications
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


def request_responders(context: IncidentContext, requests: Iterable[ResponderRequest]) -> tuple[Effect, ...]:
    """Add a responder for each request and notify the people whom the request names.

    Their notification rules apply, even if the incident is acknowledged. If it is resolved, nobody is
    notified. A policy means the people of its first step with people. For a policy that names nobody,
    the team's managers or else the owner are notified: invariant 9 (design, section 2).
    """
    return tuple(effect for request in requests for effect in _request_responder(context, request))


def build_key_prefix(incident: str, request: str) -> str:
    """Return the common beginning of the keys of all notifications of a request."""
    return person_notifications.build_key_prefix(incident, NotificationKind.RESPONDER, request)


def _request_responder(context: IncidentContext, request: ResponderRequest) -> Iterable[Effect]:
    people, asked = _find_people(context, request)
    yield AddResponder(
        context.incident.unique_id,
        request.unique_id,
        context.now,
        request.person.row if request.person else None,
        request.policy.row if request.policy else None,
        request.subject,
        request.message,
    )
    yield context.build_log("called", asked)
    if not context.incident.is_open:
        return
    why = make_reason("asked_to_help", by=context.author.name)
    kind = NotificationKind.RESPONDER
    for person in people:
        yield from person_notifications.build_notifications(context, person, kind, request.unique_id, why)


def _find_people(context: IncidentContext, request: ResponderRequest) -> tuple[list[PersonFacts], Reason]:
    """Return the people whom a request notifies, and the reason for the timeline."""
    config, by, now = context.config, context.author.name, context.now
    if request.person is not None:
        names = person_notifications.list_names([request.person], config, now)
        return [request.person], make_reason("responder_asked", people=names, by=by)
    policy = request.policy.name if request.policy else ""
    people = find_first_people(request.policy, config, now)
    if people:
        names = person_notifications.list_names(people, config, now)
        return people, make_reason("responder_policy_asked", policy=policy, people=names, by=by)
    people, fallback = escalation.get_last_resort(config)
    return people, make_reason("responder_policy_empty", policy=policy, by=by).add(fallback)
