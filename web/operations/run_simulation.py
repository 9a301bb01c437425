"""Run a simulation for the command and for the interface.

Load the facts as of the simulated time, run pipeline/simulation/simulate.py, and build the result with the
names of people and contacts. A simulation reads in one read-only transaction. It locks no row and enqueues no
wake-up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from models.domain.channels import get_channel_name
from models.domain.effects import EventState, IncidentState, NotificationState
from models.domain.enums import AlertType, Collation, IntegrationType
from models.domain.facts import LaneFacts, OnCallConfig
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from models.load import timers
from models.load.incident_states import (
    count_firing,
    load_entities,
    load_groups,
    load_open_children,
    load_open_incidents,
    load_responders,
    load_roles,
)
from models.load.lane import ConfigKeys, load_incident_config, load_lane
from models.load.oncall_config import load_next_targets
from models.load.simulation import load_contact_names, load_pending_notifications, load_users
from models.reports.alert_trace import show_rule
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.services import Integration, Service
from pipeline.lane_state import LaneKey, LaneState, split_keys
from pipeline.rules.rulesets import RuleSet
from pipeline.run_stages import list_entities
from pipeline.simulation.engine import SimulatedEvent, SimulatedKind
from pipeline.simulation.simulate import SimulationResult, simulate
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import SOURCES
from pipeline.stages.normalize import parse_alerts

DEFAULT_DURATION = timedelta(hours=2)
# A body can contain very many alerts, and each alert can open an incident.
MAX_ALERTS = 100
# A constant, so that the same request gets the same result: ids are derived from the trace_id.
TRACE_ID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A body that an integration gets at the time `at`, and the duration in which nobody reacts.

    `source` is the tool that sends such a body. `with_open`: the incidents that are open now take part, and
    nobody reacts to them until `at`.
    """

    integration: Integration
    source: str
    body: bytes
    at: datetime
    duration: timedelta = DEFAULT_DURATION
    with_open: bool = False


def adjust_to_now(at: datetime, now: datetime) -> datetime:
    """Return `at`, or now if `at` is earlier but in the present minute."""
    minute = now.replace(second=0, microsecond=0)
    return now if minute <= at < now else at


def get_source(integration: Integration) -> str:
    """Return the tool of an integration, as its address names it."""
    return integration.application_reference.extension


def find_integrations(service: Service, source: str | None) -> list[Integration]:
    """Return the integrations of a service that accept alerts of this tool (None: of any tool).

    If no integration is for this tool, return all. Disabled integrations count only if all are disabled.
    """
    of_service = (Integration.service == service) & (Integration.integration_type == IntegrationType.ALERT)
    found = list(Integration.select().where(of_service).order_by(Integration.id))
    found = [row for row in found if row.is_enabled] or found
    return [row for row in found if source in (None, get_source(row))] or found


