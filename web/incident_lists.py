"""Lists of incidents and of an incident's alerts, page by page: contract sections 1.7, 2.5 and 3.9."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import peewee
from marshmallow import validate

from models.accounts import User
from models.enums import IncidentStatus
from models.incidents import Incident, IncidentTag
from models.services import Service
from models.teams import EscalationPolicy, Priority, Sla, Tag, Team
from web import access, paging, wire
from web.auth import viewer
from web.incident_shapes import IncidentPageShape, PlainPageShape, filled
from web.shapes import Moment, Number, Several, Shape, Text

# The status -1 stands for what is open, 0 for all.
OPEN, ALL = -1, 0

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
    postmortem_filter = Number(validate=validate.OneOf([-1, 0, 1]))


FILTER = FilterShape()


def filtered() -> dict[str, Any]:
    """List incidents by a filter, oldest first, page by page."""
    body = wire.raw_body()
    wanted = wire.load(FILTER, body)
    page = paging.asked(body)
    return paging.envelope(_found(wanted), page, filled)


def index() -> dict[str, Any]:
    """List all incidents that the viewer may see, oldest first, page by page."""
    found = _found({"status": ALL})
    return paging.envelope(found, paging.asked(), filled, count=found.count())


def _found(wanted: Mapping[str, Any]) -> Any:
    incidents = Incident.select().where(Incident.account == viewer().account)
    if not viewer().is_admin:
        incidents = incidents.where(Incident.team.in_(access.permitted_teams(viewer())))
    for name, value in {"status": IncidentStatus.TRIGGERED, **wanted}.items():
        condition = CONDITIONS[name](value)
        if condition is not None:
            incidents = incidents.where(condition)
    return incidents.order_by(Incident.creation_date, Incident.id)


def _of_team(value: int) -> Any:
    return None if value == 1 else Incident.team.in_(access.own_teams(viewer()))


def _status(value: int) -> Any:
    if value == OPEN:
        return Incident.status.in_([IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED])
    return None if value == ALL else Incident.status == value


def _among(field: peewee.ForeignKeyField, table: Any, key: str = "unique_id") -> Callable[[list[str]], Any]:
    """Incidents that refer to one of these ids; ids of nothing find nothing, an empty list sets no limit."""

    def condition(values: list[str]) -> Any:
        if not values:
            return None
        return field.in_(table.select(table.id).where(getattr(table, key).in_(values)))

    return condition


def _priority_name(value: str | None) -> Any:
    if not value:
        return None
    same = peewee.fn.LOWER(Priority.name) == value.lower()
    return Incident.team_priority.in_(Priority.select(Priority.id).where(same))


def _date(compare: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else compare(Incident.creation_date, value)


def _tagged(values: list[str]) -> Any:
    """Incidents that have at least one of these tags."""
    if not values:
        return None
    tagged = IncidentTag.select(IncidentTag.incident).join(Tag).where(Tag.unique_id.in_(values))
    return Incident.id.in_(tagged)


def _nothing_has(some: bool) -> Any:
    """Incidents have no postmortems yet, so who asks for one finds none."""
    return peewee.SQL("1 = 0") if some else None


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
    "postmortem_filter": lambda value: _nothing_has(value == 1),
}
