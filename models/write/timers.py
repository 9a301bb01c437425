"""Write timers: reconcile the stored timers with the expected ones."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import ReconcileTimers, TimerState
from models.load.timers import find_fired, find_fired_rows, load_pending_timers
from models.store import bulk
from models.tables.timers import Timer


@dataclass(slots=True)
class _PendingTimer:
    """A timer during the reconciliation in memory; `row` is None until it is written."""

    timer: TimerState
    row: int | None = None
    changed: bool = False
    done_at: datetime | None = None
    outcome: str | None = None


def write_timers(effects: list[ReconcileTimers], incident_rows: Mapping[str, int]) -> None:
    """Reconcile the stored timers: insert new ones, change due times, end timers that are not expected."""
    unique_ids = {incident_rows[effect.incident]: effect.incident for effect in effects}
    pending = [_PendingTimer(timer, row) for row, timer in load_pending_timers(unique_ids)]
    pending_keys = {(entry.timer.incident, entry.timer.key) for entry in pending}
    expected = (timer for effect in effects for timer in effect.expected)
    missing = [timer for timer in expected if (timer.incident, timer.key) not in pending_keys]
    entries = _reconcile(effects, pending, find_fired(unique_ids, missing))
    bulk.insert(
        Timer,
        [
            {
                "incident": incident_rows[entry.timer.incident],
                "kind": str(entry.timer.kind),
                "key": entry.timer.key,
                "due_at": entry.timer.due_at,
                "done_at": entry.done_at,
                "outcome": entry.outcome,
            }
            for entry in entries
            if entry.row is None
        ],
    )
    bulk.update(
        Timer,
        [
            {
                "id": entry.row,
                "due_at": entry.timer.due_at,
                "done_at": entry.done_at,
                "outcome": entry.outcome,
            }
            for entry in entries
            if entry.row is not None and entry.changed
        ],
    )


def reset_fired(reasons: Mapping[tuple[int, str], str]) -> None:
    """Count these fired one-time timers (incident row, timer key) as not fired, so that they can fire again.

    `reasons` say why their notifications were cancelled before they were sent. The new outcome has no
    FIRED_ONCE prefix, so that `find_fired` does not find them.
    """
    fired = find_fired_rows(reasons.keys())
    outcomes = {row: f"its notifications were cancelled: {reasons[key]}" for key, row in fired.items()}
    bulk.update(Timer, [{"id": row, "outcome": outcome} for row, outcome in outcomes.items()])


def _reconcile(
    effects: list[ReconcileTimers], entries: list[_PendingTimer], fired: Collection[tuple[str, str]]
) -> list[_PendingTimer]:
    by_incident: dict[str, dict[str, _PendingTimer]] = {}
    for entry in entries:
        by_incident.setdefault(entry.timer.incident, {})[entry.timer.key] = entry
    all_entries = list(entries)
    for effect in effects:
        pending = by_incident.setdefault(effect.incident, {})
        unfired = (timer for timer in effect.expected if (effect.incident, timer.key) not in fired)
        expected = {timer.key: timer for timer in unfired}
        for key in [key for key in pending if key not in expected]:
            entry = pending.pop(key)
            entry.done_at, entry.outcome, entry.changed = effect.at, effect.reason, True
        for key, timer in expected.items():
            if key not in pending:
                pending[key] = _PendingTimer(timer)
                all_entries.append(pending[key])
            elif pending[key].timer.due_at != timer.due_at:
                pending[key].timer, pending[key].changed = timer, True
    return all_entries
