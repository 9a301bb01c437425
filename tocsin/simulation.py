"""A simulation from rows to words: facts are read as of its moment, it is run (pipeline/simulation.py), and
what came of it is told with the names of people and contacts. For the command and for the interface.

Reads within one transaction in which nothing can be written; takes no lock and rings no bell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from models import timer_states
from models.accounts import User, display_name
from models.applications import APPLICATIONS
from models.base import store
from models.directories import turns_of
from models.effects import EventState, IncidentState, NoticeState
from models.enums import AlertType, Collation, ContactType, IntegrationType
from models.facts import Directory, LaneFacts
from models.incident_states import (
    assigned_roles,
    called_responders,
    entity_states,
    firing_counts,
    open_children,
    open_incidents,
)
from models.loading import Needed, directory_for, lane_facts
from models.services import Integration
from models.simulated import contact_names, owed_notices, users_of
from pipeline.course import Happening, Kind
from pipeline.road import entities_of
from pipeline.rulesets import RuleSet
from pipeline.simulation import Simulated, simulate
from pipeline.sources import SOURCES
from pipeline.sources.body import BadBody
from pipeline.stages.normalize import alerts_of
from pipeline.state import Key, LaneState, Past
from tocsin.settings import Settings, unsendable

Told = dict[str, Any]

USUAL = timedelta(hours=2)
# A body may hold very many alerts, each of which may open an incident.
MOST_ALERTS = 100
# The same question has the same answer: whatever is named after the alert is named alike.
TRACE = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Question:
    """A body that an integration gets at a moment, and for how long nobody reacts. `source` is which tool it
    is read as a body of; `with_open`: what is open now is open then, as it goes on by itself."""

    integration: Integration
    source: str
    body: bytes
    at: datetime
    lasts: timedelta = USUAL
    with_open: bool = False


def of_present_minute(at: datetime, now: datetime) -> datetime:
    """A moment that somebody named; now, where it is the present minute of which that is over already."""
    minute = now.replace(second=0, microsecond=0)
    return now if minute <= at < now else at


def warnings(settings: Settings) -> list[str]:
    """What is wrong with these settings, so that nobody would be told after all."""
    return [problem] if (problem := unsendable(settings)) else []


def source_of(integration: Integration) -> str:
    """The tool that an integration is for, as its address names it."""
    return APPLICATIONS[integration.application].extension


def ways_in(service: Any, source: str | None) -> list[Integration]:
    """The integrations by which alerts of a tool (None: of any) come to a service: those that are for it, or
    all where none is; those that are disabled only where all are."""
    of_service = (Integration.service == service) & (Integration.integration_type == IntegrationType.ALERT)
    found = list(Integration.select().where(of_service).order_by(Integration.id))
    found = [row for row in found if row.is_enabled] or found
    return [row for row in found if source in (None, source_of(row))] or found


def ask(question: Question, is_enough: Callable[[], bool] = lambda: False) -> Told:
    """What would happen. Raises BadBody for a body that would be refused, or that holds too many alerts."""
    parsed = SOURCES[question.source].parse(question.body)
    if len(parsed) > MOST_ALERTS:
        raise BadBody("", f"holds {len(parsed):,} alerts, of which at most {MOST_ALERTS} can be simulated")
    with store().reading():
        why = closed(question.integration)
        return _refused(question, why) if why else _answer(question, is_enough)


def closed(integration: Integration) -> str | None:
    """Why an integration takes no alerts (contract 4.1, row 17), None if it does."""
    if integration.integration_type != IntegrationType.ALERT:
        return "not accepted: the integration is outbound"
    return None if integration.is_enabled else "not accepted: the integration is disabled"


def _answer(question: Question, is_enough: Callable[[], bool]) -> Told:
    integration, at = question.integration, question.at
    # What is open goes on from now until the alert comes.
    since = min(at, store().now()) if question.with_open else at
    facts = lane_facts(integration.service, since)
    alerts = list(alerts_of(TRACE, 0, integration.id, question.source, question.body, at))
    asked = set(entities_of(alerts))
    while True:
        state, incidents = _state(question, facts, asked, since, is_enough)
        open_ones = {incident.row: incident.unique_id for incident in incidents if incident.row is not None}
        found = simulate(
            state,
            alerts,
            at,
            question.lasts,
            since=since,
            owed=owed_notices(open_ones) if open_ones else (),
            waiting=timer_states.in_order(open_ones),
            done=timer_states.every_done_once(open_ones),
            is_enough=is_enough,
        )
        if not found.missing or found.is_cut:
            return _told(question, found)
        # A rule gave an alert an entity_id that nobody had looked for.
        asked |= found.missing


def _state(
    question: Question, facts: LaneFacts, asked: set[Key], since: datetime, is_enough: Callable[[], bool]
) -> tuple[LaneState, list[IncidentState]]:
    """The lane as the simulation finds it: knowing of nothing, or of what is open around these entities."""
    rulesets = {row: RuleSet(rules, is_enough) for row, rules in facts.rules.items()}
    if not question.with_open:
        return LaneState(facts, rulesets=rulesets, turns=turns_of(facts.directory)), []
    entities, ended = entity_states(asked)
    held = {entity.incident for entity in entities if entity.incident}
    collecting = facts.service.collation is Collation.TIME_BASED
    incidents = open_incidents(facts.service.row, held, collecting=collecting)
    of_team = [incident for incident in incidents if incident.team == facts.service.team]
    facts = replace(facts, directory=_knowing(facts.directory, of_team, since))
    state = LaneState(
        facts,
        entities,
        [*open_children(incidents), *incidents],
        firing_counts(incidents),
        rulesets=rulesets,
        past={one.unique_id: Past(one.row, one.ended_at) for one in ended},
        asked=asked,
        called=called_responders(incidents),
        roles=assigned_roles(incidents),
        turns=turns_of(facts.directory),
    )
    return state, incidents


def _knowing(known: Directory, incidents: Sequence[IncidentState], at: datetime) -> Directory:
    """What a lane knows, and what the open incidents of its team go by."""
    if not incidents:
        return known
    more = directory_for(Needed.by(incidents), at)
    return replace(
        known,
        policies={**more.policies, **known.policies},
        people={**more.people, **known.people},
        schedules={**more.schedules, **known.schedules},
        slas={**more.slas, **known.slas},
    )


def _refused(question: Question, why: str) -> Told:
    refusal = Happening(question.at, Kind.ROAD, "accept", why, None)
    return _told(question, Simulated((refusal,)))


def _told(question: Question, found: Simulated) -> Told:
    names = _Names.of(found)
    places = {incident.unique_id: place for place, incident in enumerate(found.incidents, start=1)}
    service = question.integration.service
    return {
        "at": question.at,
        "until": question.at + question.lasts,
        "service": _named(service),
        "integration": _named(question.integration),
        "source": question.source,
        "alerts": [_alert(event, places) for event in found.events],
        "happenings": [_happening(each, question.at, names, places) for each in found.happenings],
        "incidents": [_incident(each, names) for each in found.incidents],
        "told": _first_words(found.told, question.at, names),
        "goes_on_at": found.goes_on_at,
        "is_cut": found.is_cut,
    }


def _named(row: Any) -> Told:
    return {"unique_id": row.unique_id, "name": row.name}


@dataclass(frozen=True, slots=True)
class _Names:
    """The people and the contacts that a simulation speaks of, by row number."""

    users: dict[int, User]
    contacts: dict[int, str]

    @classmethod
    def of(cls, found: Simulated) -> "_Names":
        notices = [each.notice for each in found.happenings if each.notice is not None]
        people = {*found.told, *(notice.user for notice in notices)}
        assigned = {incident.assigned_to for incident in found.incidents if incident.assigned_to}
        contacts = {notice.contact for notice in notices if notice.contact is not None}
        return cls(users_of(people | assigned), contact_names(contacts))

    def of_user(self, row: int | None) -> str | None:
        user = self.users.get(row or 0)
        return display_name(user) if user else None

    def of_contact(self, notice: NoticeState) -> str:
        """What the contact is called; what has been deleted is told at the account's address."""
        return self.contacts.get(notice.contact or 0, "the account's address")


