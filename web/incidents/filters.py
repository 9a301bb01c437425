"""Lists of incidents, page by page: contract sections 1.7, 2.5 and 4.10.

The index `incident_listed` has all columns of the filter in the order of the list, and
`incident_listed_open` has those of the open incidents. The database finds the incidents of a page in one of
them, and reads only the rows of that page.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import peewee
from flask import request
from marshmallow import ValidationError

from models.domain.enums import IncidentStatus
from models.store.fields import Table
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentTag
from models.tables.postmortems import PostmortemIncident
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Priority, Sla, Tag, Team
from web.http import access, paging, serialization
from web.http.auth import viewer
from web.http.errors import BadRequest
from web.http.fields import Choice, List, Moment, RawData, Schema, Text, explain
from web.incidents.schemas import IncidentPageSchema, PlainPageSchema, fill

# Status -1 means open incidents, 0 means all incidents.
OPEN, ALL = -1, 0

# Values of the filter for postmortems (contract section 4.10).
ANY, WITHOUT, WITH = -1, 0, 1

# Maximum of each list; together they are far below the limit of values in an SQL statement.
MAX_IDS = 1_000

# What a field of the filter requires of incidents; None: nothing.
Condition = peewee.Expression | None

PAGE = IncidentPageSchema()
PLAIN_PAGE = PlainPageSchema()


class FilterMoment(Moment):
    """A time limit; [] and "" mean no limit."""

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        value = None if value in ("", []) else value
        return super().deserialize(value, attr, data, **kwargs)


def id_list(sentence: str = "") -> List:
    """Return the field of a list of ids, by default with the sentence of its name."""
    return List(Text(limit=64), max_items=MAX_IDS, metadata=explain(sentence))


class FilterSchema(Schema):
    """A filter for incidents. A missing field sets no limit, except `status`."""

    all_teams = Choice(
        names={0: "own teams", 1: "all teams"},
        metadata=explain(
            "Whether incidents of all teams that you may see count, or only of your own; default: 1."
        ),
    )
    status = Choice(
        IncidentStatus,
        names={OPEN: "open", ALL: "all"},
        metadata=explain("Only incidents of this status; default: 1, in `GET /api/incidents/` 0."),
    )
    team_ids = id_list()
    service_ids = id_list()
    user_ids = id_list()
    priority_ids = id_list()
    priority_name = Text(
        allow_none=True,
        metadata=explain("Only incidents with a priority of this name, in any case; null: all."),
    )
    tag_ids = id_list()
    sla_ids = id_list()
    escalation_policy_ids = id_list()
    from_date = FilterMoment(
        allow_none=True, metadata=explain("Only incidents that were created after this time; null: all.")
    )
    to_date = FilterMoment(
        allow_none=True, metadata=explain("Only incidents that were created before this time; null: all.")
    )
    postmortem_filter = Choice(
        names={ANY: "any", WITHOUT: "without a postmortem", WITH: "with one"},
        metadata=explain("Whether the incident has a postmortem; default: -1."),
    )


FILTER = FilterSchema()


def filter_incidents() -> dict[str, object]:
    """List incidents by a filter, oldest first, page by page."""
    body = serialization.parse_body()
    filters = serialization.load(FILTER, body)
    return paging.build_page(select_incidents(filters), paging.read_page(body), load_incidents)


def index() -> dict[str, object]:
    """List all incidents that you may see, oldest first, page by page.

    Published clients send a filter in the query or in a body. A value that cannot be parsed sets no limit.
    """
    return build_page(lambda incidents: incidents)


def build_page(complete: Callable[[list[Incident]], list[Incident]]) -> dict[str, object]:
    """Build the page of a GET request with a filter; `complete` adds to its incidents what they show."""
    parameters = read_parameters()
    found = select_incidents({"status": ALL, **load_valid(parameters)})

    def load(page: list[tuple[int]]) -> list[Incident]:
        return complete(load_incidents(page))

    return paging.build_page(found, paging.read_page(parameters), load, count=found.count())


def read_parameters() -> dict[str, object]:
    """Return the filter in the body and query of a GET request, by the field names of the filter."""
    try:
        body = serialization.parse_body()
    except BadRequest:
        body = {}
    parameters = dict(body) if isinstance(body, dict) else {}
    for name, values in request.args.lists():
        parameters[name] = (
            values if isinstance(FILTER.fields.get(OLD_NAMES.get(name, name)), List) else values[-1]
        )
    return {OLD_NAMES.get(name, name): value for name, value in parameters.items()}


# Names of the filter fields in older clients.
OLD_NAMES = {"team_id": "team_ids", "service_id": "service_ids", "user_id": "user_ids"}


def load_valid(parameters: Mapping[str, object]) -> Any:
    try:
        return FILTER.load(parameters)
    except ValidationError as error:
        return error.valid_data


def load_incidents(page: list[tuple[int]]) -> list[Incident]:
    """Load the incidents with these row numbers in this order."""
    numbers = [number for (number,) in page]
    if not numbers:
        return []
    rows = {row.id: row for row in Incident.select().where(Incident.id.in_(numbers))}
    return fill([rows[number] for number in numbers if number in rows])


def select_visible() -> "peewee.ModelSelect[Incident]":
    """Select the row numbers of the incidents of all teams in which the viewer has the permission."""
    incidents: peewee.ModelSelect[Incident] = Incident.select(Incident.id)
    incidents = incidents.where(Incident.account == viewer().account)
    if viewer().is_admin:
        return incidents
    return incidents.where(without_index(Incident.team).in_(access.select_permitted_teams(viewer())))


def select_incidents(filters: Mapping[str, object]) -> "peewee.ModelSelect[Incident]":
    """Select the row numbers of the incidents that match the filter, oldest first."""
    incidents = select_visible()
    for name, value in {"status": IncidentStatus.TRIGGERED, **filters}.items():
        condition = CONDITIONS[name](value)
        if condition is not None:
            incidents = incidents.where(condition)
    return incidents.order_by(Incident.creation_date, Incident.id).tuples()


def without_index(field: peewee.Field) -> peewee.Expression:
    """Return an expression for a column that the database cannot look up in an index of this column alone.

    With such an index the database would have to read and sort all rows that it finds.
    """
    return field + 0


def _match_team(value: int) -> Condition:
    return None if value == 1 else without_index(Incident.team).in_(access.select_own_teams(viewer()))


# The condition of the index of open incidents. The database uses the index only for this very text.
IS_OPEN = Incident.status <= peewee.SQL(str(int(IncidentStatus.RESOLVED) - 1))


def _match_status(value: int) -> Condition:
    if value == OPEN:
        return IS_OPEN
    if value == ALL:
        return None
    is_status = without_index(Incident.status) == int(value)
    return is_status if value == IncidentStatus.RESOLVED else IS_OPEN & is_status


def _match_ids(
    field: peewee.ForeignKeyField, table: type[Table], key: str = "unique_id"
) -> Callable[[list[str]], Condition]:
    """Match incidents that refer to one of these IDs. Unknown IDs match nothing; [] is no limit."""

    def condition(values: list[str]) -> Condition:
        if not values:
            return None
        return without_index(field).in_(table.select(table.id).where(getattr(table, key).in_(values)))

    return condition


def _match_priority(value: str | None) -> Condition:
    if not value:
        return None
    same_name = peewee.fn.LOWER(Priority.name) == value.lower()
    in_account = Priority.team.in_(Team.select(Team.id).where(Team.account == viewer().account))
    return without_index(Incident.team_priority).in_(
        Priority.select(Priority.id).where(in_account, same_name)
    )


def _match_date(
    compare: Callable[[peewee.Field, datetime], peewee.Expression],
) -> Callable[[datetime | None], Condition]:
    return lambda value: None if value is None else compare(Incident.creation_date, value)


def _match_tags(values: list[str]) -> Condition:
    """Match incidents with at least one of these tags."""
    if not values:
        return None
    tagged = IncidentTag.select(IncidentTag.incident).join(Tag).where(Tag.unique_id.in_(values))
    return without_index(Incident.id).in_(tagged)


def _match_postmortem(value: int) -> Condition:
    """Match incidents with or without a postmortem."""
    if value == ANY:
        return None
    with_postmortem = PostmortemIncident.select(PostmortemIncident.incident)
    return (
        without_index(Incident.id).in_(with_postmortem)
        if value
        else without_index(Incident.id).not_in(with_postmortem)
    )


CONDITIONS: dict[str, Callable[[Any], Condition]] = {
    "all_teams": _match_team,
    "status": _match_status,
    "team_ids": _match_ids(Incident.team, Team),
    "service_ids": _match_ids(Incident.service, Service),
    "user_ids": _match_ids(Incident.assigned_to, User, "username"),
    "priority_ids": _match_ids(Incident.team_priority, Priority),
    "priority_name": _match_priority,
    "tag_ids": _match_tags,
    "sla_ids": _match_ids(Incident.sla, Sla),
    "escalation_policy_ids": _match_ids(Incident.escalation_policy, EscalationPolicy),
    "from_date": _match_date(operator.gt),
    "to_date": _match_date(operator.lt),
    "postmortem_filter": _match_postmortem,
}
