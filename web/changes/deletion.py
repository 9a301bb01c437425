"""What a deletion would remove, before it is made (under /api/tocsin/objects/): contract section 4.12."""

from collections import Counter
from collections.abc import Mapping

from marshmallow import fields

from models.changes import removed_rows
from models.changes.obstacles import TOO_MUCH, find_deletion_obstacle
from models.domain.identity import is_uuid
from models.store.fields import NumberedTable
from web.changes.kinds import has_ids, list_kinds
from web.changes.undo import act_with
from web.http.errors import NotFound
from web.http.fields import Boolean, Number, Schema, Text, explain


class DeletedCountSchema(Schema):
    kind = Text(dump_only=True, metadata=explain("The noun of the objects."))
    count = Number(dump_only=True, metadata=explain("How many objects."))


class DeletionSchema(Schema):
    """What the deletion of an object would do."""

    kind = Text(dump_only=True, metadata=explain("The noun of the object."))
    name = Text(dump_only=True, metadata=explain("The name of the object."))
    removed = fields.List(
        fields.Nested(DeletedCountSchema),
        dump_only=True,
        metadata=explain("The objects that are deleted with it, by kind."),
    )
    emptied = fields.List(
        fields.Nested(DeletedCountSchema),
        dump_only=True,
        metadata=explain("The objects that lose their reference to it, by kind."),
    )
    can_undo = Boolean(
        dump_only=True, metadata=explain("true: for 30 days, an undo brings back what is deleted.")
    )
    why_not = Text(
        dump_only=True, metadata=explain("Why an undo would not bring it back, as a sentence; or empty.")
    )


DELETION = DeletionSchema()


def show(object_id: str) -> dict[str, object]:
    """Get what the deletion of an object would remove.

    The answer says whether an undo would bring it back. Incidents, alerts and messages never come back.
    """
    if not is_uuid(object_id.lower()):
        raise NotFound
    for noun, kind in list_kinds().items():
        table = kind.resource.model
        row = table.get_or_none(table.unique_id == object_id.lower()) if has_ids(table) else None
        if row is not None:
            with act_with(kind.resource.get_permission("destroy")):
                _, found = kind.resource.find_row(**kind.get_ids(row))
            return _describe(noun, found, kind.resource.get_name(found))
    raise NotFound


def _describe(kind: str, row: NumberedTable, name: str) -> dict[str, object]:
    why_not = find_deletion_obstacle(kind)
    removed = removed_rows.Removed({removed_rows.name_table(type(row)): [{}]}, [], {})
    try:
        removed = removed_rows.collect(row)
        removed_rows.pack(removed)
    except removed_rows.TooLarge:
        why_not = why_not or TOO_MUCH
    counts = {_name(table): len(rows) for table, rows in removed.rows.items()}
    counts[_name(removed_rows.name_table(type(row)))] -= 1
    emptied: Counter[str] = Counter()
    for table, _, _, rows in removed.emptied:
        emptied[_name(table)] += len(rows)
    return {
        "kind": kind,
        "name": name,
        "removed": _list_counts(counts),
        "emptied": _list_counts(emptied),
        "can_undo": why_not is None,
        "why_not": why_not or "",
    }


def _list_counts(counts: Mapping[str, int]) -> list[dict[str, object]]:
    return [{"kind": kind, "count": count} for kind, count in sorted(counts.items()) if count]


def _name(table: str) -> str:
    return table.replace("_", " ")
