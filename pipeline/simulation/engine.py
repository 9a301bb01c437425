"""Run the time of a simulation in which nobody reacts: fire timers and send messages, in memory.

The engine does what workers do: process alerts, fire timers, release deferred alerts and send messages.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from models.domain.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    AdvanceRoundRobin,
    ApplyTaskTemplate,
    AssignRole,
    CancelNotifications,
    CreateNotification,
    Effect,
    EventState,
    ExpectPing,
    MailStakeholders,
    NotificationState,
    NotifyRecovery,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveGroups,
    SaveIncident,
    SendOutbound,
    TimerState,
)
from models.domain.enums import NotificationKind
from models.domain.facts import IncidentContext, LaneFacts
from models.domain.reasons import Reason
from models.domain.values import replace
from pipeline.alert import Alert
from pipeline.incidents.decide_timer import build_timer_author, decide_timer
from pipeline.incidents.timer_table import get_expected_timers
from pipeline.lane_state import LaneState
from pipeline.rules.rulesets import Interrupted
from pipeline.run_stages import AlertInProgress, parse_options, run_stages
from pipeline.stages import dedupe
from pipeline.topology import AFTER_MAINTENANCE, build_segments
from schedules.escalation.person_notifications import get_cancel_reason
from schedules.maintenance import find_in_force

# The maximum number of simulated events, and of timers that fire.
MAX_SIMULATED_EVENTS = 1_000


class SimulatedKind(StrEnum):
    """The kind of a simulated event.

    The kinds are: an alert leaves the pipeline, an incident opens, a person is notified, the incident's log
    gets an entry, a timer fires.
    """

    PIPELINE = "pipeline"
    OPENED = "opened"
    NOTIFIED = "notified"
    LOG = "log"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """One thing that happens in a simulation.

    `what` is the last stage of an alert, or the kind of the log entry, notification or timer. `incident` is a
    unique_id, None if the alert has no incident. `notification` is set if a person is notified.
    """

    at: datetime
    kind: SimulatedKind
    what: str
    why: Reason
    incident: str | None
    notification: NotificationState | None = None


@dataclass(slots=True)
class SimulatedMessage:
    """Notifications that share one outgoing message. The last of them decides when it is sent."""

    notifications: list[NotificationState]

    @property
    def due_at(self) -> datetime:
        return max(notification.not_before for notification in self.notifications)


@dataclass(slots=True)
class _Pending:
    """The notifications of one transaction, by key. `seen_keys` also has the keys of cancelled ones."""

    notifications: dict[str, NotificationState] = field(default_factory=dict)
    seen_keys: set[str] = field(default_factory=set)

    def add(self, notification: NotificationState) -> None:
        self.notifications[notification.key] = notification
        self.seen_keys.add(notification.key)

    def cancel(self, incident: str, kinds: Collection[NotificationKind]) -> None:
        cancelled = [
            one.key for one in self.notifications.values() if one.incident == incident and one.kind in kinds
        ]
        for key in cancelled:
            del self.notifications[key]


@dataclass(slots=True)
class SimulationEngine:
    """The state of a simulation, and the rules by which it continues.

    The simulation ends early if `should_stop` returns true or MAX_SIMULATED_EVENTS is reached. Then
    `is_truncated` is set. Before the end, it sends all notifications that are due at that moment.
    """

    state: LaneState
    should_stop: Callable[[], bool]
    # The incident and the key of timers that fire only once and have fired.
    fired: set[tuple[str, str]]
    simulated_events: list[SimulatedEvent] = field(default_factory=list)
    # The alerts that left the pipeline, by unique_id.
    events: dict[str, EventState] = field(default_factory=dict)
    # Incidents of the alerts, or that held the entity of an alert when it arrived.
    related: set[str] = field(default_factory=set)
    # Incidents that changed, in the order of their first changes.
    changed: dict[str, None] = field(default_factory=dict)
    is_truncated: bool = False
    # By incident and key, in the order of creation.
    _timers: dict[tuple[str, str], TimerState] = field(default_factory=dict)
    _messages: list[SimulatedMessage] = field(default_factory=list)
    # Keys of all notifications that were created, and of the cancelled ones: invariant 8 (design, section 2).
    _created_keys: set[str] = field(default_factory=set)
    _cancelled_keys: set[str] = field(default_factory=set)
    _fired_count: int = 0
    # All events before this time are simulated. At this time, more events are possible.
    _current_time: datetime | None = None
    # The alerts that maintenance deferred, and when it ends.
    _deferred: list[Alert] = field(default_factory=list)
    _release_at: datetime | None = None

    def process(self, in_progress: Iterable[AlertInProgress], now: datetime) -> None:
        """Run alerts through the whole pipeline, in one transaction."""
        self._current_time = now
        (pipeline,) = build_segments()
        pending = _Pending()
        for progress in in_progress:
            if self._should_stop():
                break
            try:
                outcome = run_stages([progress], pipeline, self.state)
            except Interrupted:
                self.is_truncated = True
                break
            for event in outcome.events:
                self.events[event.unique_id] = event
                self.related.update(self._list_related(event))
            self.record(*(_build_end_event(event, now) for event in outcome.events))
            self._process_effects(outcome.effects, pending)
        self._create_all(pending, now)

    def _list_related(self, event: EventState) -> Iterator[str]:
        entity = self.state.entities.get((event.integration or 0, event.entity_id))
        incident = self.state.get_open_incident(entity) if entity else None
        if incident is not None:
            yield incident.unique_id
        if event.incident:
            yield event.incident

    def defer(self, alerts: Iterable[Alert], now: datetime, until: datetime) -> None:
        """Store which of these alerts maintenance deferred, and its end.

        An end after `until` is not exact.
        """
        deferred = {entity.deferred_alert for entity in self.state.entities.values()}
        self._deferred = [alert for alert in alerts if alert.event_id in deferred]
        self._release_at = _get_maintenance_end(self.state.facts, now, until) if self._deferred else None

    def _release(self, now: datetime) -> None:
        """Process the deferred alerts that are still firing, as workers/periodic/release_maintenance.py
        does.
        """
        for entity in list(self.state.entities.values()):
            if entity.deferred_alert in self.events:
                self.state.apply_effects([SaveEntity(replace(entity, deferred_alert=None))])
        released = [_resume(alert, self.events[alert.event_id], now) for alert in self._deferred]
        self._deferred, self._release_at = [], None
        self.process(released, now)

    def run(self, start: datetime, until: datetime, *, inclusive: bool) -> None:
        """Simulate the time from `start` to `until`, `inclusive` or not, or to an early end."""
        while (moment := self.get_next_time()) is not None:
            now = max(moment, start)
            if now > until or (now == until and not inclusive):
                return
            if self._is_finished():
                if now == self._current_time:
                    self._send_due(now)
                return
            self._current_time = now
            if self._release_at is not None and self._release_at <= now:
                self._release(now)
            self._fire_due(now)
            self._send_due(now)

    def get_next_time(self, incidents: Collection[str] | None = None) -> datetime | None:
        """Return the time of the next event of these incidents (None: of all) or of the deferred alerts."""

        def is_selected(incident: str) -> bool:
            return incidents is None or incident in incidents

        timer_times = (timer.due_at for (incident, _), timer in self._timers.items() if is_selected(incident))
        message_times = (
            message.due_at
            for message in self._messages
            if any(is_selected(notification.incident) for notification in message.notifications)
        )
        release_times = [self._release_at] if self._release_at else []
        return min((*timer_times, *message_times, *release_times), default=None)

    def _should_stop(self) -> bool:
        self.is_truncated = self.is_truncated or self.should_stop()
        return self.is_truncated

    def _is_finished(self) -> bool:
        self.is_truncated = (
            self._should_stop() or max(len(self.simulated_events), self._fired_count) >= MAX_SIMULATED_EVENTS
        )
        return self.is_truncated

    def _fire_due(self, now: datetime) -> None:
        while (found := list(self._list_due(now))) and not self._is_finished():
            for name, key in found:
                self._fire(name, key, now)

    def _list_due(self, now: datetime) -> Iterator[tuple[str, str]]:
        """Return the due timers, earliest first; at the same time, in the order of creation."""
        due_timers = [(timer.due_at, place) for place, timer in self._timers.items() if timer.due_at <= now]
        return (place for _, place in sorted(due_timers, key=lambda one: one[0]))

    def _fire(self, name: str, key: str, now: datetime) -> None:
        """Fire a timer as workers/timers/fire.py does: it is done, unless the decision sets a later time."""
        timer = self._timers.get((name, key))
        if timer is None or self._is_finished():
            return
        self._fired_count += 1
        decision = decide_timer(self._build_context(name, timer.kind, now), timer.kind, key)
        if decision.fired:
            self.fired.add((name, key))
        self.record(SimulatedEvent(now, SimulatedKind.TIMER, timer.kind, decision.outcome, name))
        self._commit(decision.effects, now)
        remaining = self._timers.get((name, key))
        if remaining is not None and remaining.due_at <= now:
            del self._timers[name, key]

    def _build_context(self, name: str, kind: str, now: datetime) -> IncidentContext:
        incident, facts = self.state.incidents[name], self.state.facts
        children = tuple(self.state.get_children(incident))
        return IncidentContext(incident, facts.service, facts.config, build_timer_author(kind), now, children)

    def _commit(self, effects: Iterable[Effect], now: datetime) -> None:
        """Apply the effects of one transaction."""
        effects = list(effects)
        self.state.apply_effects(effects)
        pending = _Pending()
        self._process_effects(effects, pending)
        self._create_all(pending, now)

    def _process_effects(self, effects: Iterable[Effect], pending: _Pending) -> None:
        """Apply effects, except to the state. `pending` are the notifications of the transaction so far."""
        for effect in effects:
            CONSEQUENCES[type(effect)](self, effect, pending)

    def reconcile_all(self, timer_order: Sequence[tuple[str, str]]) -> None:
        """Create the expected timers of the open incidents, in the stored order."""
        order = {each: place for place, each in enumerate(timer_order)}
        facts = self.state.facts
        expected = [
            (incident.unique_id, timer)
            for incident in self.state.incidents.values()
            for timer in get_expected_timers(incident, facts.service, facts.config)
            if (incident.unique_id, timer.key) not in self.fired
        ]
        expected.sort(key=lambda one: order.get((one[0], one[1].key), len(order)))
        self._timers = {(name, timer.key): timer for name, timer in expected}

    def reconcile(self, incident: str, expected: Iterable[TimerState]) -> None:
        """Make the timers of an incident equal to the expected ones. A timer that exists keeps its place."""
        by_key = {timer.key: timer for timer in expected if (incident, timer.key) not in self.fired}
        for name, key in list(self._timers):
            if name == incident and key not in by_key:
                del self._timers[name, key]
        self._timers |= {(incident, key): timer for key, timer in by_key.items()}

    def _create_all(self, pending: _Pending, now: datetime) -> None:
        self.create_notifications(pending.notifications.values(), now)
        self._created_keys |= pending.seen_keys

    def create_notifications(self, notifications: Iterable[NotificationState], now: datetime) -> None:
        """Create the notifications of one transaction, grouped into messages."""
        groups: dict[tuple[object, ...], SimulatedMessage] = {}
        for notification in notifications:
            if notification.key not in self._created_keys:
                self._created_keys.add(notification.key)
                groups.setdefault(notification.message_group(now), SimulatedMessage([])).notifications.append(
                    notification
                )
        self._messages += groups.values()

    def cancel(self, incident: str, kinds: Collection[NotificationKind]) -> None:
        """Cancel the pending notifications of an incident of these kinds."""
        pending = (notification for message in self._messages for notification in message.notifications)
        cancelled = (one for one in pending if one.incident == incident and one.kind in kinds)
        self._cancelled_keys.update(notification.key for notification in cancelled)
        self._messages = [message for message in self._messages if not self._is_cancelled(message)]

    def _is_cancelled(self, message: SimulatedMessage) -> bool:
        return all(notification.key in self._cancelled_keys for notification in message.notifications)

    def _send_due(self, now: datetime) -> None:
        due_now = [message for message in self._messages if message.due_at <= now]
        self._messages = [message for message in self._messages if message.due_at > now]
        for message in sorted(due_now, key=lambda message: message.due_at):
            self.record(
                *(
                    self._build_notified(notification, now)
                    for notification in message.notifications
                    if self._is_pending(notification)
                )
            )

    def _is_pending(self, notification: NotificationState) -> bool:
        status = self.state.incidents[notification.incident].status
        return (
            notification.key not in self._cancelled_keys
            and get_cancel_reason(notification.kind, status) is None
        )

    def _build_notified(self, notification: NotificationState, now: datetime) -> SimulatedEvent:
        return SimulatedEvent(
            now,
            SimulatedKind.NOTIFIED,
            notification.kind.value,
            notification.reason,
            notification.incident,
            notification,
        )

    def record(self, *simulated_events: SimulatedEvent) -> None:
        self.simulated_events += simulated_events
        self.changed.update((each.incident, None) for each in simulated_events if each.incident)


def _note_change(engine: SimulationEngine, effect: SaveIncident, _: _Pending) -> None:
    engine.changed[effect.incident.unique_id] = None


def _record_log(engine: SimulationEngine, effect: RecordLog, _: _Pending) -> None:
    kind = SimulatedKind.OPENED if effect.what == "opened" else SimulatedKind.LOG
    engine.record(SimulatedEvent(effect.at, kind, effect.what, effect.reason, effect.incident))


def _reconcile_timers(engine: SimulationEngine, effect: ReconcileTimers, _: _Pending) -> None:
    engine.reconcile(effect.incident, effect.expected)


def _create_notification(_: SimulationEngine, effect: CreateNotification, pending: _Pending) -> None:
    pending.add(effect.notification)


def _cancel_notifications(engine: SimulationEngine, effect: CancelNotifications, pending: _Pending) -> None:
    pending.cancel(effect.incident, effect.kinds)
    engine.cancel(effect.incident, effect.kinds)


def _ignore(_: SimulationEngine, effect: Effect, pending: _Pending) -> None:
    """Do nothing: the effect has no consequence, except those in the state of the lane."""


# What an effect causes in a simulation, besides its change of the state (UPDATES in pipeline/lane_state.py).
CONSEQUENCES: dict[type[Effect], Callable[..., None]] = {
    SaveIncident: _note_change,
    RecordLog: _record_log,
    ReconcileTimers: _reconcile_timers,
    CreateNotification: _create_notification,
    CancelNotifications: _cancel_notifications,
    **dict.fromkeys((SaveEntity, ReleaseEntities, ReclaimEntities), _ignore),
    **dict.fromkeys((AddNote, AddTag, AddTask, AddResponder, AssignRole, ApplyTaskTemplate), _ignore),
    **dict.fromkeys((AdvanceRoundRobin, ExpectPing, SaveGroups, MailStakeholders), _ignore),
    # A simulation shows who is notified of a problem.
    **dict.fromkeys((NotifyRecovery, SendOutbound), _ignore),
}


def _build_end_event(event: EventState, now: datetime) -> SimulatedEvent:
    stage, reason = event.reasons[-1]
    return SimulatedEvent(now, SimulatedKind.PIPELINE, stage, reason, event.incident)


def _get_maintenance_end(facts: LaneFacts, now: datetime, until: datetime) -> datetime | None:
    """Return when the maintenance ends, or any time after `until`. None: the maintenance has no end."""
    if facts.service.under_maintenance:
        return None
    moment = now
    while moment <= until and (found := find_in_force(facts.windows, moment)) is not None:
        if found.until is None:
            return None
        moment = found.until
    return moment


def _resume(alert: Alert, event: EventState, now: datetime) -> AlertInProgress:
    """Return an alert as its rules left it, at the stage where it continues after maintenance."""
    updated = alert.with_changes(
        entity_id=event.entity_id,
        message=event.message,
        summary=event.summary,
        alert_type=event.alert_type,
        suppressed=False,
    )
    updated = replace(updated, options=parse_options(event.alert.get("options")), released_at=now)
    reasons = (*event.reasons, dedupe.build_release_reason(now))
    return AlertInProgress(updated, reasons, event.rules, AFTER_MAINTENANCE, event.incident)
