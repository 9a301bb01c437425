"""A table under its parent, served by five verbs; and the one place where configuration is written.

A subclass says which table, which schema (its table of fields), whose row the parent is and how it is
accessed. A resource with consequences overrides `checked`, `insert`, `change` or `remove`; nothing here
asks which resource it is. Declare it in routes.py with `*crud(path, RESOURCE)`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import peewee
from flask import request

from models.domain.enums import IncidentStatus
from models.store.base import store
from models.store.ids import new_uuid
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import Team
from web.http import access, client_profile, paging, serialization
from web.http.auth import now, viewer
from web.http.errors import NotFound, reject
from web.http.fields import Schema
from web.http.permissions import ReadWrite
from web.http.rate_limit import Limits
from workers import queue


@contextmanager
def config_transaction() -> Iterator[None]:
    """A write transaction that raises the version of the account's configuration with it."""
    with store().write_transaction():
        yield
        bump_version(viewer().account.id)


class Resource:
    """Five verbs on the rows of `model` whose `parent_field` is the parent."""

    model: Any
    noun: str
    # What requests hold and, unless `shown` says otherwise, what answers hold.
    schema: Schema
    # What a GET answers with, where the contract has another shape there.
    response: Schema | None = None
    # What a write is answered with, where the contract has less there than was said.
    write_response: Schema | None = None
    # What the list answers with, where it comes page by page.
    page: Schema | None = None
    # Whether it comes so to published clients alone, as its own `index` then sees to (contract 1.6).
    paged = False
    # The column of incidents by which timers follow from rows of this table
    # (workers/timers/on_config_change.py).
    timer_column: str | None = None
    # How often an account may ask for it, as its own verbs then see to.
    rate_limits: Limits = ()
    parent_field: peewee.ForeignKeyField
    id_arg: str
    # What it takes to read and to write it.
    permissions: ReadWrite
    order: tuple[str, ...] = ("creation_date", "id")
    # Fields that a create requires and a PUT does not, whoever asks.
    put_may_omit: Collection[str] = ()
    # What a create that leaves it out gets, where the table itself has no default.
    defaults: Mapping[str, Any] = {}
    # Whether a PUT requires in both profiles what a create requires (contract 3.6: services do).
    put_is_strict = False

    def get_permission(self, verb: str) -> str:
        return self.permissions.read if verb in ("index", "retrieve") else self.permissions.write

    def get_parent(self, **ids: str) -> Any:
        """The row under which this resource lives; NotFound or Forbidden."""
        return access.access_team(viewer(), **ids)

    def select_rows(self, parent: Any) -> Any:
        """All rows of this parent, with what their answer needs joined in."""
        return self.model.select().where(self.parent_field == parent)

    def fill(self, rows: list[Any]) -> list[Any]:
        """The rows with what their answers hold of other tables, in a constant number of queries."""
        return rows

    def check_values(self, values: dict[str, Any], parent: Any, row: Any) -> dict[str, Any]:
        """The values to write, references resolved; `row` is None on create. BadRequest if they cannot be."""
        return values

    def transaction(self) -> AbstractContextManager[None]:
        """The transaction of each write; one that changes no configuration need not raise its version."""
        return config_transaction()

    def insert(self, parent: Any, values: dict[str, Any]) -> Any:
        row_values = {**self.defaults, "creation_date": now(), **values}
        return self.model.create(unique_id=new_uuid(), **{self.parent_field.name: parent}, **row_values)

    def change(self, row: Any, values: dict[str, Any]) -> None:
        if values and not self.model.update(values).where(self.model.id == row.id).execute():
            raise NotFound

    def remove(self, row: Any) -> None:
        self.model.delete().where(self.model.id == row.id).execute()

    def index(self, **ids: str) -> Any:
        parent = self.get_parent(**ids)
        ordered = self.select_rows(parent).order_by(*(getattr(self.model, name) for name in self.order))

        def show(rows: Iterable[Any]) -> list[Any]:
            return self.fill([self._set_parent(parent, row) for row in rows])

        if self.page is None:
            return show(ordered)
        return paging.build_page(ordered, paging.read_page(), show, count=ordered.count())

    def create(self, **ids: str) -> Any:
        parent = self.get_parent(**ids)
        values = serialization.read_as(self.schema)
        with self.transaction():
            row = self.insert(parent, self.check_values(values, parent, None))
        return self._reload(parent, row)

    def retrieve(self, **ids: str) -> Any:
        return self.find_row(**ids)[1]

    def update(self, **ids: str) -> Any:
        parent, row = self.find_row(**ids)
        values = serialization.read_as(self.schema, partial=self._get_partial())
        with self.transaction():
            self.change(row, self.check_values(values, parent, self._lock_row(row)))
        if self.timer_column is not None:
            queue.enqueue_reconcile(self.timer_column, row.id)
        return self._reload(parent, row)

    def destroy(self, **ids: str) -> None:
        _, row = self.find_row(**ids)
        with self.transaction():
            services = self._list_services(row)
            self.remove(row)
        # The incidents name it no more, so they are found by what they still have.
        for service in services:
            queue.enqueue_reconcile("service", service)

    def _list_services(self, row: Any) -> list[int]:
        """The services with open incidents for which timers follow from this row, in one query."""
        if self.timer_column is None:
            return []
        incidents = Incident.select(Incident.service).where(
            getattr(Incident, self.timer_column) == row.id,
            Incident.status < IncidentStatus.RESOLVED,
            Incident.service.is_null(False),
        )
        return [service for (service,) in incidents.distinct().tuples()]

    def find_row(self, **ids: str) -> tuple[Any, Any]:
        """The parent and the row that a path names."""
        unique_id = ids.pop(self.id_arg)
        parent = self.get_parent(**ids)
        return parent, self.fill([self._set_parent(parent, self.find_by_id(parent, unique_id))])[0]

    def find_by_id(self, parent: Any, unique_id: str) -> Any:
        """The row that the last id of a path names, or NotFound."""
        return access.find(self.select_rows(parent), self.model.unique_id, unique_id)

    def _reload(self, parent: Any, row: Any) -> Any:
        """The row as it now is in the store, with what its answer needs."""
        found = self.select_rows(parent).where(self.model.id == row.id).first()
        if found is None:
            raise NotFound
        return self.fill([self._set_parent(parent, found)])[0]

    def _lock_row(self, row: Any) -> Any:
        """The row as it is now, kept so until the transaction ends: rules between fields depend on it."""
        return lock_row(row)

    def _set_parent(self, parent: Any, row: Any) -> Any:
        """Spare each row the query for a parent that is already here."""
        setattr(row, self.parent_field.name, parent)
        return row

    def _get_partial(self) -> bool | Collection[str]:
        if request.method == "PATCH":
            return True
        if client_profile.current().allows_partial_put and not self.put_is_strict:
            return True
        return self.put_may_omit


