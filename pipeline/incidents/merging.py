"""Merge incidents into another incident, and separate them again."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from models.domain.effects import Author, CancelNotifications, Effect, IncidentState, RecordLog, SaveIncident
from models.domain.enums import IncidentStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import make_reason
from pipeline.incidents.escalation_run import (
    EMPTY_CONFIG,
    clear_snooze,
    detach,
    format_number,
    get_saved,
    save_with_timers,
)
from pipeline.incidents.status import change_status


def check_merge(parent: IncidentState, children: Sequence[IncidentState]) -> str | None:
    """Return a text for people: why these incidents cannot be merged into the parent. None: they can."""
    if not parent.is_open or parent.parent is not None:
        state = "resolved" if parent.parent is None else "merged into another one"
        return f"{format_number(parent)} is {state}."
    for child in children:
        if child.row == parent.row:
            return "An incident cannot be merged into itself."
        if not child.is_open:
            return f"{format_number(child)} is resolved."
        if child.parent is not None:
            return f"{format_number(child)} is merged into another one, or into this, already."
    return None


def merge(
    parent: IncidentState,
    children: Sequence[IncidentState],
    grandchildren: Iterable[IncidentState],
    author: Author,
    now: datetime,
) -> tuple[Effect, ...]:
    """Merge incidents into a parent: they become acknowledged and silent (contract 4.3).

    `grandchildren` are all incidents that are merged into `children`. They become children of the parent too,
    since there are only two levels. The caller must first check with `check_merge`.
    """
    numbers = tuple(map(format_number, children))
    log = make_reason("merged_here", children=numbers, by=author.name)
    merge_log = RecordLog(parent.unique_id, now, "merged", log, author)
    child_effects = [_merge_child(child, parent, author, now) for child in children]
    grandchild_effects = [_move_grandchild(child, parent, author, now) for child in grandchildren]
    return (merge_log, *(effect for effects in (*child_effects, *grandchild_effects) for effect in effects))


def _merge_child(
    child: IncidentState, parent: IncidentState, author: Author, now: datetime
) -> tuple[Effect, ...]:
    why = make_reason("merged_into", parent=format_number(parent), by=author.name)
    # A merged incident notifies nobody. So it must not collect the later alerts of its service.
    merged = clear_snooze(child).with_changes(parent=parent.row, collecting=False)
    context = IncidentContext(merged, None, EMPTY_CONFIG, author, now)
    acknowledged = change_status(context, IncidentStatus.ACKNOWLEDGED, why)
    return (
        *acknowledged,
        RecordLog(child.unique_id, now, "merged", why, author),
        CancelNotifications(child.unique_id, now, why),
        *save_with_timers(context.with_incident(get_saved(merged, acknowledged)), why),
    )


def _move_grandchild(
    child: IncidentState, parent: IncidentState, author: Author, now: datetime
) -> tuple[Effect, ...]:
    why = make_reason("parent_merged", parent=format_number(parent), by=author.name)
    log = RecordLog(child.unique_id, now, "merged", why, author)
    return (SaveIncident(child.with_changes(parent=parent.row)), log)


def unmerge(context: IncidentContext, parent: IncidentState) -> tuple[Effect, ...]:
    """Separate an incident from its parent. It stays acknowledged or resolved, and its timeouts start again.

    It has no escalation run, so only the SLAs of the configuration are needed.
    """
    child, author, now = context.incident, context.author, context.now
    why = make_reason("unmerged", parent=format_number(parent), by=author.name)
    detached = detach(child, now) if child.is_open else child.with_changes(parent=None)
    log = RecordLog(child.unique_id, now, "unmerged", why, author)
    return (log, *save_with_timers(context.with_incident(detached), why))
