"""What would happen: an alert on its road, and then time, from one due timer to the next, if nobody reacts.

Decided by the very functions that decide when it happens: `walk`, the timers that its decisions arm,
`due.decide`, and the notices that these owe. Nothing is written, and nobody is told.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from models.effects import (
    DONE_ONCE,
    ArmTimers,
    Effect,
    EventState,
    IncidentState,
    NoticeState,
    OweNotice,
    RecordLog,
    SaveEntity,
    SaveIncident,
    TimerState,
    VoidNotices,
)
from models.enums import NoticeKind
from models.facts import LaneFacts, Surroundings
from pipeline.alert import Alert
from pipeline.road import Traveller, plan_of, walk
from pipeline.stages import dedupe
from pipeline.state import LaneState
from pipeline.topology import AFTER_MAINTENANCE, segments
from schedules import due, timers
from schedules.notices import why_void
from schedules.windows import in_force

LONGEST = timedelta(days=31)
MOST_HAPPENINGS = 1_000


class Kind(StrEnum):
    """What sort of thing happens: an alert comes to the end of its road, an incident opens, somebody is told,
    the incident's log gets an entry, a timer is due."""

    ROAD = "road"
    OPENED = "opened"
    TOLD = "told"
    LOG = "log"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Happening:
    """`what` is the last stage of a road, or the kind of the entry, the notice or the timer; `notice` is what
    somebody is told by. `incident` is its unique_id, None where the road leads to none."""

    at: datetime
    kind: Kind
    what: str
    why: str
    incident: str | None
    notice: NoticeState | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """All that happens from the alerts on, in order; `events` are the alerts at the end of their roads,
    `incidents` those that something happened to, as they are then.

    `goes_on_at` is when more would happen later than was asked, `is_cut` whether there was more than is told.
    What was decided with any `missing` entities must be decided anew, with these known.
    """

    happenings: tuple[Happening, ...]
    events: tuple[EventState, ...]
    incidents: tuple[IncidentState, ...]
    goes_on_at: datetime | None
    is_cut: bool
    missing: frozenset[tuple[int, str]]


def simulate(
    state: LaneState,
    alerts: Sequence[Alert],
    at: datetime,
    lasts: timedelta,
    *,
    since: datetime | None = None,
    owed: Iterable[NoticeState] = (),
    done: Iterable[tuple[str, str]] = (),
    is_enough: Callable[[], bool] = lambda: False,
) -> Simulated:
    """What happens to alerts that are accepted at a moment, and for how long after it.

    `state` is the lane's, and the simulation's own from here on. The incidents in it were so at the moment
    `since` (None: `at`), when what was `owed` of them was still to be told, and what is done once was `done`
    (by incident and key): they too move on until the alerts come. `is_enough` may end it early, which then is
    cut.
    """
    course = _Course(state, is_enough, set(done))
    for notice in owed:
        course.owe([notice], notice.not_before)
    for incident in list(state.incidents.values()):
        course.arm(incident.unique_id, timers.wanted(incident, state.facts.service, state.facts.directory))
    course.run(since or at, at, including=False)
    course.happenings.clear()
    course.touched.clear()
    course.walk([Traveller(alert) for alert in alerts], at)
    course.keep_back(alerts, at, at + lasts)
    course.run(at, at + lasts, including=True)
    return Simulated(
        happenings=tuple(course.happenings[:MOST_HAPPENINGS]),
        events=tuple(course.events.values()),
        incidents=tuple(state.incidents[name] for name in course.touched if name in state.incidents),
        goes_on_at=course.next_moment(),
        is_cut=course.is_cut,
        missing=frozenset(state.missing),
    )


def _end_of_road(event: EventState, now: datetime) -> Happening:
    stage, reason = event.reasons[-1]
    return Happening(now, Kind.ROAD, stage, reason, event.incident)


def _maintenance_over(facts: LaneFacts, now: datetime, until: datetime) -> datetime | None:
    """When no window holds any more, or some moment after `until`; None where there is no end to it."""
    if facts.service.under_maintenance:
        return None
    moment = now
    while moment <= until and (found := in_force(facts.windows, moment)) is not None:
        if found.until is None:
            return None
        moment = found.until
    return moment


