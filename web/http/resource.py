"""Base class for tables that the interface serves with five verbs, and the transaction of configuration.

A subclass defines the table, the schema, the parent row, and the check of the viewer's access to it. A
resource with other effects overrides `check_values`, `insert`, `change` or `remove`. Declare a resource in
routes.py with `*crud(tag, path, RESOURCE)`.

The views read the request and call `list_rows`, `create_row`, `change_row` and so on, as pages do. These find
rows with `get_parent` and `find_row`, which check the permission, and read values with `load`. Then they call
`add`, `write` or `delete`. Callers without a request do the same, with a `Writing` of their own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import peewee

from models.changes import removed_rows
from models.changes.differences import Values, compare
from models.changes.record import CHANGED, CREATED, DELETED, ChangedObject, Content
from models.domain.enums import IncidentStatus
from models.store import limits
from models.store.fields import NumberedTable, Table
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import Team
from web.http import access, paging, rate_limit, recording, serialization
from web.http.access import Permit, Row
from web.http.auth import Viewer, acting, now, viewer
from web.http.client_profile import Profile
from web.http.errors import Forbidden, NotFound, reject
from web.http.fields import Schema
from web.http.permissions import ReadWrite
from web.http.rate_limit import Limits
from web.http.writing import Mode, Writing, raise_number, read_update, read_writing, require_number
from workers import queue

Parent = TypeVar("Parent", bound=Table)

# How a page writes: by the specification, and whatever number the row has.
CREATING, CHANGING, DELETING = Writing(Mode.CREATE), Writing(Mode.PATCH), Writing(Mode.DELETE)


@contextmanager
def change_transaction() -> Iterator[None]:
    """Open a write transaction whose changes are recorded in the history of the account."""
    with recording.open_recording(), store().write_transaction():
        yield
        recording.record_pending()


@contextmanager
def config_transaction() -> Iterator[None]:
    """Do the same, and also increment the version of the account's configuration."""
    with change_transaction():
        yield
        bump_version(viewer().account.id)