def _alert(event: EventState, places: dict[str, int]) -> Told:
    """As the recorder tells an alert (models/recorder.py)."""
    return {
        "message": event.message,
        "alert_type": AlertType(event.alert_type).name.lower(),
        "entity_id": event.entity_id,
        "suppressed": event.suppressed,
        "road": [{"stage": stage, "reason": reason} for stage, reason in event.reasons],
        "rules": list(event.rules),
        "incident": places.get(event.incident or ""),
        "incident_created": event.incident_created,
    }


def _happening(each: Happening, at: datetime, names: _Names, places: dict[str, int]) -> Told:
    notice = each.notice
    user = names.users.get(notice.user) if notice else None
    return {
        "at": each.at,
        "after": (each.at - at).total_seconds(),
        "kind": each.kind.value,
        "what": each.what,
        "why": each.why,
        "incident": places.get(each.incident or ""),
        "person": display_name(user) if user else None,
        "username": user.username if user else None,
        "channel": ContactType(notice.channel).name.lower() if notice else None,
        "contact": names.of_contact(notice) if notice else None,
    }


def _incident(incident: IncidentState, names: _Names) -> Told:
    return {
        "incident_number": incident.number,
        "title": incident.title,
        "status": incident.status.name.lower(),
        "urgency": incident.urgency.name.lower(),
        "assigned_to": names.of_user(incident.assigned_to),
        "creation_date": incident.creation_date,
        "resolved_date": incident.resolved_date,
    }


def _first_words(told: Mapping[int, datetime], at: datetime, names: _Names) -> list[Told]:
    """Everybody who is told, in the order in which they are, with the moment of the first word."""
    return [
        {
            "username": names.users[row].username,
            "person": display_name(names.users[row]),
            "email": names.users[row].email,
            "at": first,
            "after": (first - at).total_seconds(),
        }
        for row, first in told.items()
        if row in names.users
    ]
