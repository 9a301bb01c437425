"""Looks at every open incident now and then: has it the timers that it should have, was anybody told?

Finds what a change of a policy or a service moved, and would mend what was never written. Looking locks and
writes nothing; only what is found wrong is looked at again under the lock of its service, and mended.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, Busy, connection, store
from models.effects import (
    Actor,
    ArmTimers,
    Effect,
    IncidentState,
    Outcome,
    RecordLog,
    SaveIncident,
    TimerState,
)
from models.enums import ActorKind, IncidentStatus, TimerKind
from models.facts import Directory, ServiceFacts
from models.incident_states import open_incidents_after, over_with_timers_after
from models.incidents import Incident
from models.loading import lock_families, services_around
from models.timer_states import done_once, waiting_timers
from schedules import escalation
from schedules.timers import wanted
from tocsin import metrics
from workers import bell, configuration

log = structlog.get_logger()

AUDITOR = Actor(ActorKind.TIMER, "audit")

# Incidents that the audit looks at together.
AUDITED_AT_ONCE = 200
# How long it waits for one that somebody else holds.
LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Difference:
    """An incident whose timers (by key) are not those that it should have, or of which nobody will hear."""

    incident: IncidentState
    directory: Directory
    wanted: tuple[TimerState, ...]
    missing: tuple[str, ...] = ()
    needless: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    is_untold: bool = False

    @property
    def is_wrong(self) -> bool:
        return bool(self.timers or self.is_untold)

    @property
    def timers(self) -> dict[str, tuple[str, ...]]:
        """What was wrong with which timers."""
        found = {"missing": self.missing, "needless": self.needless, "moved": self.moved}
        return {what: keys for what, keys in found.items() if keys}

    @property
    def told(self) -> str:
        return "; ".join(f"{what}: {', '.join(keys)}" for what, keys in self.timers.items())


def audit(now: datetime | None = None) -> int:
    """Look at all open incidents; returns how many. An incident that fails keeps none of the others from it,
    nor does a service whose incidents the store cannot read. Raises what the store said where nothing could
    be read, and at once where nobody can use it."""
    looked_at, mended = 0, Counter[str]()
    unread: list[Exception] = []
    with connection():
        for service, walk in _walks():
            try:
                for page in _pages(walk):
                    looked_at += len(page)
                    mended += _looked_over(page, now)
            except STORE_ERRORS as error:
                if store().is_away(error):
                    raise
                unread.append(error)
                log.warning("incidents cannot be audited", service=service, error=type(error).__name__)
    if mended:
        log.warning("the audit found timers that were not as they should be", **mended)
    if unread and not looked_at:
        raise unread[0]
    return looked_at


# The next incidents beyond a row number, so many at most.
Walk = Callable[[int, int], list[IncidentState]]


def _walks() -> Iterator[tuple[int | None, Walk]]:
    """All open incidents by their service, and others for which timers wait."""
    open_ones = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
    for (service_row,) in list(open_ones.distinct().tuples()):
        yield service_row, partial(open_incidents_after, service_row)
    yield None, over_with_timers_after


def _pages(walk: Walk) -> Iterator[list[IncidentState]]:
    last = 0
    while page := walk(last, AUDITED_AT_ONCE):
        yield page
        last = page[-1].row or 0


def _looked_over(
    page: Sequence[IncidentState], now: datetime | None, tell: Callable[..., None] = log.exception
) -> Counter[str]:
    """Mend what is wrong with these, together or, where that fails, one by one; returns how many timers were
    wrong in which way. What somebody else holds for long is left to the next audit."""
    try:
        return _mended(page, now)
    except Busy:
        log.info("incidents are worked on, and are audited the next time", incidents=len(page))
        return Counter()
    except Exception as error:
        if store().is_away(error):
            raise
        rows = [one.row for one in page]
        tell("incidents could not be audited", incidents=rows, error=type(error).__name__)
    # At length it was told of all of them together.
    alone = page if len(page) > 1 else ()
    return sum((_looked_over([one], now, tell=log.error) for one in alone), Counter[str]())


def _mended(page: Collection[IncidentState], now: datetime | None) -> Counter[str]:
    wrong = [each.incident for each in _differences(page, services_around(page), now)]
    return _mend(wrong, now) if wrong else Counter()


def _differences(
    incidents: Collection[IncidentState], services: Mapping[int, ServiceFacts], now: datetime | None
) -> list[Difference]:
    """Those of these that are wrong, in a constant number of queries."""
    directories = configuration.of_incidents(incidents, now)
    plans = [(one, wanted(one, services.get(one.service or 0), directories[one.team])) for one in incidents]
    names = {one.row: one.unique_id for one in incidents if one.row is not None}
    waiting: dict[str, dict[str, TimerState]] = {}
    for _, timer in waiting_timers(names):
        waiting.setdefault(timer.incident, {})[timer.key] = timer
    absent = [
        timer for one, plan in plans for timer in plan if timer.key not in waiting.get(one.unique_id, {})
    ]
    done = done_once(names, absent)
    compared = [
        _compared(
            one,
            directories[one.team],
            [timer for timer in plan if (one.unique_id, timer.key) not in done],
            waiting.get(one.unique_id, {}),
        )
        for one, plan in plans
    ]
    return [each for each in compared if each.is_wrong]


def _compared(
    incident: IncidentState, directory: Directory, plan: Iterable[TimerState], waits: Mapping[str, TimerState]
) -> Difference:
    planned = {timer.key: timer for timer in plan}
    both = planned.keys() & waits.keys()
    return Difference(
        incident,
        directory,
        tuple(planned.values()),
        missing=tuple(sorted(planned.keys() - waits.keys())),
        needless=tuple(sorted(waits.keys() - planned.keys())),
        moved=tuple(sorted(key for key in both if planned[key].due_at != waits[key].due_at)),
        is_untold=_is_untold(incident, planned.values()),
    )


def _is_untold(incident: IncidentState, timers: Iterable[TimerState]) -> bool:
    """Whether it waits for an answer although its chain has named nobody, and will not.

    That happens when a policy is emptied, or its people leave, before its first step was due.
    """
    return (
        incident.status is IncidentStatus.TRIGGERED
        and incident.parent is None
        and incident.escalating
        and not incident.reached
        and not any(timer.kind is TimerKind.ESCALATE for timer in timers)
    )


def _mend(suspects: Collection[IncidentState], now: datetime | None) -> Counter[str]:
    """Compare again under the locks: what was read a moment ago may have moved. Returns how many timers were
    wrong in which way."""
    rows = [one.row for one in suspects if one.row is not None]
    with store().writing():
        with store().patience(LOCK_WAIT_S):
            found = lock_families(rows)
        states = [found.incidents[row] for row in rows if row in found.incidents]
        wrong = _differences(states, found.services, now)
        at = now or store().now()
        effects = [effect for each in wrong for effect in _mending(each, at)]
        known = {one.unique_id: row for row, one in found.incidents.items()}
        channels = apply(Outcome(effects=effects), known).channels
    bell.ring_deliveries(channels)
    return _told(wrong)


def _mending(each: Difference, at: datetime) -> Iterator[Effect]:
    one = each.incident
    if each.timers:
        yield ArmTimers(one.unique_id, each.wanted, at, "planned anew by the audit")
        yield RecordLog(one.unique_id, at, "timers_mended", each.told, AUDITOR)
    if each.is_untold:
        yield from escalation.tell_somebody(one, each.directory, AUDITOR, at)
        yield SaveIncident(one.but(reached=True))


def _told(wrong: Iterable[Difference]) -> Counter[str]:
    counts = Counter[str]()
    timers = {each.incident.row: each.told for each in wrong if each.timers}
    for each in wrong:
        counts.update({what: len(keys) for what, keys in each.timers.items()})
    if timers:
        log.warning("timers mended", **counts, incidents=timers)
    for what, count in counts.items():
        metrics.count_mended(what, count)
    return counts
