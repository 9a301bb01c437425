"""What should wait for incidents against what does: compared without locks, and made equal under them.

Looking locks and writes nothing; only what is found to differ is looked at again under the lock of its
service.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from models.domain.effects import (
    Actor,
    ChangeSet,
    Effect,
    IncidentState,
    ReconcileTimers,
    RecordLog,
    SaveIncident,
    TimerState,
)
from models.domain.enums import TimerKind
from models.domain.facts import OnCallConfig, ServiceFacts
from models.load.lane import load_services, lock_with_children
from models.load.timers import find_fired, load_pending_timers
from models.store.base import Busy, store
from models.write.apply import apply
from schedules.escalation import escalation
from schedules.timers.expected import get_expected_timers
from workers import queue
from workers.alerts import config_cache

log = structlog.get_logger()

# Incidents that are looked at together.
PAGE_SIZE = 200
# How long one is waited for that somebody else holds.
LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why incidents are looked at: who asked, and the word for it in their timelines."""

    actor: Actor
    code: str
    reason: str


# The next incidents beyond a row number, so many at most.
PageLoader = Callable[[int, int], list[IncidentState]]


@dataclass(frozen=True, slots=True)
class Difference:
    """An incident whose timers (by key) are not those that it should have, of which nobody will hear, or
    whose chain's end is not known as it is."""

    incident: IncidentState
    config: OnCallConfig
    expected: tuple[TimerState, ...]
    is_exhausted: bool
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    is_unnotified: bool = False

    @property
    def has_changes(self) -> bool:
        return bool(self.timers or self.is_unnotified or self.is_exhausted != self.incident.exhausted)

    @property
    def timers(self) -> dict[str, tuple[str, ...]]:
        """Which timers differ in which way."""
        found = {"missing": self.missing, "extra": self.extra, "moved": self.moved}
        return {what: keys for what, keys in found.items() if keys}

    @property
    def description(self) -> str:
        return "; ".join(f"{what}: {', '.join(keys)}" for what, keys in self.timers.items())


def load_pages(load_page: PageLoader) -> Iterator[list[IncidentState]]:
    last = 0
    while page := load_page(last, PAGE_SIZE):
        yield page
        last = page[-1].row or 0


def reconcile(
    page: Sequence[IncidentState],
    cause: Cause,
    now: datetime | None,
    report: Callable[..., None] = log.exception,
) -> list[Difference]:
    """Have exactly those timers wait for these incidents that should, together or, where that fails, one by
    one; returns what differed. What somebody else holds for long is left to the next audit."""
    try:
        return _reconcile(page, cause, now)
    except Busy:
        log.info("incidents are worked on, and are audited the next time", incidents=len(page))
        return []
    except Exception as error:
        if store().is_unavailable(error):
            raise
        rows = [incident.row for incident in page]
        report("timers of incidents could not be compared", incidents=rows, error=type(error).__name__)
    # At length it was told of all of them together.
    singles = page if len(page) > 1 else ()
    return [
        difference
        for incident in singles
        for difference in reconcile([incident], cause, now, report=log.error)
    ]


def _reconcile(page: Collection[IncidentState], cause: Cause, now: datetime | None) -> list[Difference]:
    differ = [difference.incident for difference in _find_differences(page, load_services(page), now)]
    return _reconcile_locked(differ, cause, now) if differ else []


def _find_differences(
    incidents: Collection[IncidentState], services: Mapping[int, ServiceFacts], now: datetime | None
) -> list[Difference]:
    """Those of these that are wrong, in a constant number of queries."""
    configs = config_cache.get_oncall_configs(incidents, now)
    expected_timers = [
        (incident, get_expected_timers(incident, services.get(incident.service or 0), configs[incident.team]))
        for incident in incidents
    ]
    names = {incident.row: incident.unique_id for incident in incidents if incident.row is not None}
    pending: dict[str, dict[str, TimerState]] = {}
    for _, timer in load_pending_timers(names):
        pending.setdefault(timer.incident, {})[timer.key] = timer
    missing_timers = [
        timer
        for incident, expected in expected_timers
        for timer in expected
        if timer.key not in pending.get(incident.unique_id, {})
    ]
    done = find_fired(names, missing_timers)
    differences = [
        _compare(
            incident,
            configs[incident.team],
            [timer for timer in expected if (incident.unique_id, timer.key) not in done],
            pending.get(incident.unique_id, {}),
        )
        for incident, expected in expected_timers
    ]
    return [difference for difference in differences if difference.has_changes]


def _compare(
    incident: IncidentState,
    config: OnCallConfig,
    timers: Iterable[TimerState],
    pending: Mapping[str, TimerState],
) -> Difference:
    expected = {timer.key: timer for timer in timers}
    common = expected.keys() & pending.keys()
    return Difference(
        incident,
        config,
        tuple(expected.values()),
        _is_exhausted(incident, config),
        missing=tuple(sorted(expected.keys() - pending.keys())),
        extra=tuple(sorted(pending.keys() - expected.keys())),
        moved=tuple(sorted(key for key in common if expected[key].due_at != pending[key].due_at)),
        is_unnotified=_is_unnotified(incident, expected.values()),
    )


def _is_exhausted(incident: IncidentState, config: OnCallConfig) -> bool:
    """Whether its chain is over: kept while there is a policy to ask, for one day it may be deleted."""
    if not escalation.is_running(incident):
        return incident.exhausted
    return escalation.is_exhausted(incident, config.policies.get(incident.escalation_policy or 0))


def _is_unnotified(incident: IncidentState, timers: Iterable[TimerState]) -> bool:
    """Whether it waits for an answer although its chain has named nobody, and will not.

    That happens when a policy is emptied, or its people leave, before its first step was due.
    """
    return (
        escalation.is_running(incident)
        and not incident.paged_someone
        and not any(timer.kind is TimerKind.ESCALATE for timer in timers)
    )


def _reconcile_locked(
    candidates: Collection[IncidentState], cause: Cause, now: datetime | None
) -> list[Difference]:
    """Compare again under the locks: what was read a moment ago may have moved."""
    rows = [incident.row for incident in candidates if incident.row is not None]
    with store().write_transaction():
        with store().lock_timeout(LOCK_WAIT_S):
            found = lock_with_children(rows)
        states = [found.incidents[row] for row in rows if row in found.incidents]
        differ = _find_differences(states, found.services, now)
        at = now or store().now()
        effects = [effect for difference in differ for effect in _build_effects(difference, cause, at)]
        known = {incident.unique_id: row for row, incident in found.incidents.items()}
        channels = apply(ChangeSet(effects=effects), known).channels
    queue.enqueue_deliveries(channels)
    return differ


def _build_effects(difference: Difference, cause: Cause, at: datetime) -> Iterator[Effect]:
    incident = difference.incident
    if difference.timers:
        yield ReconcileTimers(incident.unique_id, difference.expected, at, cause.reason)
        yield RecordLog(incident.unique_id, at, cause.code, difference.description, cause.actor)
    if difference.is_unnotified:
        yield from escalation.notify_last_resort(incident, difference.config, cause.actor, at)
    after = incident.with_changes(
        paged_someone=incident.paged_someone or difference.is_unnotified, exhausted=difference.is_exhausted
    )
    if after != incident:
        yield SaveIncident(after)


def count_timers(differences: Iterable[Difference]) -> Counter[str]:
    """How many timers differed in which way."""
    counts = Counter[str]()
    for difference in differences:
        counts.update({what: len(keys) for what, keys in difference.timers.items()})
    return counts
