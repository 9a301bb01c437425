"""Simulate an alert in the pipeline, and then the time after it, from one due timer to the next.

Nobody reacts in the simulation. It uses the functions of the real processing: `run_stages`, the timers that
decisions create, `decide_timer`, and the resulting notifications. Nothing is written and nobody
is notified.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from models.domain.effects import EventState, IncidentState, NotificationState
from pipeline.alert import Alert
from pipeline.lane_state import LaneKey, LaneState
from pipeline.run_stages import AlertInProgress
from pipeline.simulation.engine import MAX_SIMULATED_EVENTS, SimulatedEvent, SimulationEngine

MAX_DURATION = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What happens to alerts and to their incidents, in order, up to MAX_SIMULATED_EVENTS.

    `first_notified` is the time of the first notification of each person, by row number, even if it is not
    among the simulated events. `events` are the alerts after the pipeline. `incidents` are the incidents that
    changed, in their last state.

    `continues_at` is the time of the next event after the simulated duration. `is_truncated`: not all events
    are included. If entities or values are `missing`, the result is otherwise empty, and the caller must
    simulate again with these loaded.
    """

    simulated_events: tuple[SimulatedEvent, ...] = ()
    first_notified: Mapping[int, datetime] = field(default_factory=dict)
    events: tuple[EventState, ...] = ()
    incidents: tuple[IncidentState, ...] = ()
    continues_at: datetime | None = None
    is_truncated: bool = False
    missing: frozenset[LaneKey] = frozenset()


def simulate(
    state: LaneState,
    alerts: Sequence[Alert],
    at: datetime,
    duration: timedelta,
    *,
    since: datetime | None = None,
    pending: Iterable[NotificationState] = (),
    timer_order: Sequence[tuple[str, str]] = (),
    fired: Iterable[tuple[str, str]] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> SimulationResult:
    """Return what happens to alerts that are accepted at `at`, and during `duration` after it.

    `state` is the state of the lane; the simulation changes it. Its incidents are as they were at `since`
    (None: `at`). `pending` are their pending notifications at that time. `timer_order` is the order of their
    timers, and `fired` are their one-time timers that have fired (both by incident and key). These
    incidents change before the alerts arrive. The result contains only incidents that the alerts concern.
    `should_stop` can end the simulation early, and the result is then truncated.
    """
    engine = SimulationEngine(state, should_stop, set(fired))
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
    """Return the result without the events of other open incidents."""
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
    """Return these incidents, their parents, and the incidents that are merged into them."""
    incidents = [state.incidents[name] for name in names if name in state.incidents]
    rows = {incident.row for incident in incidents if incident.row}
    parents = {incident.parent for incident in incidents if incident.parent}
    related = {one.unique_id for one in state.incidents.values() if one.row in parents or one.parent in rows}
    return related.union(incident.unique_id for incident in incidents)