class TeamElement(Resource):
    """What a team has and its lanes refer to: they are waited for before it goes."""

    def remove(self, row: Any) -> None:
        lock_services(Service.team == row.team_id)
        super().remove(row)


class LimitedResource(Resource):
    """Rows of which a parent may have only so many: all of them are looked at together, and often."""

    max_rows: int

    def insert(self, parent: Any, values: dict[str, Any]) -> Any:
        """Under the parent's lock, or two at once would be one too many, or stand in the same place."""
        lock_row(parent)
        existing = self.model.select().where(self.parent_field == parent)
        if existing.count() >= self.max_rows:
            reject(self.noun, f"There may be {self.max_rows} of them.")
        return super().insert(parent, {**self.get_placement(existing), **values})

    def get_placement(self, existing: Any) -> dict[str, Any]:
        """What a new row gets from where it comes to stand among those that are there."""
        return {}


class OrderedResource(LimitedResource):
    """Rows that stand in an order under their parent, by `position` from 1; a new one comes last."""

    order = ("position", "id")

    def get_placement(self, existing: Any) -> dict[str, Any]:
        last = existing.select(peewee.fn.MAX(self.model.position)).scalar()
        return {"position": (last or 0) + 1}

    def check_values(self, values: dict[str, Any], parent: Any, row: Any) -> dict[str, Any]:
        """0 is nobody's position: clients that send all their fields send it for none."""
        if not values.get("position"):
            values.pop("position", None)
        return values


def lock_row(row: Any) -> Any:
    """A row as it is now, kept so until the transaction ends; NotFound when it is gone."""
    table = type(row)
    found = store().for_update(table.select().where(table.id == row.id)).first()
    if found is None:
        raise NotFound
    return found


def is_in_account(account: int) -> Any:
    """All services of an account, as a condition."""
    return Service.team.in_(Team.select(Team.id).where(Team.account == account))


def lock_services(services: Any) -> None:
    """Lock these services (a condition), in the order in which everybody locks them.

    Before what their lanes refer to is deleted: else a lane waits for the deletion, and that for the lane,
    whose rows are to lose the reference. One of the two would be ended by the store.
    """
    list(store().for_update(Service.select(Service.id).where(services).order_by(Service.id)))


def attach(rows: Collection[Any], name: str, query: Any, key: peewee.ForeignKeyField, *order: Any) -> None:
    """Give each row its rows of another table, in this order, with one query for all of them."""
    by_row = {row.id: row for row in rows}
    for row in rows:
        setattr(row, name, [])
    for inner in query.where(key.in_(list(by_row))).order_by(*order, key.model.id):
        outer = by_row[getattr(inner, key.object_id_name)]
        setattr(inner, key.name, outer)
        getattr(outer, name).append(inner)