class Resource(Generic[Row, Parent]):
    """Five verbs on the rows of `model` whose `parent_field` is the parent.

    `values` are the fields of a request's body by the schema. Here they are only passed on; a subclass that
    reads some of them declares them as `dict[str, Any]`.
    """

    model: type[Row]
    noun: str
    # The noun in the documentation, if it has to say more there.
    title = ""
    # The noun in the history, if another resource serves the same rows; "": `noun`.
    kind = ""
    # The schema of requests and, without `response`, of answers.
    schema: Schema
    # The schema of the answer to a GET, if the contract has another one there.
    response: Schema | None = None
    # The schema of the answer to a write, if the contract has fewer fields there.
    write_response: Schema | None = None
    # The schema of a page of the list, for a list with pages.
    page: Schema | None = None
    # Whether the list has pages for the client profile only (contract 1.6). The resource's `index` builds
    # them.
    paged = False
    # The fields whose values the history must not keep: secrets, keys and addresses of contacts.
    secrets: Collection[str] = ()
    # Whether a write increments the version of the configuration: lanes cache what they read of it.
    is_configuration = True
    # The column of incidents that refers to this table, if the timers of incidents depend on its rows
    # (workers/timers/on_config_change.py).
    timer_column: str | None = None
    # How often an account may use it. The resource's verbs enforce the limits.
    rate_limits: Limits = ()
    parent_field: peewee.ForeignKeyField
    id_arg: str
    # Whether a row is the team or the person to whom objects belong.
    owns_itself = False
    # Whether an undo can bring a deleted row back.
    can_return = True
    # Whether the history has the changes of rows with numbers.
    records_changes = True
    # The permissions to read and to write.
    permissions: ReadWrite
    order: tuple[str, ...] = ("creation_date", "id")
    # The column with which people name a row.
    name_field = "name"
    # Fields that a create requires and a PUT does not, in both profiles.
    put_may_omit: Collection[str] = ()
    # Values for fields that a create omits, if the table has no default.
    defaults: Mapping[str, object] = {}
    # Required fields that a create may omit in the client profile, because published clients do.
    client_may_omit: Collection[str] = ()

    @property
    def has_numbers(self) -> bool:
        """Whether answers with one row have the number of an object: all configuration has one."""
        return hasattr(self.model, "number")

    @property
    def is_recorded(self) -> bool:
        """Whether the history of the account has the changes of the rows."""
        return self.records_changes and issubclass(self.model, NumberedTable)

    def get_permission(self, verb: str) -> str:
        return self.permissions.read if verb in ("index", "retrieve") else self.permissions.write

    def get_parent(self, **ids: str) -> Parent:
        """Return the parent row, here a team, or raise NotFound or Forbidden."""
        return access.access_team(viewer(), **ids)

    def select_rows(self, parent: Parent) -> "peewee.ModelSelect[Row]":
        """Return a query of all rows of this parent, with the joins that the answer needs."""
        return self.model.select().where(self.parent_field == parent)

    def select_all(self) -> "peewee.ModelSelect[Row]":
        """Return a query of all rows of all parents, with the joins that the answer needs."""
        return self.model.select()

    def select_visible(self, who: Viewer) -> "peewee.ModelSelect[Row]":
        """Return a query of the rows of all parents that the viewer may read."""
        permission = self.get_permission("index")
        parents = access.select_permitted(who, self.parent_field.rel_model, permission)
        return self.select_all().where(self.parent_field.in_(parents))

    def list_names(self, who: Viewer, parent: Parent | None = None) -> list[tuple[str, str]]:
        """Return unique_id and name of the rows that the viewer may read: all, or those of a parent."""
        order = (getattr(self.model, name) for name in self.order)
        rows = self.select_visible(who).select(self.model.unique_id, getattr(self.model, self.name_field))
        if parent is not None:
            rows = rows.where(self.parent_field == parent)
        return list(rows.order_by(*order).tuples())

    def list_visible(self, who: Viewer) -> list[Row]:
        """Return the rows of all parents that the viewer may read, in the order of an answer."""
        order = (getattr(self.model, name) for name in self.order)
        return self.fill(list(self.select_visible(who).order_by(*order)))

    def may(self, who: Viewer, verb: str, found: Parent | Row) -> Permit:
        """Return whether this verb on a parent, or on one of its rows, does not answer Forbidden.

        Pages show a button if so. Else they can say who may do it.
        """
        row = found if isinstance(found, self.model) else None
        parent: Parent = getattr(row, self.parent_field.name) if row is not None else found
        permission = self.get_permission(verb)
        try:
            with acting(who, permission):
                self.require_permission(parent, row)
                if verb not in ("index", "retrieve"):
                    self.require_write(parent)
                    if row is not None:
                        self.require_row_write(row)
        except Forbidden:
            return access.refuse(permission, access.find_team_row(parent))
        return Permit()

    def require_permission(self, parent: Parent, row: Row | None) -> None:
        """Raise Forbidden if the viewer does not have the operation's permission for the parent or row."""
        team = access.find_team_row(parent)
        if team is None:
            access.access_account(viewer())
        else:
            access.require_permission(viewer(), team)

    def fill(self, rows: list[Row]) -> list[Row]:
        """Add the rows of other tables that the answer needs, in a constant number of queries."""
        return rows

    def require_write(self, parent: Parent) -> None:
        """Raise Forbidden if the viewer may read, but not write, the rows of this parent."""

    def require_row_write(self, row: Row) -> None:
        """Raise Forbidden if the viewer may write other rows of the parent, but not this one."""

    def load(self, body: object, writing: Writing) -> dict[str, object]:
        """Return the values of a body by the schema, or raise BadRequest."""
        return serialization.load(self.schema, body, partial=self._get_partial(writing))

    def check(
        self, values: dict[str, object], parent: Parent, row: Row | None, writing: Writing
    ) -> dict[str, object]:
        """Return the values as check_values() does. Override it for checks that depend on `writing`."""
        return self.check_values(values, parent, row)

    def check_values(self, values: dict[str, object], parent: Parent, row: Row | None) -> dict[str, object]:
        """Return the values to write, with references resolved, or raise BadRequest.

        `row` is None on create.
        """
        return values

    def check_return(self, parent: Parent, values: dict[str, object]) -> None:
        """Raise BadRequest or Forbidden if a deleted row with these values must not come back."""
        writing = Writing(Mode.CREATE, Profile.CLIENT)
        self.check(self.load(values, Writing(Mode.PATCH, Profile.CLIENT)), parent, None, writing)

    def prepare_return(self, parent: Parent, values: Mapping[str, object]) -> None:
        """Change what must change before a deleted row with these columns comes back."""

    def record_return(self, row: Row) -> None:
        """Record the rights that a row gives again which an undo brought back."""

    def require_room(self, parent: Parent) -> None:
        """Lock what an insert locks. Raise BadRequest if the parent can have no more rows."""

    def transaction(self) -> AbstractContextManager[None]:
        """Open the transaction of a write."""
        return config_transaction() if self.is_configuration else change_transaction()

    def prepare_removal(self, row: Row) -> None:
        """Lock what is locked before the row. Raise BadRequest if the row must stay."""

    def insert(self, parent: Parent, values: dict[str, object]) -> Row:
        row_values = {**self.defaults, "creation_date": now(), **values}
        return self.model.create(unique_id=make_uuid(), **{self.parent_field.name: parent}, **row_values)

    def change(self, row: Row, values: dict[str, object]) -> None:
        if issubclass(self.model, NumberedTable):
            values = {**values, **self.model.raise_number()}
        if values and not self.model.update(values).where(self.model.id == row.id).execute():
            raise NotFound

    def remove(self, row: Row) -> None:
        self.model.delete().where(self.model.id == row.id).execute()

    def index(self, **ids: str) -> object:
        return self.list_rows(viewer(), **ids)

    def list_rows(self, who: Viewer, **ids: str) -> Any:
        """Return the rows of a parent as an answer shows them."""
        with acting(who, self.get_permission("index")):
            parent = self._find_parent("index", **ids)
            ordered = self.select_rows(parent).order_by(*(getattr(self.model, name) for name in self.order))

            def show(rows: Iterable[Row]) -> list[Row]:
                return self.fill([self._set_parent(parent, row) for row in rows])

            if self.page is None:
                return show(ordered)
            return paging.build_page(ordered, paging.read_page(), show, count=ordered.count())

    def show_rows(self, who: Viewer, **ids: str) -> list[dict[str, str]]:
        """Return the rows of a parent as plain values, like those of an answer."""
        shown: list[dict[str, str]] = (self.response or self.schema).dump(
            self.list_rows(who, **ids), many=True
        )
        return shown

    def create(self, **ids: str) -> Row:
        return self.create_row(viewer(), serialization.REQUEST_BODY, read_writing(Mode.CREATE), **ids)

    def create_row(self, who: Viewer, body: object, writing: Writing = CREATING, /, **ids: str) -> Row:
        """Create a row with the values of a body, and return it as an answer shows it."""
        with acting(who, self.get_permission("create")):
            parent = self._find_parent("create", **ids)
            return self.add(parent, self.load(body, writing), writing)

    def add(self, parent: Parent, values: dict[str, object], writing: Writing) -> Row:
        """Create a row with these values of load(), and return it as an answer shows it."""
        self.require_write(parent)
        with self.transaction():
            row = self.insert(parent, self.check(values, parent, None, writing))
            created = self.reload(parent, row)
            self.record(CREATED, parent, created, {}, self.describe(created))
        return created

    def retrieve(self, **ids: str) -> Row:
        return self.retrieve_row(viewer(), **ids)

    def retrieve_row(self, who: Viewer, **ids: str) -> Row:
        """Return the row that a path names, as an answer shows it."""
        with acting(who, self.get_permission("retrieve")):
            return self.find_row(**ids)[1]

    def show_row(self, who: Viewer, **ids: str) -> dict[str, str]:
        """Return the row that a path names as plain values, like those of an answer."""
        shown: dict[str, str] = (self.response or self.schema).dump(self.retrieve_row(who, **ids))
        return shown

    def update(self, **ids: str) -> Row:
        return self.change_row(viewer(), serialization.REQUEST_BODY, read_update, **ids)

    def change_row(
        self, who: Viewer, body: object, read: Callable[[], Writing] = lambda: CHANGING, /, **ids: str
    ) -> Row:
        """Change a row by the values of a body, and return it as an answer shows it.

        `read` returns how the row is written, after the check of the permission.
        """
        with acting(who, self.get_permission("update")):
            parent, row = self.find_row(**ids)
            writing = read()
            return self.write(parent, row, self.load(body, writing), writing)

    def write(self, parent: Parent, row: Row, values: dict[str, object], writing: Writing) -> Row:
        """Change a row by these values of load(), and return it as an answer shows it."""
        self.require_write(parent)
        with self.transaction():
            locked = self._lock_row(row, values)
            self._require_number(parent, locked, writing)
            before = self._describe_stored(parent, row, locked)
            self.change(row, self.check(values, parent, locked, writing))
            changed = self.reload(parent, row)
            self.record(CHANGED, parent, changed, before, self.describe(changed))
        if self.timer_column is not None:
            store().after_commit(partial(queue.enqueue_reconcile, self.timer_column, row.id))
        return changed

    def destroy(self, **ids: str) -> None:
        self.delete_row(viewer(), lambda: read_writing(Mode.DELETE), **ids)

    def delete_row(self, who: Viewer, read: Callable[[], Writing] = lambda: DELETING, /, **ids: str) -> None:
        """Delete the row that a path names. `read` is as in change_row()."""
        with acting(who, self.get_permission("destroy")):
            self.delete(*self.find_row(**ids), read())

    def delete(self, parent: Parent, row: Row, writing: Writing) -> None:
        """Delete a row."""
        self.require_write(parent)
        with self.transaction():
            services = self._list_services(row)
            # The rows that belong to the object are deleted by the same statement.
            with store().long_statements(limits.DELETION_S):
                self.prepare_removal(row)
                if isinstance(row, NumberedTable):
                    locked = lock_row(row)
                    self._require_number(parent, locked, writing)
                    if self.is_recorded:
                        self._record_deletion(parent, row, locked)
                self.remove(row)
        # The incidents no longer refer to the deleted row. So their timers are reconciled by service.
        for service in services:
            store().after_commit(partial(queue.enqueue_reconcile, "service", service))

    def _record_deletion(self, parent: Parent, row: Row, locked: Row) -> None:
        # The row as it is stored: `row` can have values that only an answer shows.
        removed = removed_rows.seal(locked) if self.can_return else None
        self.record(DELETED, parent, row, self._describe_stored(parent, row, locked), {}, removed)

    def describe(self, row: Row) -> dict[str, object]:
        """Return the stored values of a row that a request can write, as an answer shows them.

        The history keeps them, and an undo writes them.
        """
        described: dict[str, object] = self._written_schema.dump(row)
        return described

    @cached_property
    def _written_schema(self) -> Schema:
        """The schema with the fields that a request can write and an answer shows."""
        written = self.schema.load_fields.items()
        return type(self.schema)(only=[name for name, field in written if not field.load_only])

    def _describe_stored(self, parent: Parent, row: Row, locked: Row) -> dict[str, object]:
        """Describe a locked row. `row` was read before: it is the same if it has the same number."""
        if not isinstance(row, NumberedTable) or not isinstance(locked, NumberedTable):
            return {}
        return self.describe(row if row.number == locked.number else self.reload(parent, locked))

    def get_name(self, row: Row) -> str:
        """Return how the history names a row."""
        return str(getattr(row, "name", "") or getattr(row, "title", "") or "")

    def record(
        self, action: str, parent: Parent, row: Row, before: Values, after: Values, removed: str | None = None
    ) -> None:
        """Record a change of a row in the history of the account, if anything differs."""
        differences = compare(before, after, self.secrets) if self.is_recorded else []
        if not differences and (action == CHANGED or not self.is_recorded):
            return
        team, user = recording.find_scope(row if self.owns_itself else parent)
        if action == DELETED and self.owns_itself:
            team = None
        number = getattr(row, "number", None)
        changed = ChangedObject(self.kind or self.noun, row.unique_id, self.get_name(row), number, team, user)
        recording.record_change(changed, Content(action, differences, removed))

    def _list_services(self, row: Row) -> list[int]:
        """Return the services with open incidents whose timers depend on this row, in one query."""
        if self.timer_column is None:
            return []
        incidents = Incident.select(Incident.service).where(
            getattr(Incident, self.timer_column) == row.id,
            Incident.status < IncidentStatus.RESOLVED,
            Incident.service.is_null(False),
        )
        return [service for (service,) in incidents.distinct().tuples()]

    def find_row(self, **ids: str) -> tuple[Parent, Row]:
        """Return the parent and the row that a path names."""
        unique_id = ids.pop(self.id_arg)
        parent = self.get_parent(**ids)
        return parent, self.fill([self._set_parent(parent, self.find_by_id(parent, unique_id))])[0]

    def find_by_id(self, parent: Parent, unique_id: str) -> Row:
        """Return the row that the last id of a path names, or raise NotFound."""
        return access.find(self.select_rows(parent), self.model.unique_id, unique_id)

    def name_operation(self, verb: str) -> str:
        """Return the name of the operation in the description of the interface and in its limit."""
        return f"{verb}_{self.noun.replace(' ', '_')}"

    def _find_parent(self, verb: str, **ids: str) -> Parent:
        """Return the parent that a path names, and count the request if the resource has limits."""
        parent = self.get_parent(**ids)
        if self.rate_limits:
            rate_limit.enforce(self.rate_limits, viewer().account, self.name_operation(verb), now())
        return parent

    def reload(self, parent: Parent, row: Row) -> Row:
        """Load the row again, with the rows of other tables that the answer needs."""
        found = self.select_rows(parent).where(self.model.id == row.id).first()
        if found is None:
            raise NotFound
        return self.fill([self._set_parent(parent, found)])[0]

    def show(self, parent: Parent, row: Row) -> object:
        """Return a row as the answer to a GET shows it."""
        return (self.response or self.schema).dump(self.reload(parent, row))

    def _require_number(self, parent: Parent, row: Row, writing: Writing) -> None:
        """Raise NumberDiffers if this locked row has another number than the writer expects."""
        if isinstance(row, NumberedTable):
            require_number(row, writing, lambda: self.show(parent, row))

    def _lock_row(self, row: Row, values: Mapping[str, object]) -> Row:
        """Load and lock the row: checks between fields need values that no other request changes.

        `values` are those of load() that will be written.
        """
        return lock_row(row)

    def _set_parent(self, parent: Parent, row: Row) -> Row:
        """Set the parent on the row, so that no query loads it again."""
        setattr(row, self.parent_field.name, parent)
        return row

    def _get_partial(self, writing: Writing) -> bool | Collection[str]:
        """Return the required fields that the body of a write may omit; True: all."""
        if writing.mode is Mode.CREATE:
            return self.client_may_omit if writing.profile.allows_missing_fields else ()
        if writing.mode is Mode.PATCH or writing.profile.allows_missing_fields:
            return True
        return self.put_may_omit