def _taken_up(alert: Alert, event: EventState, now: datetime) -> Traveller:
    """An alert as its rules left it, where it goes on after maintenance."""
    left = alert.but(
        entity_id=event.entity_id,
        message=event.message,
        summary=event.summary,
        alert_type=event.alert_type,
        suppressed=False,
    )
    left = replace(left, plan=plan_of(event.alert.get("plan")), released_at=now)
    reasons = (*event.reasons, dedupe.released(now))
    return Traveller(left, reasons, event.rules, AFTER_MAINTENANCE, event.incident)


@dataclass(slots=True)
class _Message:
    """Notices that travel together; the last of them decides when."""

    notices: list[NoticeState]

    @property
    def due_at(self) -> datetime:
        return max(notice.not_before for notice in self.notices)


@dataclass(slots=True)
class _Course:
    """The world as it goes on by itself: timers that wait, and messages that are still to be sent."""

    state: LaneState
    is_enough: Callable[[], bool]
    # The incident and the key of timers that have done what is done only once.
    _done: set[tuple[str, str]]
    happenings: list[Happening] = field(default_factory=list)
    # The alerts at the end of their roads, by unique_id.
    events: dict[str, EventState] = field(default_factory=dict)
    # Incidents that something happened to, in the order in which it did.
    touched: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False
    _timers: dict[str, dict[str, TimerState]] = field(default_factory=dict)
    _messages: list[_Message] = field(default_factory=list)
    # Keys of notices that were ever owed (law 8), and of those that are owed no more.
    _known: set[str] = field(default_factory=set)
    _void: set[str] = field(default_factory=set)
    _fired: int = 0
    # What maintenance keeps back, and until when.
    _kept_back: list[Alert] = field(default_factory=list)
    _released_at: datetime | None = None

    def walk(self, travellers: Iterable[Traveller], now: datetime) -> None:
        """Alerts on the whole road, in one transaction."""
        (whole_road,) = segments()
        outcome = walk(travellers, whole_road, self.state)
        self.events |= {event.unique_id: event for event in outcome.events}
        self.say(*(_end_of_road(event, now) for event in outcome.events))
        self.take(outcome.effects, now)
        self.touched.update((event.incident, None) for event in outcome.events if event.incident)

    def keep_back(self, alerts: Iterable[Alert], now: datetime, until: datetime) -> None:
        """Note which of these maintenance keeps back, and when it is over, if it is by then."""
        keeping = {entity.kept_back for entity in self.state.entities.values()}
        self._kept_back = [alert for alert in alerts if alert.event_id in keeping]
        self._released_at = _maintenance_over(self.state.facts, now, until) if self._kept_back else None

    def _release(self, now: datetime) -> None:
        """As workers/maintenance.py does: what still burns takes up its road again."""
        for entity in list(self.state.entities.values()):
            if entity.kept_back in self.events:
                self.state.absorb([SaveEntity(replace(entity, kept_back=None))])
        released = [_taken_up(alert, self.events[alert.event_id], now) for alert in self._kept_back]
        self._kept_back, self._released_at = [], None
        self.walk(released, now)

    def run(self, start: datetime, until: datetime, *, including: bool) -> None:
        """Let time pass up to a moment, `including` it or not; stops where there is too much."""
        while (moment := self.next_moment()) is not None and not self._is_over():
            now = max(moment, start)
            if now > until or (now == until and not including):
                return
            if self._released_at is not None and self._released_at <= now:
                self._release(now)
            self._fire_due(now)
            self._send_due(now)

    def next_moment(self) -> datetime | None:
        """When something happens next by itself."""
        waiting = (timer.due_at for timers in self._timers.values() for timer in timers.values())
        release = [self._released_at] if self._released_at else []
        return min((*waiting, *release, *(message.due_at for message in self._messages)), default=None)

    def _is_over(self) -> bool:
        self.is_cut = self.is_cut or max(len(self.happenings), self._fired) >= MOST_HAPPENINGS
        self.is_cut = self.is_cut or self.is_enough()
        return self.is_cut

    def _fire_due(self, now: datetime) -> None:
        while (found := list(self._due(now))) and not self._is_over():
            for timer in found:
                self._fire(timer, now)

    def _due(self, now: datetime) -> Iterator[TimerState]:
        waiting = (timer for timers in self._timers.values() for timer in timers.values())
        yield from sorted((timer for timer in waiting if timer.due_at <= now), key=lambda timer: timer.due_at)

    def _fire(self, timer: TimerState, now: datetime) -> None:
        """As workers/timers.py does: a timer that is due is over, unless it is decided to be later."""
        waiting = self._timers[timer.incident]
        if timer.key not in waiting or self._is_over():
            return
        self._fired += 1
        outcome, effects = due.decide(timer.kind, self._surroundings(timer.incident), now, timer.key)
        if outcome.startswith(DONE_ONCE):
            self._done.add((timer.incident, timer.key))
        self.say(Happening(now, Kind.TIMER, timer.kind.value, outcome, timer.incident))
        self.take(effects, now)
        waiting = self._timers[timer.incident]
        if timer.key in waiting and waiting[timer.key].due_at <= now:
            del waiting[timer.key]

    def _surroundings(self, name: str) -> Surroundings:
        incident, facts = self.state.incidents[name], self.state.facts
        children = tuple(self.state.children_of(incident))
        return Surroundings(incident, facts.service, facts.directory, children)

    def take(self, effects: Iterable[Effect], now: datetime) -> None:
        """What one transaction would write."""
        effects = list(effects)
        self.state.absorb(effects)
        owed: dict[str, NoticeState] = {}
        said = set[str]()
        for effect in effects:
            match effect:
                case SaveIncident(incident):
                    self.touched[incident.unique_id] = None
                case RecordLog(name, at, what, reason):
                    kind = Kind.OPENED if what == "opened" else Kind.LOG
                    self.say(Happening(at, kind, what, reason, name))
                case ArmTimers(name, wanted):
                    self.arm(name, wanted)
                case OweNotice(notice):
                    owed[notice.key] = notice
                    said.add(notice.key)
                case VoidNotices(name, kinds=kinds):
                    owed = {
                        key: one for key, one in owed.items() if one.incident != name or one.kind not in kinds
                    }
                    self._take_back(name, kinds)
        self.owe(owed.values(), now)
        self._known |= said

    def arm(self, incident: str, wanted: Iterable[TimerState]) -> None:
        """Exactly these wait from now on; what waited already keeps its place."""
        named = {timer.key: timer for timer in wanted if (incident, timer.key) not in self._done}
        kept = {key: named[key] for key in self._timers.get(incident, ()) if key in named}
        self._timers[incident] = kept | named

    def owe(self, notices: Iterable[NoticeState], now: datetime) -> None:
        """What one transaction owes, as messages."""
        together: dict[tuple[object, ...], _Message] = {}
        for notice in notices:
            if notice.key not in self._known:
                self._known.add(notice.key)
                together.setdefault(notice.travels_with(now), _Message([])).notices.append(notice)
        self._messages += together.values()

    def _take_back(self, incident: str, kinds: Collection[NoticeKind]) -> None:
        """What is still owed of an incident for reasons of these kinds is owed no more."""
        waiting = (notice for message in self._messages for notice in message.notices)
        void = (one for one in waiting if one.incident == incident and one.kind in kinds)
        self._void.update(notice.key for notice in void)
        self._messages = [message for message in self._messages if not self._is_void(message)]

    def _is_void(self, message: _Message) -> bool:
        return all(notice.key in self._void for notice in message.notices)

    def _send_due(self, now: datetime) -> None:
        due_now = [message for message in self._messages if message.due_at <= now]
        self._messages = [message for message in self._messages if message.due_at > now]
        for message in sorted(due_now, key=lambda message: message.due_at):
            self.say(*(self._told(notice, now) for notice in message.notices if self._is_living(notice)))

    def _is_living(self, notice: NoticeState) -> bool:
        status = self.state.incidents[notice.incident].status
        return notice.key not in self._void and why_void(notice.kind, status) is None

    def _told(self, notice: NoticeState, now: datetime) -> Happening:
        return Happening(now, Kind.TOLD, notice.kind.value, notice.reason, notice.incident, notice)

    def say(self, *happenings: Happening) -> None:
        self.happenings += happenings
