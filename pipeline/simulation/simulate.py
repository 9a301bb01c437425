"""What would happen: an alert on its road, and then time, from one due timer to the next, if nobody reacts.

Decided by the very functions that decide when it happens: `walk`, the timers that its decisions arm,
`due.decide`, and the notices that these owe. Nothing is written, and nobody is told.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from models.domain.effects import EventState, IncidentState, NotificationState
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.run_stages import AlertInProgress
from pipeline.simulation.engine import MAX_SIMULATED_EVENTS, SimulatedEvent, SimulationEngine

MAX_DURATION = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What happens to alerts and to their incidents, in order, up to MOST_HAPPENINGS; `told` is the first
    word to each person, by row number, also where that is not among them. `events` are the alerts at the end
    of their roads, `incidents` those to which something happened, as they are then.

    `goes_on_at` is when more would happen later than was asked, `is_cut` whether there was more than is told.
    Where entities are `missing`, nothing else is told: it must be asked anew, with these known.
    """

    simulated_events: tuple[SimulatedEvent, ...] = ()
    first_notified: Mapping[int, datetime] = field(default_factory=dict)
    events: tuple[EventState, ...] = ()
    incidents: tuple[IncidentState, ...] = ()
    continues_at: datetime | None = None
    is_truncated: bool = False
    missing: frozenset[tuple[int, str]] = frozenset()


def simulate(
    state: LaneState,
    alerts: Sequence[Alert],
    at: datetime,
    duration: timedelta,
    *,
    since: datetime | None = None,
    pending: Iterable[NotificationState] = (),
    timer_order: Sequence[tuple[str, str]] = (),
    done_once: Iterable[tuple[str, str]] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> SimulationResult:
    """What happens to alerts that are accepted at a moment, and for how long after it.

    `state` is the lane's, and the simulation's own from here on. The incidents in it were so at the moment
    `since` (None: `at`), when what was `owed` of them was still to be told, timers were `waiting` in this
    order, and what is done once was `done` (by incident and key): they too move on until the alerts come, but
    it is told only of those that the alerts lead to, or are about. `is_enough` may end it early, which then
    is cut.
    """
    engine = SimulationEngine(state, should_stop, set(done_once))
    for notification in pending:
        engine.create_notifications([notification], notification.not_before)
    engine.reconcile_all(timer_order)
    engine.run(since or at, at, inclusive=False)
    engine.simulated_events.clear()
    engine.changed.clear()
    engine.process([AlertInProgress(alert) for alert in alerts], at)
    if state.missing:
        return SimulationResult(is_truncated=engine.is_truncated, missing=frozenset(state.missing))
    engine.defer(alerts, at, at + duration)
    engine.run(at, at + duration, inclusive=True)
    return _build_result(engine)


def _build_result(engine: SimulationEngine) -> SimulationResult:
    """Without what happens to other incidents that are open meanwhile."""
    related = _list_related(engine.related, engine.state)
    simulated_events = [
        each for each in engine.simulated_events if each.incident is None or each.incident in related
    ]
    first_notified: dict[int, datetime] = {}
    for each in simulated_events:
        if each.notification is not None:
            first_notified.setdefault(each.notification.user, each.at)
    return SimulationResult(
        simulated_events=tuple(simulated_events[:MAX_SIMULATED_EVENTS]),
        first_notified=first_notified,
        events=tuple(engine.events.values()),
        incidents=tuple(engine.state.incidents[name] for name in engine.changed if name in related),
        continues_at=engine.get_next_time(related),
        is_truncated=engine.is_truncated or len(simulated_events) > MAX_SIMULATED_EVENTS,
        missing=frozenset(engine.state.missing),
    )


def _list_related(names: Collection[str], state: LaneState) -> set[str]:
    """These incidents, what they are merged into, and what is merged into them."""
    incidents = [state.incidents[name] for name in names if name in state.incidents]
    rows = {incident.row for incident in incidents if incident.row}
    parents = {incident.parent for incident in incidents if incident.parent}
    related = {one.unique_id for one in state.incidents.values() if one.row in parents or one.parent in rows}
    return related.union(incident.unique_id for incident in incidents)
