"""Timers to rows: what is wanted over what waits."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from models import bulk
from models.effects import ArmTimers, TimerState
from models.timer_states import done_by, done_once, waiting_timers
from models.timers import Timer


@dataclass(slots=True)
class _Wait:
    """A timer that waits, while arms are replayed; `row` is None until it is written."""

    timer: TimerState
    row: int | None = None
    changed: bool = False
    done_at: datetime | None = None
    outcome: str | None = None


def write_timers(arms: list[ArmTimers], known: Mapping[str, int]) -> None:
    """Replay the arms over what waits in the store; insert what is new, end or move what is not."""
    if not arms:
        return
    names = {known[arm.incident]: arm.incident for arm in arms}
    pending = [_Wait(timer, row) for row, timer in waiting_timers(names)]
    wait_already = {(wait.timer.incident, wait.timer.key) for wait in pending}
    wanted = (timer for arm in arms for timer in arm.wanted)
    absent = [timer for timer in wanted if (timer.incident, timer.key) not in wait_already]
    waits = _replay_arms(arms, pending, done_once(names, absent))
    bulk.insert(
        Timer,
        [
            {
                "incident": known[wait.timer.incident],
                "kind": wait.timer.kind.value,
                "key": wait.timer.key,
                "due_at": wait.timer.due_at,
                "done_at": wait.done_at,
                "outcome": wait.outcome,
            }
            for wait in waits
            if wait.row is None
        ],
    )
    bulk.update(
        Timer,
        [
            {"id": wait.row, "due_at": wait.timer.due_at, "done_at": wait.done_at, "outcome": wait.outcome}
            for wait in waits
            if wait.row is not None and wait.changed
        ],
    )


def take_back(unsaid: Mapping[tuple[int, str], str]) -> None:
    """What these timers (by incident and key) did once was taken back, for a reason, before anybody was told:
    it counts as not done, and may be wanted again."""
    done = done_by(unsaid.keys())
    bulk.update(Timer, [{"id": row, "outcome": f"taken back: {unsaid[key]}"} for key, row in done.items()])


def _replay_arms(arms: list[ArmTimers], waits: list[_Wait], done: Collection[tuple[str, str]]) -> list[_Wait]:
    by_incident: dict[str, dict[str, _Wait]] = {}
    for wait in waits:
        by_incident.setdefault(wait.timer.incident, {})[wait.timer.key] = wait
    every = list(waits)
    for arm in arms:
        waiting = by_incident.setdefault(arm.incident, {})
        wanted = {timer.key: timer for timer in arm.wanted if (arm.incident, timer.key) not in done}
        for key in [key for key in waiting if key not in wanted]:
            wait = waiting.pop(key)
            wait.done_at, wait.outcome, wait.changed = arm.at, arm.why, True
        for key, timer in wanted.items():
            if key not in waiting:
                waiting[key] = _Wait(timer)
                every.append(waiting[key])
            elif waiting[key].timer.due_at != timer.due_at:
                waiting[key].timer, waiting[key].changed = timer, True
    return every
