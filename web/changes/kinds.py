"""The kinds of objects that the history knows, by their nouns: how an undo finds and writes them.

They come from the resources of web/routes.py and from PARTS, so that a new resource needs nothing here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import peewee
from flask import current_app

from models.store.fields import NumberedTable, Table
from models.tables.accounts import Account, User
from models.tables.routers import GlobalRouter
from models.tables.schedules import Schedule
from models.tables.services import Integration, Service
from models.tables.tasks import TaskTemplate
from models.tables.teams import Team
from web.account import contact_secret, custom_roles, members, message_settings
from web.http.resource import Resource
from web.http.writing import Part
from web.oncall import schedule_checks
from web.rules import routers
from web.services import heartbeats, integrations, outbound, source_setup
from web.teams import permissions

PARTS: tuple[Part[NumberedTable], ...] = (
    contact_secret.PART,
    custom_roles.ROLE_OF_USER,
    heartbeats.PART,
    integrations.KEY,
    members.REMOVAL,
    message_settings.PART,
    outbound.PART,
    permissions.PART,
    routers.ORDER,
    schedule_checks.PART,
    source_setup.PART,
)

# The name of an id in paths -> the table that it names.
_OWNERS: dict[str, type[Table]] = {
    "team_id": Team,
    "service_id": Service,
    "integration_id": Integration,
    "router_id": GlobalRouter,
    "schedule_id": Schedule,
    "task_template_id": TaskTemplate,
    "username": User,
}
# The column of a table that refers to the object above it.
_ABOVE = {Service: "team", Integration: "service", Schedule: "team", TaskTemplate: "team"}


class Route(Protocol):
    """What this module needs of a route (web/routes.py)."""

    @property
    def path(self) -> str: ...
    @property
    def view(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects. `id_names` are the names of the ids in the path of one row."""

    resource: Resource[NumberedTable, Table]
    id_names: tuple[str, ...]
    parts: tuple[Part[NumberedTable], ...]

    def get_ids(self, row: Table) -> dict[str, str]:
        """Return the ids of the path of a row. The rows above it are loaded."""
        above = self.get_parent_ids(getattr(row, self.resource.parent_field.name))
        return {**above, self.resource.id_arg: row.username if isinstance(row, User) else row.unique_id}

    def get_parent_ids(self, parent: Table) -> dict[str, str]:
        """Return the ids of the path of the object above a row."""
        names = {table: name for name, table in _OWNERS.items()}
        ids: dict[str, str] = {}
        owner: Table | None = parent
        while owner is not None and not isinstance(owner, Account):
            ids[names[type(owner)]] = owner.username if isinstance(owner, User) else owner.unique_id
            column = _ABOVE.get(type(owner))
            owner = getattr(owner, column) if column else None
        return {name: value for name, value in ids.items() if name in self.id_names}


def find_kind(noun: str) -> Kind | None:
    """Return the kind with this noun; None: the history knows no such objects."""
    return list_kinds().get(noun)


def list_kinds() -> Mapping[str, Kind]:
    """Return the kinds by their nouns."""
    return _list_kinds(current_app.config["ROUTES"])


def has_ids(table: type[Table]) -> bool:
    """Return whether the rows of a table have unique_ids that the interface shows. Tokens have none."""
    return isinstance(getattr(table, "unique_id", None), peewee.Field)


@lru_cache(maxsize=2)
def _list_kinds(routes: Sequence[Route]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for route in routes:
        resource = getattr(route.view, "__self__", None)
        id_names = tuple(re.findall(r"<(\w+)>", route.path))
        if isinstance(resource, Resource) and resource.is_recorded and resource.id_arg in id_names:
            noun = resource.kind or resource.noun
            kinds[noun] = Kind(resource, id_names, tuple(part for part in PARTS if part.kind == noun))
    return kinds
