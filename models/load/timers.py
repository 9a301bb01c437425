"""Load the timers of incidents. The argument `unique_ids` maps row numbers of incidents to unique_ids."""

from collections.abc import Collection, Iterable, Mapping

import peewee

from models.domain.effects import TimerState
from models.store.prepared import Prepared, in_bound, on_found_rows
from models.tables.timers import Timer

_PENDING = Prepared(
    lambda: Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at).where(
        in_bound(Timer.incident, "incidents"), on_found_rows(Timer.done_at.is_null())
    )
)


def _select_fired() -> peewee.ModelSelect:
    return Timer.select(Timer.id, Timer.incident, Timer.key).where(
        in_bound(Timer.incident, "incidents"),
        Timer.done_at.is_null(False),
        Timer.fired,
    )


_ALL_FIRED = Prepared(lambda: _select_fired())
_FIRED = Prepared(lambda: _select_fired().where(in_bound(Timer.key, "keys")))


def load_pending_timers(unique_ids: Mapping[int, str]) -> list[tuple[int, TimerState]]:
    """Load the pending timers of these incidents, each with its row number."""
    found = _PENDING.rows(incidents=list(unique_ids)) if unique_ids else []
    return [
        (row, TimerState(unique_ids[incident], kind, key, due_at))
        for row, incident, kind, key, due_at in found
    ]


def list_pending_keys(unique_ids: Mapping[int, str]) -> list[tuple[str, str]]:
    """Return the pending timers as (incident, key), ordered by row number.

    workers/timers/fire.py takes timers with the same due time in this order.
    """
    rows = sorted(load_pending_timers(unique_ids), key=lambda item: item[0])
    return [(timer.incident, timer.key) for _, timer in rows]


def find_all_fired(unique_ids: Mapping[int, str]) -> set[tuple[str, str]]:
    """Return all one-time timers of these incidents that have fired, as (incident, key)."""
    found = _ALL_FIRED.rows(incidents=list(unique_ids)) if unique_ids else []
    return {(unique_ids[row], key) for _, row, key in found}


def find_fired(unique_ids: Mapping[int, str], timers: Iterable[TimerState]) -> set[tuple[str, str]]:
    """Return the one-time timers among these that have fired, as (incident, key)."""
    one_time = {(timer.incident, timer.key) for timer in timers if timer.once}
    if not one_time:
        return set()
    incidents = {incident for incident, _ in one_time}
    rows = [row for row, unique_id in unique_ids.items() if unique_id in incidents]
    found = _FIRED.rows(incidents=rows, keys=list({key for _, key in one_time}))
    return one_time.intersection((unique_ids[row], key) for _, row, key in found)


def find_fired_rows(keys: Collection[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the row numbers of the fired one-time timers among these keys (incident row, timer key)."""
    if not keys:
        return {}
    found = _FIRED.rows(incidents={incident for incident, _ in keys}, keys={key for _, key in keys})
    return {(incident, key): row for row, incident, key in found if (incident, key) in keys}
