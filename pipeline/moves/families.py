"""Merged into another incident, and standing alone again."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from models.effects import Actor, Effect, IncidentState, RecordLog, SaveIncident, VoidNotices
from models.enums import IncidentStatus
from models.facts import Directory, ServiceFacts
from pipeline.moves.answers import move
from pipeline.moves.chain import NOBODY, after, alone, awake, called, rearm


def against_merging(parent: IncidentState, children: Sequence[IncidentState]) -> str | None:
    """Why these cannot be merged into that one, in words that name them."""
    if not parent.is_open or parent.parent is not None:
        return f"{called(parent)} is {'resolved' if parent.parent is None else 'merged into another one'}."
    for child in children:
        if child.row == parent.row:
            return "An incident cannot be merged into itself."
        if not child.is_open:
            return f"{called(child)} is resolved."
        if child.parent is not None:
            return f"{called(child)} is merged into another one, or into this, already."
    return None


def merge(
    parent: IncidentState,
    children: Sequence[IncidentState],
    grandchildren: Iterable[IncidentState],
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """These become children of the parent: acknowledged and silent (contract 4.3).

    `grandchildren`, all that is merged into them, become its children too: families have two generations.
    Nothing may be against it, see `against_merging`.
    """
    names = ", ".join(map(called, children))
    said = RecordLog(parent.unique_id, now, "merged", f"{names} merged into it by {actor.name}", actor)
    why = f"merged into {called(parent)} by {actor.name}"
    taken = [_taken_in(child, parent, actor, now, why) for child in children]
    moved = [_moved_over(child, parent, actor, now, why) for child in grandchildren]
    return (said, *(effect for effects in (*taken, *moved) for effect in effects))


def _taken_in(
    child: IncidentState, parent: IncidentState, actor: Actor, now: datetime, why: str
) -> tuple[Effect, ...]:
    # What its service is told from here on must not be gathered where nobody hears of it.
    merged = awake(child).but(parent=parent.row, collecting=False)
    acknowledged = move(merged, IncidentStatus.ACKNOWLEDGED, None, NOBODY, actor, now, why)
    return (
        *acknowledged,
        RecordLog(child.unique_id, now, "merged", why, actor),
        VoidNotices(child.unique_id, now, why),
        *rearm(after(merged, acknowledged), None, NOBODY, now, why),
    )


def _moved_over(
    child: IncidentState, parent: IncidentState, actor: Actor, now: datetime, why: str
) -> tuple[Effect, ...]:
    log = RecordLog(child.unique_id, now, "merged", f"its parent is {why}", actor)
    return (SaveIncident(child.but(parent=parent.row)), log)


def unmerge(
    child: IncidentState,
    parent: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Stands alone again, acknowledged or resolved as it is, its time-outs with their whole time.

    Who is acknowledged or resolved has no chain: of the directory, only what SLAs promise is asked for.
    """
    why = f"no longer merged into {called(parent)}, said {actor.name}"
    freed = alone(child, now) if child.is_open else child.but(parent=None)
    log = RecordLog(child.unique_id, now, "unmerged", why, actor)
    return (log, *rearm(freed, service, directory, now, why))
