"""What would happen: an alert on its road, and then time, from one due timer to the next, if nobody reacts.

Decided by the very functions that decide when it happens: `walk`, the timers that its decisions arm,
`due.decide`, and the notices that these owe. Nothing is written, and nobody is told.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from models.effects import EventState, IncidentState, NoticeState
from pipeline.alert import Alert
from pipeline.course import MOST_HAPPENINGS, Course, Happening
from pipeline.road import Traveller
from pipeline.state import LaneState

LONGEST = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What happens to alerts and to their incidents, in order, up to MOST_HAPPENINGS; `told` is the first
    word to each person, by row number, also where that is not among them. `events` are the alerts at the end
    of their roads, `incidents` those to which something happened, as they are then.

    `goes_on_at` is when more would happen later than was asked, `is_cut` whether there was more than is told.
    Where entities are `missing`, nothing else is told: it must be asked anew, with these known.
    """

    happenings: tuple[Happening, ...] = ()
    told: Mapping[int, datetime] = field(default_factory=dict)
    events: tuple[EventState, ...] = ()
    incidents: tuple[IncidentState, ...] = ()
    goes_on_at: datetime | None = None
    is_cut: bool = False
    missing: frozenset[tuple[int, str]] = frozenset()


def simulate(
    state: LaneState,
    alerts: Sequence[Alert],
    at: datetime,
    lasts: timedelta,
    *,
    since: datetime | None = None,
    owed: Iterable[NoticeState] = (),
    waiting: Sequence[tuple[str, str]] = (),
    done: Iterable[tuple[str, str]] = (),
    is_enough: Callable[[], bool] = lambda: False,
) -> Simulated:
    """What happens to alerts that are accepted at a moment, and for how long after it.

    `state` is the lane's, and the simulation's own from here on. The incidents in it were so at the moment
    `since` (None: `at`), when what was `owed` of them was still to be told, timers were `waiting` in this
    order, and what is done once was `done` (by incident and key): they too move on until the alerts come, but
    it is told only of those that the alerts lead to, or are about. `is_enough` may end it early, which then
    is cut.
    """
    course = Course(state, is_enough, set(done))
    for notice in owed:
        course.owe([notice], notice.not_before)
    course.arm_all(waiting)
    course.run(since or at, at, including=False)
    course.happenings.clear()
    course.touched.clear()
    course.walk([Traveller(alert) for alert in alerts], at)
    if state.missing:
        return Simulated(is_cut=course.is_cut, missing=frozenset(state.missing))
    course.keep_back(alerts, at, at + lasts)
    course.run(at, at + lasts, including=True)
    return _of_these_alerts(course)


def _of_these_alerts(course: Course) -> Simulated:
    """Without what happens to other incidents that are open meanwhile."""
    of = _families(course.led_to, course.state)
    happenings = [each for each in course.happenings if each.incident is None or each.incident in of]
    told: dict[int, datetime] = {}
    for each in happenings:
        if each.notice is not None:
            told.setdefault(each.notice.user, each.at)
    return Simulated(
        happenings=tuple(happenings[:MOST_HAPPENINGS]),
        told=told,
        events=tuple(course.events.values()),
        incidents=tuple(course.state.incidents[name] for name in course.touched if name in of),
        goes_on_at=course.next_moment(of),
        is_cut=course.is_cut or len(happenings) > MOST_HAPPENINGS,
        missing=frozenset(course.state.missing),
    )


def _families(names: Collection[str], state: LaneState) -> set[str]:
    """These incidents, what they are merged into, and what is merged into them."""
    of = [state.incidents[name] for name in names if name in state.incidents]
    rows = {incident.row for incident in of if incident.row}
    parents = {incident.parent for incident in of if incident.parent}
    near = {one.unique_id for one in state.incidents.values() if one.row in parents or one.parent in rows}
    return near.union(incident.unique_id for incident in of)
