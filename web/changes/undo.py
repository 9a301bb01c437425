"""Undo a change, or the changes of a batch, by the operations themselves (contract section 4.12).

What was created is deleted, what was changed gets its values of before, and what was deleted comes back. The
validation, permissions and limits are those of the operations. Fields that somebody changed since are left.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import peewee
from flask import g

from models.changes import removed_rows
from models.changes.differences import Difference, revert
from models.changes.obstacles import NO_OBJECT, find_obstacle
from models.changes.record import CHANGED, CREATED, DELETED
from models.store import limits
from models.store.fields import NumberedTable, Table
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.changes import Change
from models.tables.outbound import OutboundTarget
from models.tables.services import Integration, Service
from web.changes.kinds import Kind, find_kind
from web.http import access, recording
from web.http.auth import now, viewer
from web.http.client_profile import Profile
from web.http.errors import Conflict
from web.http.resource import config_transaction
from web.http.writing import Mode, Part, Writing
from web.services import heartbeats

# The changes of a batch that one request undoes.
MAX_CHANGES = 200
CHANGED_SINCE = "It was changed since: {}. Undo that first, or delete it."
HAS_CHILDREN = "Other objects belong to it since: {}. Delete them first."
NOTHING = "Nothing of it can be undone, since these fields have other values now: {}."
# Mostly because a name or an address is unique.
IN_THE_WAY = "Another object is in its place now."
GONE = "The object no longer exists."
# What the undo of an action does to the object.
_UNDOING = {CREATED: "destroy", DELETED: "create"}


@dataclass(frozen=True, slots=True)
class LeftField:
    """A field that an undo left as it is."""

    kind: str
    object_id: str
    name: str
    field: str


@dataclass(slots=True)
class UndoResult:
    """What an undo did. `batch` names its own changes. `written` are the names of the changed objects."""

    batch: str
    written: list[str] = field(default_factory=list)
    left: list[LeftField] = field(default_factory=list)


def undo(changes: Sequence[Change]) -> UndoResult:
    """Undo these changes of the viewer's account, the newest first, all or none. Raise ApiError."""
    with recording.open_recording() as batch, config_transaction():
        result = UndoResult(batch.batch)
        for change in sorted(changes, key=lambda each: each.id, reverse=True):
            locked: Change = store().for_update(Change.select().where(Change.id == change.id)).get()
            batch.undoes = locked.unique_id
            _undo_one(locked, result)
            Change.update(undone_by=batch.batch).where(Change.id == locked.id).execute()
        batch.undoes = None
    return result


def _undo_one(change: Change, result: UndoResult) -> None:
    kind = find_kind(change.kind)
    if kind is not None:
        _require_rights(kind, change)
    obstacle = find_obstacle(change)
    if obstacle is not None or kind is None:
        raise Conflict(detail=f"{_name(change)}: {obstacle or NO_OBJECT}")
    match change.action:
        case "created":
            _delete_again(kind, change)
        case "deleted":
            _bring_back(kind, change)
        case _:
            result.left += _write_back(kind, change)
    result.written.append(_name(change))


def _require_rights(kind: Kind, change: Change) -> None:
    """Raise Forbidden if the viewer may not write such objects there: a refusal names the object.

    The operation itself checks more.
    """
    with act_with(kind.resource.get_permission(_UNDOING.get(change.action, "update"))):
        if change.team_id is not None:
            access.require_permission(viewer(), change.team_id)
        elif change.user_id != viewer().user.id:
            access.access_account(viewer())


def _name(change: Change) -> str:
    return f"{change.kind} {change.name}".strip()


@contextmanager
def act_with(permission: str) -> Iterator[None]:
    """Let the viewer do what an operation with this permission does. Each access is checked for it."""
    before = g.viewer
    g.viewer = replace(before, permission=permission)
    try:
        yield
    finally:
        g.viewer = before


def _find_row(kind: Kind, change: Change, permission: str) -> tuple[Table, NumberedTable]:
    """Return the object of a change and the object above it, if the viewer has the permission."""
    table = kind.resource.model
    row = table.get_or_none(table.unique_id == change.object_id)
    if row is None:
        raise Conflict(detail=f"{_name(change)}: {GONE}")
    with act_with(permission):
        return kind.resource.find_row(**kind.get_ids(row))


def _delete_again(kind: Kind, change: Change) -> None:
    """Delete an object that was created, if nobody has changed it or added to it since."""
    resource = kind.resource
    permission = resource.get_permission("destroy")
    parent, row = _find_row(kind, change, permission)
    secrets = {each["field"] for each in change.fields if each.get("secret")}
    _, left = revert(resource.describe(row), [each for each in change.fields if not each.get("secret")])
    left += _list_changed_since(change, secrets)
    if left:
        raise Conflict(detail=f"{_name(change)}: {CHANGED_SINCE.format(', '.join(left))}")
    children = _list_later_children(row)
    if children:
        raise Conflict(detail=f"{_name(change)}: {HAS_CHILDREN.format(', '.join(children))}")
    with act_with(permission):
        resource.delete(parent, row, Writing(Mode.DELETE))


