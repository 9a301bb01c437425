"""Find the next messages about an open incident if nobody reacts, by the rules of a simulation.

It runs the same engine as a simulation, from now to the first message. So it counts the delays of
notification rules, the escalations of SLAs, timeouts, and the time at which the service resolves an incident.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.channels import CONTACT_TYPES
from models.domain.effects import NotificationState
from models.domain.facts import LaneFacts, OpenIncidentFacts, ServiceFacts
from models.domain.reasons import make_reason
from pipeline.lane_state import LaneState
from pipeline.simulation.engine import SimulationEngine

# A search ends at this time from now, or after this many moments at which something happens.
MAX_AHEAD = timedelta(days=31)
MAX_MOMENTS = 50


@dataclass(frozen=True, slots=True)
class NextMessage:
    """Messages of one moment. `people` are the names of those who get one; the reader is "you (SMS)"."""

    at: datetime
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextMessages:
    """The first messages after now and, if only the reader gets these, the first ones to other people.

    Without messages, `resolved_at` is when the service resolves the incident before anybody is notified;
    None: it does not. `is_complete` is False if the search ended early: later messages are possible.
    """

    messages: tuple[NextMessage, ...] = ()
    resolved_at: datetime | None = None
    is_complete: bool = True


def find_next_messages(found: OpenIncidentFacts, now: datetime, reader: int | None = None) -> NextMessages:
    """Return the next messages about an incident after `now`. `reader` is the row number of a person."""
    incident = found.incident
    # A merged incident is silent, and so is a resolved one.
    if incident.parent is not None or not incident.is_open:
        return NextMessages()
    engine = _start(found)
    messages: list[NextMessage] = []
    for _ in range(MAX_MOMENTS):
        moment = engine.get_next_time()
        if moment is None:
            resolved_at = engine.state.incidents[incident.unique_id].resolved_date
            return NextMessages(tuple(messages), None if messages else resolved_at)
        if moment > now + MAX_AHEAD or engine.is_truncated:
            break
        engine.simulated_events.clear()
        engine.run(now, max(moment, now), inclusive=True)
        created = [event.notification for event in engine.simulated_events if event.notification is not None]
        is_for_others = any(notification.user != reader for notification in created)
        if created and (is_for_others or not messages):
            messages.append(NextMessage(max(moment, now), _list_people(created, found, reader)))
        if is_for_others:
            return NextMessages(tuple(messages))
    return NextMessages(tuple(messages), is_complete=False)


def _start(found: OpenIncidentFacts) -> SimulationEngine:
    incident = found.incident
    # An incident without a service has no timeouts, as one of a service without them.
    service = found.service or ServiceFacts(0, "", "", incident.account, incident.team)
    state = LaneState(LaneFacts(service, {}, found.config), (), [incident])
    engine = SimulationEngine(state, lambda: False, set(found.fired))
    for notification in found.pending:
        engine.create_notifications([notification], notification.not_before)
    engine.reconcile_all(found.timer_order)
    return engine


def _list_people(
    created: Sequence[NotificationState], found: OpenIncidentFacts, reader: int | None
) -> tuple[str, ...]:
    names = dict(found.names)
    for person in found.config.people.values():
        names[person.row] = person.name
        names.update((rule.to.row, rule.to.name) for rule in person.forwarding)
    return tuple(dict.fromkeys(_describe(notification, names, reader) for notification in created))


def _describe(notification: NotificationState, names: dict[int, str], reader: int | None) -> str:
    if notification.user == reader:
        return f"you ({CONTACT_TYPES.get(notification.channel, 'another channel')})"
    name = names.get(notification.user, "")
    forwarded = next((one for one in notification.reason.more if one.code == "forwarded_from"), None)
    if forwarded is None:
        return name
    return str(make_reason("forwarded_person", person=forwarded.parameters["person"], receiver=name))