class TeamElement(Resource[Row, Team]):
    """A row of a team that its lanes refer to. Deletion waits until workers have released the lanes."""

    def prepare_removal(self, row: Row) -> None:
        lock_services(Service.team == row.team_id)


class LimitedResource(Resource[Row, Parent]):
    """A resource with at most `max_rows` rows per parent, because all rows are often read together."""

    max_rows: int

    def insert(self, parent: Parent, values: dict[str, object]) -> Row:
        """Insert under the parent's lock: else two requests could exceed the limit or share a position."""
        self.require_room(parent)
        return super().insert(parent, self.place(self._select_siblings(parent), values))

    def require_room(self, parent: Parent) -> None:
        self.lock_parent(parent)
        if self._select_siblings(parent).count() >= self.max_rows:
            reject(self.noun, f"No more than {self.max_rows} are allowed.")

    def _select_siblings(self, parent: Parent) -> "peewee.ModelSelect[Row]":
        return self.model.select().where(self.parent_field == parent)

    def lock_parent(self, parent: Parent) -> None:
        lock_row(parent)

    def place(self, existing: "peewee.ModelSelect[Row]", values: dict[str, object]) -> dict[str, object]:
        """Return the values of a new row with those that depend on the existing rows."""
        return values


class OrderedResource(LimitedResource[Row, Parent]):
    """A resource with ordered rows, by `position` from 1. A new row is the last one.

    No position is larger than `max_rows`, so that there is always a next position for a new row. The order
    belongs to the parent: what changes it raises the parent's number, and locks the parent before the row.
    """

    order = ("position", "id")

    def lock_parent(self, parent: Parent) -> None:
        raise_number(parent)

    def prepare_removal(self, row: Row) -> None:
        self.lock_parent(getattr(row, self.parent_field.name))

    def _lock_row(self, row: Row, values: Mapping[str, object]) -> Row:
        position = values.get("position")
        if not isinstance(position, int) or position <= 0:
            return super()._lock_row(row, values)
        parent = lock_row(getattr(row, self.parent_field.name))
        locked = super()._lock_row(row, values)
        if min(position, self.max_rows) != locked.position:
            raise_number(parent)
        return locked

    def place(self, existing: "peewee.ModelSelect[Row]", values: dict[str, object]) -> dict[str, object]:
        if "position" in values:
            return values
        last = existing.select(peewee.fn.MAX(self.model.position)).scalar() or 0
        if last >= self.max_rows:
            last = self._close_gaps(existing)
        return {**values, "position": last + 1}

    def _close_gaps(self, existing: "peewee.ModelSelect[Row]") -> int:
        """Give the rows the positions 1, 2, 3 and so on. Return the last one. Equal positions stay equal."""
        column = self.model.position
        used = [position for (position,) in existing.select(column).distinct().order_by(column).tuples()]
        dense = peewee.Case(column, [(position, place) for place, position in enumerate(used, start=1)])
        self.model.update(position=dense).where(self.model.id.in_(existing.select(self.model.id))).execute()
        return len(used)

    def check_values(self, values: dict[str, object], parent: Parent, row: Row | None) -> dict[str, object]:
        """Ignore position 0: clients that send all their fields send 0 for no position.

        A position after the last possible one means that one.
        """
        position = values.pop("position", None)
        if isinstance(position, int) and position > 0:
            values["position"] = min(position, self.max_rows)
        return values


