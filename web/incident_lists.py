"""Lists of incidents, page by page: contract sections 1.7, 2.5 and 4.10.

What a question may limit stands in one index (`incident_listed`), in the order of the list. Which incidents
it is about, and the page of them, are found there, and only those of the page are read.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import peewee
from flask import request
from marshmallow import ValidationError, validate

from models.accounts import User
from models.enums import IncidentStatus
from models.incidents import Incident, IncidentTag
from models.postmortems import PostmortemIncident
from models.services import Service
from models.teams import EscalationPolicy, Priority, Sla, Tag, Team
from web import access, paging, wire
from web.auth import viewer
from web.errors import BadRequest
from web.incident_shapes import IncidentPageShape, PlainPageShape, filled
from web.shapes import Moment, Number, Several, Shape, Text

# The status -1 stands for what is open, 0 for all.
OPEN, ALL = -1, 0

# What may be asked of postmortems (contract section 4.10).
EITHER, WITHOUT, WITH = -1, 0, 1

# Of each kind, together well within the number of values that a statement may have.
MOST_IDS = 1_000

PAGE = IncidentPageShape()
PLAIN_PAGE = PlainPageShape()


class Since(Moment):
    """A limit of time; [] and "" set none."""

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **kwargs: Any) -> Any:
        value = None if value in ("", []) else value
        return super().deserialize(value, attr, data, **kwargs)


def ids() -> Several:
    return Several(Text(limit=64), most=MOST_IDS)


class FilterShape(Shape):
    """Which incidents; what is left out limits nothing, but `status` is 1 unless it is said."""

    all_teams = Number(validate=validate.OneOf([0, 1]))
    status = Number(validate=validate.OneOf([OPEN, ALL, *map(int, IncidentStatus)]))
    team_ids = ids()
    service_ids = ids()
    user_ids = ids()
    priority_ids = ids()
    priority_name = Text(allow_none=True)
    tag_ids = ids()
    sla_ids = ids()
    escalation_policy_ids = ids()
    from_date = Since(allow_none=True)
    to_date = Since(allow_none=True)
    postmortem_filter = Number(validate=validate.OneOf([EITHER, WITHOUT, WITH]))


FILTER = FilterShape()


def filtered() -> dict[str, Any]:
    """List incidents by a filter, oldest first, page by page."""
    body = wire.raw_body()
    wanted = wire.load(FILTER, body)
    return paging.envelope(_found(wanted), paging.asked(body), _read)


def index() -> dict[str, Any]:
    """List all incidents that the viewer may see, oldest first, page by page.

    Published clients ask for some of them in the query, or in a body; what cannot be understood there sets
    no limit.
    """
    said = _said()
    found = _found({"status": ALL, **_understood(said)})
    return paging.envelope(found, paging.asked(said), _read, count=found.count())


def _said() -> dict[str, Any]:
    """What the body and the query of a GET ask for, by the filter's names."""
    try:
        body = wire.raw_body()
    except BadRequest:
        body = {}
    said = dict(body) if isinstance(body, dict) else {}
    for name, values in request.args.lists():
        said[name] = (
            values if isinstance(FILTER.fields.get(OLD_NAMES.get(name, name)), Several) else values[-1]
        )
    return {OLD_NAMES.get(name, name): value for name, value in said.items()}


# What older clients call the fields of the filter.
OLD_NAMES = {"team_id": "team_ids", "service_id": "service_ids", "user_id": "user_ids"}


def _understood(said: Mapping[str, Any]) -> Any:
    try:
        return FILTER.load(said)
    except ValidationError as error:
        return error.valid_data


def _read(page: list[tuple[int]]) -> list[Incident]:
    """The incidents with these row numbers, in this order."""
    numbers = [number for (number,) in page]
    if not numbers:
        return []
    rows = {row.id: row for row in Incident.select().where(Incident.id.in_(numbers))}
    return filled([rows[number] for number in numbers if number in rows])


def _found(wanted: Mapping[str, Any]) -> Any:
    """A query for the row numbers of the incidents that are asked for, oldest first."""
    incidents = Incident.select(Incident.id).where(Incident.account == viewer().account)
    if not viewer().is_admin:
        incidents = incidents.where(_by(Incident.team).in_(access.permitted_teams(viewer())))
    for name, value in {"status": IncidentStatus.TRIGGERED, **wanted}.items():
        condition = CONDITIONS[name](value)
        if condition is not None:
            incidents = incidents.where(condition)
    return incidents.order_by(Incident.creation_date, Incident.id).tuples()


def _by(field: peewee.Field) -> Any:
    """A column to compare and not to look up: an index of it alone would leave all that it finds to be
    read and put in order.
    """
    return field + 0


def _of_team(value: int) -> Any:
    return None if value == 1 else _by(Incident.team).in_(access.own_teams(viewer()))


def _status(value: int) -> Any:
    if value == OPEN:
        return _by(Incident.status) < int(IncidentStatus.RESOLVED)
    return None if value == ALL else _by(Incident.status) == int(value)


def _among(field: peewee.ForeignKeyField, table: Any, key: str = "unique_id") -> Callable[[list[str]], Any]:
    """Incidents that refer to one of these ids; ids of nothing find nothing, an empty list sets no limit."""

    def condition(values: list[str]) -> Any:
        if not values:
            return None
        return _by(field).in_(table.select(table.id).where(getattr(table, key).in_(values)))

    return condition


def _priority_name(value: str | None) -> Any:
    if not value:
        return None
    same = peewee.fn.LOWER(Priority.name) == value.lower()
    ours = Priority.team.in_(Team.select(Team.id).where(Team.account == viewer().account))
    return _by(Incident.team_priority).in_(Priority.select(Priority.id).where(ours, same))


def _date(compare: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else compare(Incident.creation_date, value)


def _tagged(values: list[str]) -> Any:
    """Incidents that have at least one of these tags."""
    if not values:
        return None
    tagged = IncidentTag.select(IncidentTag.incident).join(Tag).where(Tag.unique_id.in_(values))
    return _by(Incident.id).in_(tagged)


def _postmortem(value: int) -> Any:
    """Incidents that have a postmortem, or have none."""
    if value == EITHER:
        return None
    written = PostmortemIncident.select(PostmortemIncident.incident)
    return _by(Incident.id).in_(written) if value else _by(Incident.id).not_in(written)


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "all_teams": _of_team,
    "status": _status,
    "team_ids": _among(Incident.team, Team),
    "service_ids": _among(Incident.service, Service),
    "user_ids": _among(Incident.assigned_to, User, "username"),
    "priority_ids": _among(Incident.team_priority, Priority),
    "priority_name": _priority_name,
    "tag_ids": _tagged,
    "sla_ids": _among(Incident.sla, Sla),
    "escalation_policy_ids": _among(Incident.escalation_policy, EscalationPolicy),
    "from_date": _date(operator.gt),
    "to_date": _date(operator.lt),
    "postmortem_filter": _postmortem,
}
