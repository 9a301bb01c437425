"""Read the history of the configuration (under /api/tocsin/changes/)."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, cast

from flask import request
from marshmallow import fields, validate

from models.changes import listed
from models.changes.listed import Filters
from models.changes.obstacles import find_obstacle
from models.changes.record import CHANGED, CREATED, DELETED
from models.domain.audit_actions import ACTIONS
from models.domain.enums import Way
from models.domain.identity import ALPHABET, SHORT_LENGTH, is_short_id, is_uuid
from models.tables.accounts import User
from models.tables.changes import Change
from web.changes.kinds import list_kinds
from web.changes.rights import find_writable, select_readable
from web.http import paging, serialization
from web.http.access import is_username
from web.http.auth import Viewer, viewer
from web.http.errors import Forbidden, NotFound
from web.http.fields import (
    REFERENCE_LIMIT,
    Boolean,
    List,
    Moment,
    Number,
    QueryMoment,
    Schema,
    Text,
    explain,
)

# Any value in JSON.
ANY_VALUE = {"type": ["object", "array", "string", "number", "boolean", "null"]}
NO_RIGHT = "You do not have the permission to change it."


class ChangesQuerySchema(Schema):
    object = Text(
        validate=validate.Length(min=1, max=REFERENCE_LIMIT),
        metadata=explain("Only changes of the object with this unique_id."),
    )
    person = Text(limit=REFERENCE_LIMIT, metadata=explain("Only changes by the person with this username."))
    kind = Text(metadata=explain("Only changes of this kind of object, for example `escalation policy`."))
    action = Text(
        validate=validate.OneOf([CREATED, CHANGED, DELETED, *ACTIONS]),
        metadata=explain("Only what was `created`, `changed` or `deleted`, or an action of the audit list."),
    )
    way = Text(
        validate=validate.OneOf([each.value for each in Way]),
        metadata=explain("Only changes that were made in this way."),
    )
    batch = Text(
        validate=validate.Regexp(f"^[{ALPHABET}]{{{SHORT_LENGTH}}}$", error="This is no batch."),
        metadata=explain("Only changes of this batch."),
    )
    start = QueryMoment(
        data_key="from", metadata=explain("A date, or a time as in RFC 3339: only changes from then on.")
    )
    end = QueryMoment(data_key="to", metadata=explain("The same: only changes before this time."))


class DifferenceSchema(Schema):
    """A field that a change changed, or an element of a list."""

    field = Text(dump_only=True, metadata=explain("The name of the field."))
    before = fields.Raw(
        dump_only=True,
        metadata={**explain("The value before; null for an element: it was not there."), **ANY_VALUE},
    )
    after = fields.Raw(
        dump_only=True,
        metadata={**explain("The value after; null for an element: it is no longer there."), **ANY_VALUE},
    )
    element = Text(dump_only=True, metadata=explain("The unique_id of the element of a list of objects."))
    place = Number(dump_only=True, metadata=explain("Its place in the list, from 0."))
    before_order = List(
        Text(), dump_only=True, metadata=explain("The unique_ids of the elements in their order before.")
    )
    after_order = List(
        Text(), dump_only=True, metadata=explain("The same after the change, if the order differs.")
    )
    removed = List(
        fields.Raw(metadata=ANY_VALUE),
        dump_only=True,
        metadata=explain("What a list of values no longer has."),
    )
    added = List(
        fields.Raw(metadata=ANY_VALUE), dump_only=True, metadata=explain("What a list of values has now.")
    )
    secret = Boolean(
        dump_only=True, metadata=explain("True: a secret or an address changed, whose values are not kept.")
    )


class ChangeSchema(Schema):
    """A change of the configuration, or an entry of the audit list, which has no object."""

    unique_id = Text(dump_only=True)
    at = Moment(dump_only=True, metadata=explain("When it was made."))
    action = Text(
        dump_only=True,
        metadata=explain("`created`, `changed` or `deleted`; for other entries what was done, by its code."),
    )
    kind = Text(dump_only=True, allow_none=True, metadata=explain("What the object is; null: no object."))
    object = Text(dump_only=True, allow_none=True, metadata=explain("The unique_id of the object."))
    name = Text(dump_only=True, allow_none=True, metadata=explain("The name of the object at that time."))
    number = Number(
        dump_only=True, allow_none=True, metadata=explain("The number of the object after the change.")
    )
    team = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The unique_id of the object's team; null: none, or the team was deleted."),
    )
    person = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The username of the person whose object, sign-in or right it is."),
    )
    actor = Text(dump_only=True, metadata=explain("Who made it: the name of a person, or a command."))
    author = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The username of the person who made it; null: it was no person."),
    )
    token = Text(dump_only=True, allow_none=True, metadata=explain("The name of the token, if one was used."))
    way = Text(
        dump_only=True,
        metadata=explain("How: `page`, `interface`, `command`, `files`, `import`, `link` or `system`."),
    )
    batch = Text(dump_only=True, metadata=explain("Changes that were made together have the same."))
    what = Text(dump_only=True, metadata=explain("What was done, as a sentence."))
    fields_ = List(
        fields.Nested(DifferenceSchema),
        data_key="fields",
        attribute="fields",
        dump_only=True,
        allow_none=True,
        metadata=explain("What differs; null: it was too large to be kept."),
    )
    undoes = Text(
        dump_only=True, allow_none=True, metadata=explain("The change that this one undid; null: none.")
    )
    undone_by = Text(
        dump_only=True, allow_none=True, metadata=explain("The batch that undid this one; null: none.")
    )
    can_undo = Boolean(dump_only=True, metadata=explain("Whether you can undo it."))
    why_not = Text(dump_only=True, allow_none=True, metadata=explain("Why you cannot; null: you can."))


class ChangePageSchema(paging.PageSchema):
    results = List(fields.Nested(ChangeSchema), dump_only=True)


QUERY = ChangesQuerySchema()
CHANGE = ChangeSchema()
PAGE = ChangePageSchema()


class Query(TypedDict, total=False):
    """The values of a query by the schema."""

    object: str
    person: str
    kind: str
    action: str
    way: str
    batch: str
    start: datetime | None
    end: datetime | None


def index() -> dict[str, object]:
    """List changes of the configuration that you may read, newest first, page by page.

    Owners and admins read all changes of the account. Others read those of objects that they may read.
    """
    return list_changes(viewer(), request.args.to_dict(), paging.read_page())


def list_changes(me: Viewer, values: Mapping[str, object], page: paging.Page) -> dict[str, object]:
    """Return a page of the changes that the viewer may read, by the filters in these values."""
    query = cast(Query, serialization.load(QUERY, values))
    found = listed.select_changes(me.account.id, read_filters(query, me))

    def show(changes: list[Change]) -> list[dict[str, object]]:
        return show_to(me, changes)

    return paging.build_page(select_readable(found, me), page, show)


def retrieve(change_id: str) -> dict[str, object]:
    """Get a change of the configuration."""
    return show_to(viewer(), [access_change(viewer(), change_id)])[0]


def access_change(me: Viewer, change_id: str) -> Change:
    """Return the change with this id, or raise NotFound, or Forbidden if the viewer may not read it."""
    query = listed.select_changes(me.account.id).where(Change.unique_id == change_id)
    if not is_short_id(change_id) or not query.exists():
        raise NotFound
    found: Change | None = select_readable(query, me).first()
    if found is None:
        raise Forbidden
    return found


def show_to(me: Viewer, changes: list[Change]) -> list[dict[str, object]]:
    """Return changes as the viewer sees them, in plain values."""
    writable = find_writable(changes, me)
    return [
        listed.show(each, find_obstacle(each) or (None if each.id in writable else NO_RIGHT))
        for each in changes
    ]


def read_filters(query: Query, me: Viewer) -> Filters:
    """Return the filters of a query. Raise NotFound that names a filter for what does not exist."""
    unique_id, batch, start, end = (
        query.get("object"),
        query.get("batch"),
        query.get("start"),
        query.get("end"),
    )
    kind, kinds = query.get("kind"), list_kinds()
    if kind is not None and kind not in kinds:
        raise NotFound({"kind": [f"Must be one of: {', '.join(sorted(kinds))}."]})
    if start is not None and end is not None and end <= start:
        raise NotFound({"to": ["Must be later than from."]})
    if unique_id is not None and is_uuid(unique_id.lower()):
        unique_id = unique_id.lower()
    return Filters(
        object_id=unique_id,
        author=_find_author(query, me),
        kind=kind,
        action=query.get("action"),
        way=query.get("way"),
        batch=batch,
        start=start,
        end=end,
    )


def _find_author(query: Mapping[str, object], me: Viewer) -> int | None:
    """Return the row number of the person whom the query names. Removed people have changes, too."""
    username = query.get("person")
    if username is None:
        return None
    is_person = (User.account == me.account) & (User.username == username)
    row: int | None = User.select(User.id).where(is_person).scalar() if is_username(str(username)) else None
    if row is None:
        raise NotFound({"person": ["There is no such person in the account."]})
    return row