def run_simulation(
    request: SimulationRequest, is_enough: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Run a simulation. BadBody for a body that would be refused, or that has too many alerts."""
    parsed = SOURCES[request.source].parse(RequestBody(request.body))
    if len(parsed) > MAX_ALERTS:
        raise BadBody("", f"contains {len(parsed):,} alerts, but at most {MAX_ALERTS} can be simulated")
    with store().read_transaction():
        why = get_refusal(request.integration)
        return _build_refusal(request, why) if why else _run(request, is_enough)


def get_refusal(integration: Integration) -> Reason | None:
    """Return why an integration accepts no alerts (contract 4.1, row 17), or None if it does."""
    if integration.integration_type != IntegrationType.ALERT:
        return make_reason("integration_outbound", integration=integration.name)
    return (
        None if integration.is_enabled else make_reason("integration_disabled", integration=integration.name)
    )


def _run(request: SimulationRequest, is_enough: Callable[[], bool]) -> dict[str, object]:
    integration, at = request.integration, request.at
    # Open incidents continue from now until the alert arrives.
    since = min(at, store().now()) if request.with_open else at
    facts = load_lane(integration.service, since)
    alerts = list(parse_alerts(TRACE_ID, 0, integration.id, request.source, RequestBody(request.body), at))
    keys: set[LaneKey] = set(list_entities(alerts))
    while True:
        state, incidents = _load_state(request, facts, keys, since, is_enough)
        open_incident_ids = {
            incident.row: incident.unique_id for incident in incidents if incident.row is not None
        }
        result = simulate(
            state,
            alerts,
            at,
            request.duration,
            since=since,
            pending=load_pending_notifications(open_incident_ids) if open_incident_ids else (),
            timer_order=timers.list_pending_keys(open_incident_ids),
            fired=timers.find_all_fired(open_incident_ids),
            should_stop=is_enough,
        )
        if not result.missing or result.is_truncated:
            return _to_json(request, result)
        # A rule changed an entity_id, or a grouping policy looks for values: not loaded yet.
        keys |= result.missing


def _load_state(
    request: SimulationRequest,
    facts: LaneFacts,
    keys: set[LaneKey],
    since: datetime,
    is_enough: Callable[[], bool],
) -> tuple[LaneState, list[IncidentState]]:
    """Load the lane at the start of a simulation: empty, or with the open incidents of these entities."""
    rulesets = {row: RuleSet(rules, is_enough) for row, rules in facts.rules.items()}
    if not request.with_open:
        return LaneState(
            facts, rulesets=rulesets, next_targets=load_next_targets(facts.config.round_robins)
        ), []
    entity_keys, group_keys = split_keys(keys)
    entities, ended_incidents = load_entities(entity_keys)
    groups = load_groups({key.digest for key in group_keys}, since)
    open_rows = {entity.incident for entity in entities if entity.incident}
    open_rows |= {unique_id for _, unique_id in groups}
    collecting = facts.service.collation is Collation.TIME_BASED
    incidents = load_open_incidents(open_rows, [facts.service.row] if collecting else ())
    of_team = [incident for incident in incidents if incident.team == facts.service.team]
    facts = replace(facts, config=_extend_config(facts.config, of_team, since))
    state = LaneState(
        facts,
        entities,
        [*load_open_children(incidents), *incidents],
        count_firing(incidents),
        rulesets=rulesets,
        past_incidents=ended_incidents,
        loaded_keys=keys,
        groups=groups,
        responders=load_responders(incidents),
        roles=load_roles(incidents),
        next_targets=load_next_targets(facts.config.round_robins),
    )
    return state, incidents


def _extend_config(config: OnCallConfig, incidents: Sequence[IncidentState], at: datetime) -> OnCallConfig:
    """Extend the on-call config of a lane with that of these open incidents."""
    if not incidents:
        return config
    more = load_incident_config(ConfigKeys.from_incidents(incidents), at)
    return replace(
        config,
        policies={**more.policies, **config.policies},
        people={**more.people, **config.people},
        schedules={**more.schedules, **config.schedules},
        slas={**more.slas, **config.slas},
    )


def _build_refusal(request: SimulationRequest, why: Reason) -> dict[str, object]:
    refusal = SimulatedEvent(request.at, SimulatedKind.PIPELINE, "accept", why, None)
    return _to_json(request, SimulationResult((refusal,)))


def _to_json(request: SimulationRequest, result: SimulationResult) -> dict[str, object]:
    names = _Names.load(result)
    places = {incident.unique_id: place for place, incident in enumerate(result.incidents, start=1)}
    service = request.integration.service
    return {
        "at": request.at,
        "until": request.at + request.duration,
        "service": _name_to_json(service),
        "integration": _name_to_json(request.integration),
        "source": request.source,
        "alerts": [_alert_to_json(event, places) for event in result.events],
        "simulated_events": [
            _event_to_json(event, request.at, names, places) for event in result.simulated_events
        ],
        "incidents": [_incident_to_json(incident, names) for incident in result.incidents],
        "notified": _people_to_json(result.first_notified, request.at, names),
        "continues_at": result.continues_at,
        "is_truncated": result.is_truncated,
    }


def _name_to_json(row: Service | Integration) -> dict[str, object]:
    return {"unique_id": row.unique_id, "name": row.name}


@dataclass(frozen=True, slots=True)
class _Names:
    """The people and contacts in the result of a simulation, by row number."""

    users: dict[int, User]
    contacts: dict[int, str]

    @classmethod
    def load(cls, result: SimulationResult) -> "_Names":
        notifications = [
            event.notification for event in result.simulated_events if event.notification is not None
        ]
        people = {*result.first_notified, *(notification.user for notification in notifications)}
        assigned = {incident.assigned_to for incident in result.incidents if incident.assigned_to}
        contacts = {
            notification.contact for notification in notifications if notification.contact is not None
        }
        return cls(load_users(people | assigned), load_contact_names(contacts))

    def get_user_name(self, row: int | None) -> str | None:
        user = self.users.get(row or 0)
        return get_display_name(user) if user else None

    def get_contact_name(self, notification: NotificationState) -> str:
        """Return the contact's name; for a deleted contact, Tocsin uses the user's own e-mail address."""
        return self.contacts.get(notification.contact or 0, "the user's own e-mail address")


def _alert_to_json(event: EventState, places: dict[str, int]) -> dict[str, object]:
    """Build the same fields as an alert trace (models/reports/alert_trace.py)."""
    return {
        "message": event.message,
        "alert_type": AlertType(event.alert_type).name.lower(),
        "entity_id": event.entity_id,
        "suppressed": event.suppressed,
        "stages": [{"stage": stage, "reason": str(reason)} for stage, reason in event.reasons],
        "rules": [show_rule(record) for record in event.rules],
        "incident": places.get(event.incident or ""),
        "incident_created": event.incident_created,
    }


def _event_to_json(
    event: SimulatedEvent, at: datetime, names: _Names, places: dict[str, int]
) -> dict[str, object]:
    notification = event.notification
    user = names.users.get(notification.user) if notification else None
    return {
        "at": event.at,
        "after": (event.at - at).total_seconds(),
        "kind": event.kind.value,
        "what": event.what,
        "reason": str(event.why),
        "incident": places.get(event.incident or ""),
        "person": get_display_name(user) if user else None,
        "username": user.username if user else None,
        "channel": get_channel_name(notification.channel) if notification else None,
        "contact": names.get_contact_name(notification) if notification else None,
    }


def _incident_to_json(incident: IncidentState, names: _Names) -> dict[str, object]:
    return {
        "incident_number": incident.number,
        "title": incident.title,
        "status": incident.status.name.lower(),
        "urgency": incident.urgency.name.lower(),
        "assigned_to": names.get_user_name(incident.assigned_to),
        "creation_date": incident.creation_date,
        "resolved_date": incident.resolved_date,
    }


def _people_to_json(
    first_times: Mapping[int, datetime], at: datetime, names: _Names
) -> list[dict[str, object]]:
    """List the notified people in order, with the time of the first notification to each."""
    return [
        {
            "username": names.users[row].username,
            "person": get_display_name(names.users[row]),
            "email": names.users[row].email,
            "at": first_at,
            "after": (first_at - at).total_seconds(),
        }
        for row, first_at in first_times.items()
        if row in names.users
    ]
