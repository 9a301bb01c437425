"""Make the stored timers of incidents equal to their expected timers.

The first comparison takes no locks and writes nothing. Incidents that differ are compared again under the
lock of their service.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from models.domain.effects import (
    Author,
    ChangeSet,
    Effect,
    IncidentState,
    ReconcileTimers,
    SaveIncident,
    TimerState,
)
from models.domain.enums import TimerKind
from models.domain.facts import IncidentContext, OnCallConfig, ServiceFacts
from models.domain.reasons import Reason, make_reason
from models.load.lane import load_services, lock_with_children
from models.load.timers import find_fired, load_pending_timers
from models.store.store import Busy, store
from models.write.apply import apply
from pipeline.incidents.timer_table import get_expected_timers
from schedules.escalation import escalation
from workers import config_cache
from workers.delivery import deliver

log = structlog.get_logger()

# Number of incidents that are compared together.
PAGE_SIZE = 200
# How long a worker waits for a lock that another transaction holds.
LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why timers are reconciled. The incident timeline shows `what` and `reason`."""

    author: Author
    what: str
    reason: Reason


# Loads the next incidents after a row number, up to a limit.
PageLoader = Callable[[int, int], list[IncidentState]]


@dataclass(frozen=True, slots=True)
class Difference:
    """An incident with a wrong stored state, and the keys of the timers that differ.

    `is_unnotified`: nobody was notified and nobody will be. `is_exhausted`: the value that
    the column `exhausted` of the incident should have.
    """

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
        """The keys of the timers that differ, by the kind of difference."""
        found = {"missing": self.missing, "extra": self.extra, "moved": self.moved}
        return {what: keys for what, keys in found.items() if keys}

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The timers that differ, for the incident timeline."""
        return (
            *([make_reason("timers_missing", keys=self.missing)] if self.missing else ()),
            *([make_reason("timers_extra", keys=self.extra)] if self.extra else ()),
            *([make_reason("timers_moved", keys=self.moved)] if self.moved else ()),
        )


def load_pages(
    load_page: PageLoader, begin: Callable[[], bool] = lambda: True
) -> Iterator[list[IncidentState]]:
    """Yield the pages, until the last one or `begin`, which is called before each of them, returns false."""
    last = 0
    while begin() and (page := load_page(last, PAGE_SIZE)):
        yield page
        if len(page) < PAGE_SIZE:
            return
        last = page[-1].row or 0


def reconcile(
    page: Sequence[IncidentState],
    cause: Cause,
    now: datetime | None,
    report: Callable[..., None] = log.exception,
) -> list[Difference]:
    """Reconcile the timers of these incidents and return the differences.

    If that fails, reconcile one incident after the other. Incidents that another worker has locked for long
    are skipped until the next audit.
    """
    try:
        return _reconcile(page, cause, now)
    except Busy:
        rows = [incident.row for incident in page]
        log.info("incidents are locked, the next audit reconciles them", incidents=rows)
        return []
    except Exception as error:
        if store().is_unavailable(error):
            raise
        rows = [incident.row for incident in page]
        report("timers of incidents could not be reconciled", incidents=rows, error=type(error).__name__)
    # The traceback was logged for the whole page, so single incidents are logged without it.
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
    """Find the incidents whose stored state is wrong, in a constant number of queries."""
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
    fired = find_fired(names, missing_timers)
    differences = [
        _compare(
            incident,
            configs[incident.team],
            [timer for timer in expected if (incident.unique_id, timer.key) not in fired],
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
    """Return whether the incident's escalation run is exhausted.

    The incident stores the answer while its policy exists, because the policy may be deleted later.
    """
    if not escalation.is_running(incident):
        return incident.exhausted
    return escalation.is_exhausted(incident, config.policies.get(incident.escalation_policy or 0))


def _is_unnotified(incident: IncidentState, timers: Iterable[TimerState]) -> bool:
    """Return whether an escalation run is in progress that has notified nobody and will notify nobody.

    That happens if the steps of a policy, or their people, are removed before the first step is due.
    """
    return (
        escalation.is_running(incident)
        and not incident.paged_someone
        and not any(timer.kind == TimerKind.ESCALATE for timer in timers)
    )


def _reconcile_locked(
    candidates: Collection[IncidentState], cause: Cause, now: datetime | None
) -> list[Difference]:
    """Compare again under the locks, since the rows may have changed meanwhile, and write the differences."""
    rows = [incident.row for incident in candidates if incident.row is not None]
    with store().write_transaction():
        with store().lock_timeout(LOCK_TIMEOUT_S):
            found = lock_with_children(rows)
        states = [found.incidents[row] for row in rows if row in found.incidents]
        differ = _find_differences(states, found.services, now)
        at = now or store().now()
        effects = [effect for difference in differ for effect in _build_effects(difference, cause, at)]
        known = {incident.unique_id: row for row, incident in found.incidents.items()}
        channels = apply(ChangeSet(effects=effects), known).channels
    deliver.enqueue(channels)
    return differ


def _build_effects(difference: Difference, cause: Cause, at: datetime) -> Iterator[Effect]:
    incident = difference.incident
    context = IncidentContext(incident, None, difference.config, cause.author, at)
    if difference.timers:
        yield ReconcileTimers(incident.unique_id, difference.expected, at, cause.reason)
        yield context.build_log(cause.what, cause.reason.add(*difference.reasons))
    if difference.is_unnotified:
        yield from escalation.notify_last_resort(context)
    after = incident.with_changes(
        paged_someone=incident.paged_someone or difference.is_unnotified, exhausted=difference.is_exhausted
    )
    if after != incident:
        yield SaveIncident(after)


def count_timers(differences: Iterable[Difference]) -> Counter[str]:
    """Count the timers by the kind of their difference."""
    counts = Counter[str]()
    for difference in differences:
        counts.update({what: len(keys) for what, keys in difference.timers.items()})
    return counts
