"""What a team labels its incidents with and promises for them: contract section 3.11. Tables of fields."""

from collections.abc import Iterator
from typing import Any

from marshmallow import fields, pre_load, validate

from models.ids import new_uuid
from models.teams import Priority, Sla, Tag, Team
from web.permissions import named
from web.resource import Element
from web.shapes import (
    LONG_TEXT,
    Flag,
    MaybeNumber,
    Moment,
    Number,
    Part,
    Several,
    Shape,
    TeamLabel,
    Text,
    Username,
    Uuid,
)
from web.teams import account_members

# Five days in seconds, the longest promise that the published clients allow (contract 5, row 25).
LONGEST_S = 432_000


class PriorityShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    creation_date = Moment(dump_only=True)
    color = Text(limit=64)
    team = TeamLabel(dump_only=True)


class Priorities(Element):
    """How much an incident matters."""

    model = Priority
    noun = "priority"
    schema = PriorityShape()
    parent_field = Priority.team
    id_arg = "priority_id"
    needs = named("priority")
    defaults = {"name": ""}


class TagShape(Shape):
    unique_id = Text(dump_only=True)
    team = TeamLabel(dump_only=True)
    name = Text()
    creation_date = Moment(dump_only=True)
    color = Text(limit=64)


class Tags(Element):
    """Words by which incidents are found again."""

    model = Tag
    noun = "tag"
    schema = TagShape()
    parent_field = Tag.team
    id_arg = "tag_id"
    needs = named("tag")
    defaults = {"name": ""}


class SlaResponderShape(Shape):
    user = Username(required=True, blank=False)
    unique_id = Uuid()


class EscalationShape(Shape):
    """Whom to tell `time` seconds after (negative: before) a promise breaks; type 1 acknowledge, 2 resolve.

    The published clients differ in the name of the list: both names are read, both are given.
    """

    unique_id = Uuid()
    time = Number(least=-LONGEST_S, most=LONGEST_S, required=True)
    type = Number(required=True, validate=validate.OneOf([1, 2]))
    responders = Several(Part(SlaResponderShape))
    responder = Several(Part(SlaResponderShape), attribute="responders", dump_only=True)

    @pre_load
    def _one_name(self, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, dict) and "responder" in data and not data.get("responders"):
            return {**data, "responders": data["responder"]}
        return data


class Promise(MaybeNumber):
    """Seconds, or nothing: 0 is what a client sends for nothing that has no word for it."""

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **kwargs: Any) -> Any:
        is_none = value in (0, "0") and value is not False
        return super().deserialize(None if is_none else value, attr, data, **kwargs)


class SlaShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    is_active = Flag()
    conditions = fields.Function(lambda sla: "{}")
    acknowledge_time = Promise(least=1, most=LONGEST_S)
    resolve_time = Promise(least=1, most=LONGEST_S)
    escalations = Several(Part(EscalationShape), required=True)
    team = Number(attribute="team_id", dump_only=True)
    creation_date = Moment(dump_only=True)


class Slas(Element):
    """Within what time an incident is to be acknowledged and resolved; times in seconds."""

    model = Sla
    noun = "SLA"
    schema = SlaShape()
    parent_field = Sla.team
    id_arg = "sla_id"
    needs = named("sla")
    followed = "sla"
    defaults = {"name": ""}

    def checked(self, values: dict[str, Any], parent: Team, row: Any) -> dict[str, Any]:
        if "escalations" in values:
            account_members(parent.account, _named(values["escalations"]), "escalations")
            values["escalations"] = _escalations(values["escalations"], row.escalations if row else [])
        return values


def _named(escalations: list[dict[str, Any]]) -> Iterator[str]:
    return (responder["user"] for given in escalations for responder in given.get("responders", []))


def _escalations(given: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As they are kept: ids that a client chose stay (contract 2.9), the others are made, each once.

    One that comes without its id is the one of its type and time that was there before: what it has told
    of an incident, it is not to tell again (decision 0015).
    """
    taken = {each.get("unique_id") for each in given}
    left = (each for each in before if each["unique_id"] not in taken)
    free = {(each["type"], each["time"]): each["unique_id"] for each in left}
    used: set[str] = set()
    kept = []
    for each in given:
        wanted = each.get("unique_id") or free.pop((each["type"], each["time"]), None)
        unique_id = wanted if wanted and wanted not in used else new_uuid()
        used.add(unique_id)
        kept.append(_escalation(each, unique_id))
    return kept


def _escalation(given: dict[str, Any], unique_id: str) -> dict[str, Any]:
    responders = [
        {"user": responder["user"], "unique_id": responder.get("unique_id") or new_uuid()}
        for responder in given.get("responders", [])
    ]
    return {"unique_id": unique_id, "time": given["time"], "type": given["type"], "responders": responders}


PRIORITIES = Priorities()
TAGS = Tags()
SLAS = Slas()
