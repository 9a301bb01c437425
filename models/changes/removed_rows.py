"""The rows that a deletion removes: keep them encrypted with the change, and bring them back.

The database deletes rows that refer to a deleted row, and empties other references to it. Only configuration
comes back: incidents, messages and what people wrote do not.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import cast

import orjson
import peewee

from models.changes.record import MAX_BYTES
from models.changes.sealing import decrypt, encrypt
from models.store.fields import NumberedTable, Table, UtcField
from models.store.peewee_internals import (
    get_fields,
    get_referred,
    get_table_name,
    get_values,
    list_backrefs,
    list_references,
)
from models.tables.accounts import CustomRole, User
from models.tables.outbound import OutboundTarget
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertGroupingPolicy, AlertRule, OutgoingRule
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.services import (
    AddedApplication,
    Integration,
    Maintenance,
    MaintenanceService,
    Service,
    SourceSetup,
)
from models.tables.stakeholders import StakeholderAddress
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, TeamMember
from models.tables.users import ContactMethod, ContactSecret, ForwardingRule, NotificationRule

# The tables whose rows come back, parents first.
RETURNING: tuple[type[Table], ...] = (
    CustomRole, TeamMember, IncidentRole, Priority, Tag, Sla, EscalationPolicy, TaskTemplate, TemplateTask,
    Schedule, ScheduleOverride, Service, AddedApplication, Integration, SourceSetup, AlertRule, OutgoingRule,
    AlertGroupingPolicy, OutboundTarget, Maintenance, MaintenanceService, GlobalRouter, RouterRule,
    StakeholderAddress, ContactMethod, ContactSecret, NotificationRule, ForwardingRule,
)  # fmt: skip
BY_NAME = {get_table_name(table): table for table in RETURNING}
# The tables whose references are set again. A person has a custom role.
REFERRING: dict[str, type[Table]] = {**BY_NAME, get_table_name(User): User}


def name_table(table: type[Table]) -> str:
    """Return the name by which the removed rows of this table are kept."""
    return get_table_name(table)


# Rows that one deletion may remove to be undone. A schedule has at most 2,000 overrides.
MAX_ROWS = 3_000
# Encrypted, they are a third longer.
MAX_PACKED_BYTES = MAX_BYTES * 3 // 4 - 100
# Columns that do not come back: whether an address was verified, and what workers last did.
FORGOTTEN: Mapping[type[Table], Mapping[str, object]] = {
    ContactMethod: {"verified_value": None},
    OutboundTarget: {"failures": 0, "retry_at": None, "claimed_until": None, "claimed_by": None},
    Integration: {"expected_at": None, "last_ping_at": None, "is_missing": False, "is_extended": False},
}


class TooLarge(Exception):
    """A deletion removes more rows than a change can keep."""


class CannotReturn(Exception):
    """A row cannot come back, because it refers to a row that no longer exists. The text says which."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What a deletion removes. `rows`: by table, the values of each row. `emptied`: references to the row.

    A reference is the name of a table, a column, the row number that it had, and the ids of the rows that had
    it. `ids` are the unique_ids of the rows to which the rows refer, by table and row number: another row can
    have the number later, and a row that comes back has another one.
    """

    rows: dict[str, list[dict[str, object]]]
    emptied: list[tuple[str, str, int, list[str]]]
    ids: dict[str, dict[str, str]]


def seal(row: Table) -> str | None:
    """Return what the deletion of this row removes, encrypted; None: it is too much to keep."""
    try:
        packed = pack(collect(row))
    except TooLarge:
        return None
    return encrypt(packed)


def pack(removed: Removed) -> bytes:
    """Return removed rows as compressed JSON. Raise TooLarge if they are too long to keep."""
    packed = zlib.compress(orjson.dumps(asdict(removed)))
    if len(packed) > MAX_PACKED_BYTES:
        raise TooLarge
    return packed


def open_sealed(sealed: str) -> Removed:
    """Return what a deletion removed. Raise ValueError if it cannot be read."""
    values = orjson.loads(zlib.decompress(decrypt(sealed)))
    return Removed(values["rows"], [tuple(each) for each in values["emptied"]], values["ids"])


def collect(row: Table) -> Removed:
    """Return what the deletion of this row removes. Raise TooLarge if it is too much to keep."""
    removed = Removed({}, [], {})
    _collect(type(row), [row], removed, MAX_ROWS)
    for name, rows in removed.rows.items():
        for reference in list_references(BY_NAME[name]) if name in BY_NAME else ():
            _add_ids(removed, reference, rows)
    return removed


def _add_ids(
    removed: Removed, reference: peewee.ForeignKeyField, rows: Sequence[Mapping[str, object]]
) -> None:
    referred = cast("type[Table]", get_referred(reference))
    ids = removed.ids.setdefault(get_table_name(referred), {})
    numbers = {each[reference.name] for each in rows} - {None}
    missing = [each for each in numbers if str(each) not in ids]
    if missing:
        found = referred.select(referred.id, referred.unique_id).where(referred.id.in_(missing)).tuples()
        ids.update((str(number), unique_id) for number, unique_id in found)


def _collect(table: type[Table], rows: list[Table], removed: Removed, room: int) -> int:
    """Add these rows of a table and the rows that refer to them. Return how many more have place."""
    room -= len(rows)
    if room < 0:
        raise TooLarge
    removed.rows.setdefault(get_table_name(table), []).extend(_read_values(row) for row in rows)
    ids = [row.id for row in rows]
    for reference in list_backrefs(table):
        inner = reference.model
        if get_table_name(inner) not in REFERRING or not ids:
            continue
        if reference.on_delete == "CASCADE" and inner in RETURNING:
            found = list(inner.select().where(reference.in_(ids)).order_by(inner.id).limit(room + 1))
            if found:
                room = _collect(inner, found, removed, room)
        elif reference.on_delete == "SET NULL":
            for one in ids:
                emptied = [
                    unique_id
                    for (unique_id,) in inner.select(inner.unique_id)
                    .where(reference == one)
                    .tuples()
                    .limit(MAX_ROWS)
                ]
                if emptied:
                    removed.emptied.append((get_table_name(inner), reference.name, one, emptied))
    return room


def _read_values(row: Table) -> dict[str, object]:
    return {name: value for name, value in get_values(row).items() if name in get_fields(row)}


def bring_back(removed: Removed) -> Iterator[Table]:
    """Insert the removed rows again, parents first, and yield them. Raise CannotReturn.

    They have their unique_ids and keys, but other row numbers. References to them that are still empty are
    set again. Needs a write transaction.
    """
    numbers: dict[tuple[str, int], int] = {}
    for table in RETURNING:
        name = get_table_name(table)
        for values in removed.rows.get(name, ()):
            row = table.create(**_prepare(table, values, numbers, removed))
            numbers[name, int(str(values["id"]))] = row.id
            yield row
    for name, column, old, rows in removed.emptied:
        referring = REFERRING[name]
        reference = get_fields(referring)[column]
        target = numbers.get((get_table_name(get_referred(reference)), old))
        if target is not None:
            is_empty = referring.unique_id.in_(rows) & reference.is_null()
            referring.update({column: target}).where(is_empty).execute()


def find_parent(
    reference: peewee.ForeignKeyField, values: Mapping[str, object], removed: Removed
) -> Table | None:
    """Return the row to which a removed row belonged; None: it no longer exists."""
    return _find_referred(reference, int(str(values[reference.name])), removed)


def _find_referred(reference: peewee.ForeignKeyField, old: int, removed: Removed) -> Table | None:
    referred = cast("type[Table]", get_referred(reference))
    unique_id = removed.ids.get(get_table_name(referred), {}).get(str(old))
    found: Table | None = referred.get_or_none(referred.unique_id == unique_id)
    return found


def _prepare(
    table: type[Table],
    values: Mapping[str, object],
    numbers: Mapping[tuple[str, int], int],
    removed: Removed,
) -> dict[str, object]:
    prepared: dict[str, object] = {}
    for name, field in get_fields(table).items():
        if name == "id" or name not in values:
            continue
        value = values[name]
        if isinstance(field, peewee.ForeignKeyField) and value is not None:
            value = _find_row(field, int(str(value)), numbers, removed)
        elif isinstance(field, UtcField) and isinstance(value, str):
            value = datetime.fromisoformat(value)
        prepared[name] = value
    prepared |= FORGOTTEN.get(table, {})
    if issubclass(table, NumberedTable):
        # Who has seen the object before must not take it for the same version.
        prepared["number"] = int(str(values["number"])) + 1
    return prepared


def _find_row(
    field: peewee.ForeignKeyField, old: int, numbers: Mapping[tuple[str, int], int], removed: Removed
) -> int | None:
    referred = get_table_name(get_referred(field))
    new = numbers.get((referred, old))
    if new is not None:
        return new
    found = _find_referred(field, old, removed)
    if found is not None:
        number: int = found.id
        return number
    if field.null:
        return None
    raise CannotReturn(f"The {referred.replace('_', ' ')} to which it belongs no longer exists.")
