"""What should wait for incidents against what does: compared without locks, and made equal under them.

Looking locks and writes nothing; only what is found to differ is looked at again under the lock of its
service.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from models.apply import apply
from models.base import Busy, store
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
from models.enums import TimerKind
from models.facts import Directory, ServiceFacts
from models.loading import lock_families, services_around
from models.timer_states import done_once, waiting_timers
from schedules import escalation
from schedules.timers import wanted
from workers import bell, configuration

log = structlog.get_logger()

# Incidents that are looked at together.
AT_ONCE = 200
# How long one is waited for that somebody else holds.
LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Why:
    """Why incidents are looked at: who asked, and the word for it in their timelines."""

    actor: Actor
    logged: str
    reason: str


# The next incidents beyond a row number, so many at most.
Walk = Callable[[int, int], list[IncidentState]]


@dataclass(frozen=True, slots=True)
class Difference:
    """An incident whose timers (by key) are not those that it should have, of which nobody will hear, or
    whose chain's end is not known as it is."""

    incident: IncidentState
    directory: Directory
    wanted: tuple[TimerState, ...]
    is_over: bool
    missing: tuple[str, ...] = ()
    needless: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    is_untold: bool = False

    @property
    def exists(self) -> bool:
        return bool(self.timers or self.is_untold or self.is_over != self.incident.chain_over)

    @property
    def timers(self) -> dict[str, tuple[str, ...]]:
        """Which timers differ in which way."""
        found = {"missing": self.missing, "needless": self.needless, "moved": self.moved}
        return {what: keys for what, keys in found.items() if keys}

    @property
    def told(self) -> str:
        return "; ".join(f"{what}: {', '.join(keys)}" for what, keys in self.timers.items())


def pages(walk: Walk) -> Iterator[list[IncidentState]]:
    last = 0
    while page := walk(last, AT_ONCE):
        yield page
        last = page[-1].row or 0


def reconciled(
    page: Sequence[IncidentState], why: Why, now: datetime | None, tell: Callable[..., None] = log.exception
) -> list[Difference]:
    """Have exactly those timers wait for these incidents that should, together or, where that fails, one by
    one; returns what differed. What somebody else holds for long is left to the next audit."""
    try:
        return _reconciled(page, why, now)
    except Busy:
        log.info("incidents are worked on, and are audited the next time", incidents=len(page))
        return []
    except Exception as error:
        if store().is_away(error):
            raise
        rows = [one.row for one in page]
        tell("timers of incidents could not be compared", incidents=rows, error=type(error).__name__)
    # At length it was told of all of them together.
    alone = page if len(page) > 1 else ()
    return [each for one in alone for each in reconciled([one], why, now, tell=log.error)]


def _reconciled(page: Collection[IncidentState], why: Why, now: datetime | None) -> list[Difference]:
    differ = [each.incident for each in _differences(page, services_around(page), now)]
    return _arm(differ, why, now) if differ else []


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
    return [each for each in compared if each.exists]


def _compared(
    incident: IncidentState, directory: Directory, plan: Iterable[TimerState], waits: Mapping[str, TimerState]
) -> Difference:
    planned = {timer.key: timer for timer in plan}
    both = planned.keys() & waits.keys()
    return Difference(
        incident,
        directory,
        tuple(planned.values()),
        _is_over(incident, directory),
        missing=tuple(sorted(planned.keys() - waits.keys())),
        needless=tuple(sorted(waits.keys() - planned.keys())),
        moved=tuple(sorted(key for key in both if planned[key].due_at != waits[key].due_at)),
        is_untold=_is_untold(incident, planned.values()),
    )


def _is_over(incident: IncidentState, directory: Directory) -> bool:
    """Whether its chain is over: kept while there is a policy to ask, for one day it may be deleted."""
    if not escalation.is_climbing(incident):
        return incident.chain_over
    return escalation.is_over(incident, directory.policies.get(incident.escalation_policy or 0))


def _is_untold(incident: IncidentState, timers: Iterable[TimerState]) -> bool:
    """Whether it waits for an answer although its chain has named nobody, and will not.

    That happens when a policy is emptied, or its people leave, before its first step was due.
    """
    return (
        escalation.is_climbing(incident)
        and not incident.reached
        and not any(timer.kind is TimerKind.ESCALATE for timer in timers)
    )


def _arm(suspects: Collection[IncidentState], why: Why, now: datetime | None) -> list[Difference]:
    """Compare again under the locks: what was read a moment ago may have moved."""
    rows = [one.row for one in suspects if one.row is not None]
    with store().writing():
        with store().patience(LOCK_WAIT_S):
            found = lock_families(rows)
        states = [found.incidents[row] for row in rows if row in found.incidents]
        differ = _differences(states, found.services, now)
        at = now or store().now()
        effects = [effect for each in differ for effect in _arming(each, why, at)]
        known = {one.unique_id: row for row, one in found.incidents.items()}
        channels = apply(Outcome(effects=effects), known).channels
    bell.ring_deliveries(channels)
    return differ


def _arming(each: Difference, why: Why, at: datetime) -> Iterator[Effect]:
    one = each.incident
    if each.timers:
        yield ArmTimers(one.unique_id, each.wanted, at, why.reason)
        yield RecordLog(one.unique_id, at, why.logged, each.told, why.actor)
    if each.is_untold:
        yield from escalation.tell_somebody(one, each.directory, why.actor, at)
    after = one.but(reached=one.reached or each.is_untold, chain_over=each.is_over)
    if after != one:
        yield SaveIncident(after)


def counted(differences: Iterable[Difference]) -> Counter[str]:
    """How many timers differed in which way."""
    counts = Counter[str]()
    for each in differences:
        counts.update({what: len(keys) for what, keys in each.timers.items()})
    return counts
