"""The timers of incidents as decisions know them. Incidents are given by row number, with their unique_id."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from models.effects import DONE_ONCE, TimerState
from models.enums import ONCE, TimerKind
from models.prepared import Prepared, among
from models.timers import Timer

_WAITING = Prepared(
    lambda: Timer.select(Timer.id, Timer.incident, Timer.kind, Timer.key, Timer.due_at).where(
        among(Timer.incident, "incidents"), Timer.done_at.is_null()
    )
)


def _done() -> Any:
    return Timer.select(Timer.id, Timer.incident, Timer.key).where(
        among(Timer.incident, "incidents"),
        Timer.done_at.is_null(False),
        Timer.outcome.startswith(DONE_ONCE),
    )


_EVERY_DONE = Prepared(lambda: _done().where(Timer.kind.in_(sorted(ONCE))))
_DONE = Prepared(lambda: _done().where(among(Timer.key, "keys")))


def waiting_timers(names: Mapping[int, str]) -> list[tuple[int, TimerState]]:
    """What waits for these incidents, each with its own row number."""
    found = _WAITING.rows(incidents=list(names)) if names else []
    return [
        (row, TimerState(names[incident], TimerKind(kind), key, due_at))
        for row, incident, kind, key, due_at in found
    ]


def in_order(names: Mapping[int, str]) -> list[tuple[str, str]]:
    """What waits for these incidents, by incident and key: in the order in which those that are due together
    are taken (workers/timers.py)."""
    rows = sorted(waiting_timers(names), key=lambda each: each[0])
    return [(timer.incident, timer.key) for _, timer in rows]


def every_done_once(names: Mapping[int, str]) -> set[tuple[str, str]]:
    """All that is done once and was done of these incidents: incident and key."""
    found = _EVERY_DONE.rows(incidents=list(names)) if names else []
    return {(names[row], key) for _, row, key in found}


def done_once(names: Mapping[int, str], timers: Iterable[TimerState]) -> set[tuple[str, str]]:
    """Which of these timers, of these incidents, have done already what is done once: incident and key."""
    once = {(timer.incident, timer.key) for timer in timers if timer.kind in ONCE}
    if not once:
        return set()
    incidents = {incident for incident, _ in once}
    asked = [row for row, unique_id in names.items() if unique_id in incidents]
    found = _DONE.rows(incidents=asked, keys=list({key for _, key in once}))
    return once.intersection((names[row], key) for _, row, key in found)


def done_by(keys: Collection[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """The rows of timers that have done what is done once, by incident (row number) and key."""
    if not keys:
        return {}
    found = _DONE.rows(incidents={incident for incident, _ in keys}, keys={key for _, key in keys})
    return {(incident, key): row for row, incident, key in found if (incident, key) in keys}