def lock_row(row: Row) -> Row:
    """Load a row again and lock it until the transaction ends. NotFound if it was deleted."""
    table = type(row)
    found = store().for_update(table.select().where(table.id == row.id)).first()
    if found is None:
        raise NotFound
    return found


def is_in_account(account: int) -> peewee.Expression:
    """Return a condition for all services of an account."""
    return Service.team.in_(Team.select(Team.id).where(Team.account == account))


def lock_services(services: peewee.Expression) -> None:
    """Lock these services (a condition), in the same order as all other code.

    Call it before the deletion of rows that the lanes refer to. Otherwise the lane's worker waits for the
    deletion and the deletion waits for the lane, and the store ends one of the two transactions (deadlock).
    """
    list(store().for_update(Service.select(Service.id).where(services).order_by(Service.id)))


def attach(
    rows: Collection[Table],
    name: str,
    query: peewee.ModelSelect,
    key: peewee.ForeignKeyField,
    *order: peewee.Field,
) -> None:
    """Load the rows of another table that belong to these rows, with one query, and set them as `name`."""
    by_row = {row.id: row for row in rows}
    for row in rows:
        setattr(row, name, [])
    for inner in query.where(key.in_(list(by_row))).order_by(*order, key.model.id):
        outer = by_row[getattr(inner, key.object_id_name)]
        setattr(inner, key.name, outer)
        getattr(outer, name).append(inner)