def _list_changed_since(change: Change, secrets: set[str]) -> list[str]:
    """Return which of these fields, whose values are not kept, later changes of the object have."""
    if not secrets:
        return []
    of_object = (Change.object_id == change.object_id) & (Change.action == CHANGED)
    later = Change.select(Change.fields).where(of_object, Change.id > change.id)
    changed = {each["field"] for (fields,) in later.tuples().iterator() for each in fields or ()}
    return sorted(changed & secrets)


def _list_later_children(row: NumberedTable) -> list[str]:
    """Return the kinds of the objects below this one that were created later."""
    try:
        removed = removed_rows.collect(row)
    except removed_rows.TooLarge:
        return ["too many objects"]
    since = _get_creation(get_values(row))
    return sorted(
        name.replace("_", " ")
        for name, rows in removed.rows.items()
        if name in removed_rows.BY_NAME
        and issubclass(removed_rows.BY_NAME[name], NumberedTable)
        and any(each["unique_id"] != row.unique_id and _get_creation(each) != since for each in rows)
    )


def _get_creation(values: Mapping[str, object]) -> object:
    return values.get("creation_date", values.get("joining_date"))


def _write_back(kind: Kind, change: Change) -> list[LeftField]:
    """Give an object its values of before the change. Return the fields that somebody changed since."""
    resource = kind.resource
    permission = resource.get_permission("update")
    parent, row = _find_row(kind, change, permission)
    described = resource.describe(row)
    own = [each for each in change.fields if each["field"] in described]
    values, left = revert(described, own)
    taken = {each["field"] for each in own}
    for part in kind.parts:
        found = [each for each in change.fields if each["field"] not in taken and part.has(each["field"])]
        if found:
            taken |= {each["field"] for each in found}
            left += _write_part_back(kind, change, part, found, bool(values))
    left += sorted({each["field"] for each in change.fields} - taken)
    if values:
        with act_with(permission):
            writing = Writing(Mode.PATCH, Profile.CLIENT)
            resource.write(parent, row, resource.load(values, writing), writing)
    if len(set(left)) == len({each["field"] for each in change.fields}):
        raise Conflict(detail=f"{_name(change)}: {NOTHING.format(', '.join(left))}")
    return [LeftField(change.kind, change.object_id, change.name, name) for name in left]


def _write_part_back(
    kind: Kind, change: Change, part: Part[NumberedTable], found: Sequence[Difference], others: bool
) -> list[str]:
    """Give a part of an object its values of before the change. Return the fields that it leaves."""
    if part.write is None:
        return [each["field"] for each in found]
    permission = part.permission or kind.resource.get_permission("update")
    _, row = _find_row(kind, change, permission)
    values, left = revert(part.name_fields(part.describe(row)), found)
    if values:
        with act_with(permission):
            prefix = f"{part.name}." if part.name else ""
            part.write(
                row, {name.removeprefix(prefix): value for name, value in values.items()}, Writing(Mode.PATCH)
            )
    return left


def _bring_back(kind: Kind, change: Change) -> None:
    """Create a deleted object again, with what was deleted with it."""
    resource = kind.resource
    try:
        removed = removed_rows.open_sealed(change.removed or "")
    except ValueError as error:
        raise Conflict(detail=f"{_name(change)}: {error}.") from None
    top = next(
        values
        for values in removed.rows[removed_rows.name_table(resource.model)]
        if values["unique_id"] == change.object_id
    )
    parent_field = resource.parent_field
    parent = removed_rows.find_parent(parent_field, top, removed)
    if parent is None:
        raise Conflict(detail=f"{_name(change)}: What it belongs to no longer exists.")
    if resource.model.get_or_none(resource.model.unique_id == change.object_id) is not None:
        raise Conflict(detail=f"{_name(change)}: {IN_THE_WAY}")
    with act_with(resource.get_permission("create")):
        parent = resource.get_parent(**kind.get_parent_ids(parent))
        resource.require_write(parent)
        resource.require_room(parent)
        resource.check_return(parent, _list_values(change, top))
        resource.prepare_return(parent, top)
        with store().long_statements(limits.DELETION_S):
            row = _insert(change, removed)
        shown = resource.reload(parent, row)
        resource.record(CREATED, parent, shown, {}, resource.describe(shown))
        resource.record_return(shown)


def _insert(change: Change, removed: removed_rows.Removed) -> NumberedTable:
    found: NumberedTable | None = None
    try:
        for row in removed_rows.bring_back(removed):
            if row.unique_id == change.object_id if hasattr(row, "unique_id") else False:
                found = row
            if isinstance(row, Integration) and row.heartbeat_interval:
                expected = heartbeats.build_expectation(row, now())
                Integration.update(expected).where(Integration.id == row.id).execute()
            if isinstance(row, OutboundTarget):
                service = Integration.select(Integration.service).where(Integration.id == row.integration_id)
                Service.update(has_outbound=True).where(Service.id.in_(service)).execute()
    except removed_rows.CannotReturn as error:
        raise Conflict(detail=f"{_name(change)}: {error}") from None
    except peewee.IntegrityError:
        raise Conflict(detail=f"{_name(change)}: {IN_THE_WAY}") from None
    assert found is not None
    return found


def _list_values(change: Change, top: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a deleted object, as a request would send them."""
    return {
        each["field"]: top[each["field"]] if each.get("secret") else each["before"] for each in change.fields
    }
