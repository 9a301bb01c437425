"""Undo by request (under /api/tocsin/changes/): contract section 4.12."""

from marshmallow import fields

from models.domain.identity import is_short_id
from models.tables.changes import Change
from web.changes import undo as undoing
from web.http.auth import viewer
from web.http.errors import NotFound
from web.http.fields import Schema, Text, explain


class LeftFieldSchema(Schema):
    kind = Text(dump_only=True, metadata=explain("The noun of the object."))
    object_id = Text(dump_only=True, metadata=explain("The unique_id of the object."))
    name = Text(dump_only=True, metadata=explain("The name of the object."))
    field = Text(dump_only=True, metadata=explain("The field."))


class UndoSchema(Schema):
    """What an undo did."""

    batch = Text(dump_only=True, metadata=explain("The batch of the changes that the undo made."))
    written = fields.List(
        Text(), dump_only=True, metadata=explain("The objects that were changed, by kind and name.")
    )
    left = fields.List(
        fields.Nested(LeftFieldSchema),
        dump_only=True,
        metadata=explain(
            "The fields that stay as they are: somebody changed them since, or they are secret."
        ),
    )


UNDO = UndoSchema()


def undo(change_id: str) -> undoing.UndoResult:
    """Undo a change of the configuration, or all changes of a batch.

    All is undone or nothing. Fields that somebody changed since are left and named. What was deleted comes
    back with its ids and keys. The undo is itself a change.
    """
    return undoing.undo(find_changes(change_id))


def find_changes(change_id: str) -> list[Change]:
    """Return the change with this id, or the changes of this batch, of the viewer's account. NotFound."""
    if not is_short_id(change_id):
        raise NotFound
    own = Change.select().where(Change.account == viewer().account, Change.kind != "")
    found = list(own.where(Change.unique_id == change_id)) or list(
        own.where(Change.batch == change_id).order_by(Change.id).limit(undoing.MAX_CHANGES + 1)
    )
    if not found or len(found) > undoing.MAX_CHANGES:
        raise NotFound
    return found
