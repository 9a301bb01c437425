"""The course of time while nobody reacts: timers that wait, messages to be sent, and what comes of them.

Does in memory what the shells around the decisions do: the road, timers, maintenance and deliver of workers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from models.effects import (
    DONE_ONCE,
    ArmTimers,
    Effect,
    EventState,
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
from pipeline.rulesets import Interrupted
from pipeline.stages import dedupe
from pipeline.state import LaneState
from pipeline.topology import AFTER_MAINTENANCE, segments
from schedules import due, timers
from schedules.notices import why_void
from schedules.windows import in_force

# So much may happen, and so many timers be due.
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


@dataclass(slots=True)
class Message:
    """Notices that travel together; the last of them decides when."""

    notices: list[NoticeState]

    @property
    def due_at(self) -> datetime:
        return max(notice.not_before for notice in self.notices)


@dataclass(slots=True)
class _Owed:
    """What one transaction owes so far, by key; `said` are the keys of all that it ever did."""

    notices: dict[str, NoticeState] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def add(self, notice: NoticeState) -> None:
        self.notices[notice.key] = notice
        self.said.add(notice.key)

    def take_back(self, incident: str, kinds: Collection[NoticeKind]) -> None:
        void = [one.key for one in self.notices.values() if one.incident == incident and one.kind in kinds]
        for key in void:
            del self.notices[key]


@dataclass(slots=True)
class Course:
    """The world as it goes on by itself.

    It ends early, and then `is_cut`, as soon as `is_enough` says so, or where there is too much; but not
    before everybody is told who is to be told of what has happened at that moment.
    """

    state: LaneState
    is_enough: Callable[[], bool]
    # The incident and the key of timers that have done what is done only once.
    done: set[tuple[str, str]]
    happenings: list[Happening] = field(default_factory=list)
    # The alerts at the end of their roads, by unique_id.
    events: dict[str, EventState] = field(default_factory=dict)
    # Incidents to which alerts led, or that held what an alert was about when it came.
    led_to: set[str] = field(default_factory=set)
    # Incidents that something happened to, in the order in which it did.
    touched: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False
    # By incident and key, in the order in which they began to wait.
    _timers: dict[tuple[str, str], TimerState] = field(default_factory=dict)
    _messages: list[Message] = field(default_factory=list)
    # Keys of notices that were ever owed (law 8), and of those that are owed no more.
    _known: set[str] = field(default_factory=set)
    _void: set[str] = field(default_factory=set)
    _fired: int = 0
    # The moment up to which all has happened, but perhaps for some of its own.
    _at: datetime | None = None
    # What maintenance keeps back, and until when.
    _kept_back: list[Alert] = field(default_factory=list)
    _released_at: datetime | None = None

    def walk(self, travellers: Iterable[Traveller], now: datetime) -> None:
        """Alerts on the whole road, in one transaction."""
        self._at = now
        (whole_road,) = segments()
        owed = _Owed()
        for traveller in travellers:
            if self._is_enough():
                break
            try:
                outcome = walk([traveller], whole_road, self.state)
            except Interrupted:
                self.is_cut = True
                break
            for event in outcome.events:
                self.events[event.unique_id] = event
                self.led_to.update(self._near(event))
            self.say(*(_end_of_road(event, now) for event in outcome.events))
            self._follow(outcome.effects, owed)
        self._owe(owed, now)

    def _near(self, event: EventState) -> Iterator[str]:
        entity = self.state.entities.get((event.integration or 0, event.entity_id))
        held = self.state.holder(entity) if entity else None
        if held is not None:
            yield held.unique_id
        if event.incident:
            yield event.incident

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
        while (moment := self.next_moment()) is not None:
            now = max(moment, start)
            if now > until or (now == until and not including):
                return
            if self._is_over():
                if now == self._at:
                    self._send_due(now)
                return
            self._at = now
            if self._released_at is not None and self._released_at <= now:
                self._release(now)
            self._fire_due(now)
            self._send_due(now)

    def next_moment(self, incidents: Collection[str] | None = None) -> datetime | None:
        """When something happens next by itself, to these incidents (None: to any) or to an alert."""

        def counts(incident: str) -> bool:
            return incidents is None or incident in incidents

        waiting = (timer.due_at for (incident, _), timer in self._timers.items() if counts(incident))
        owed = (
            message.due_at
            for message in self._messages
            if any(counts(notice.incident) for notice in message.notices)
        )
        release = [self._released_at] if self._released_at else []
        return min((*waiting, *owed, *release), default=None)

    def _is_enough(self) -> bool:
        self.is_cut = self.is_cut or self.is_enough()
        return self.is_cut

    def _is_over(self) -> bool:
        self.is_cut = self._is_enough() or max(len(self.happenings), self._fired) >= MOST_HAPPENINGS
        return self.is_cut

    def _fire_due(self, now: datetime) -> None:
        while (found := list(self._due(now))) and not self._is_over():
            for name, key in found:
                self._fire(name, key, now)

    def _due(self, now: datetime) -> Iterator[tuple[str, str]]:
        """Those that are due for longest first; at one moment, those that wait for longest."""
        waiting = [(timer.due_at, place) for place, timer in self._timers.items() if timer.due_at <= now]
        return (place for _, place in sorted(waiting, key=lambda one: one[0]))

    def _fire(self, name: str, key: str, now: datetime) -> None:
        """As workers/timers.py does: a timer that is due is over, unless it is decided to be later."""
        timer = self._timers.get((name, key))
        if timer is None or self._is_over():
            return
        self._fired += 1
        outcome, effects = due.decide(timer.kind, self._surroundings(name), now, key)
        if outcome.startswith(DONE_ONCE):
            self.done.add((name, key))
        self.say(Happening(now, Kind.TIMER, timer.kind.value, outcome, name))
        self._take(effects, now)
        left = self._timers.get((name, key))
        if left is not None and left.due_at <= now:
            del self._timers[name, key]

    def _surroundings(self, name: str) -> Surroundings:
        incident, facts = self.state.incidents[name], self.state.facts
        children = tuple(self.state.children_of(incident))
        return Surroundings(incident, facts.service, facts.directory, children)

    def _take(self, effects: Iterable[Effect], now: datetime) -> None:
        """What one transaction would write."""
        effects = list(effects)
        self.state.absorb(effects)
        owed = _Owed()
        self._follow(effects, owed)
        self._owe(owed, now)

    def _follow(self, effects: Iterable[Effect], owed: _Owed) -> None:
        """What becomes of effects, but for the state, in a transaction that `owed` so much before."""
        for effect in effects:
            match effect:
                case SaveIncident(incident):
                    self.touched[incident.unique_id] = None
                case RecordLog(name, at, what, reason):
                    kind = Kind.OPENED if what == "opened" else Kind.LOG
                    self.say(Happening(at, kind, what, reason, name))
                case ArmTimers(name, wanted):
                    self._arm(name, wanted)
                case OweNotice(notice):
                    owed.add(notice)
                case VoidNotices(name, kinds=kinds):
                    owed.take_back(name, kinds)
                    self._take_back(name, kinds)

    def arm_all(self, waiting: Sequence[tuple[str, str]]) -> None:
        """What the open incidents wait for, in the order in which they do."""
        places = {each: place for place, each in enumerate(waiting)}
        facts = self.state.facts
        wanted = [
            (incident.unique_id, timer)
            for incident in self.state.incidents.values()
            for timer in timers.wanted(incident, facts.service, facts.directory)
            if (incident.unique_id, timer.key) not in self.done
        ]
        wanted.sort(key=lambda one: places.get((one[0], one[1].key), len(places)))
        self._timers = {(name, timer.key): timer for name, timer in wanted}

    def _arm(self, incident: str, wanted: Iterable[TimerState]) -> None:
        """Exactly these wait from now on; what waited already keeps its place."""
        named = {timer.key: timer for timer in wanted if (incident, timer.key) not in self.done}
        for name, key in list(self._timers):
            if name == incident and key not in named:
                del self._timers[name, key]
        self._timers |= {(incident, key): timer for key, timer in named.items()}

    def _owe(self, owed: _Owed, now: datetime) -> None:
        self.owe(owed.notices.values(), now)
        self._known |= owed.said

    def owe(self, notices: Iterable[NoticeState], now: datetime) -> None:
        """What one transaction owes, as messages."""
        together: dict[tuple[object, ...], Message] = {}
        for notice in notices:
            if notice.key not in self._known:
                self._known.add(notice.key)
                together.setdefault(notice.travels_with(now), Message([])).notices.append(notice)
        self._messages += together.values()

    def _take_back(self, incident: str, kinds: Collection[NoticeKind]) -> None:
        """What is still owed of an incident for reasons of these kinds is owed no more."""
        waiting = (notice for message in self._messages for notice in message.notices)
        void = (one for one in waiting if one.incident == incident and one.kind in kinds)
        self._void.update(notice.key for notice in void)
        self._messages = [message for message in self._messages if not self._is_void(message)]

    def _is_void(self, message: Message) -> bool:
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
        self.touched.update((each.incident, None) for each in happenings if each.incident)


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
