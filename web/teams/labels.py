"""The priorities, tags and SLAs of a team: contract section 3.11."""

from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict

from marshmallow import fields, pre_load

from models.domain.enums import SlaTargetKind
from models.store.ids import make_uuid
from models.tables.teams import Priority, Sla, Tag, Team
from web.http.fields import (
    LONG_TEXT,
    Boolean,
    Choice,
    List,
    Moment,
    Nested,
    Number,
    OptionalNumber,
    RawData,
    Schema,
    TeamLabel,
    Text,
    Username,
    Uuid,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import TeamElement
from web.teams.teams import get_account_members

# Five days in seconds, the longest SLA target that the published clients allow (contract 5, row 25).
MAX_SLA_S = 432_000


class PrioritySchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    creation_date = Moment(dump_only=True)
    color = Text(limit=64, metadata=explain("Any text, for user interfaces."))
    team = TeamLabel(dump_only=True)


class Priorities(TeamElement[Priority]):
    """The priorities of a team: how important an incident is."""

    model = Priority
    noun = "priority"
    schema = PrioritySchema()
    parent_field = Priority.team
    id_arg = "priority_id"
    permissions = get_permissions("priority")
    defaults = {"name": ""}


class TagSchema(Schema):
    unique_id = Text(dump_only=True)
    team = TeamLabel(dump_only=True)
    name = Text()
    creation_date = Moment(dump_only=True)
    color = Text(limit=64, metadata=explain("Any text, for user interfaces."))


class Tags(TeamElement[Tag]):
    """The tags of a team, by which users find incidents."""

    model = Tag
    noun = "tag"
    schema = TagSchema()
    parent_field = Tag.team
    id_arg = "tag_id"
    permissions = get_permissions("tag")
    defaults = {"name": ""}


class NewResponder(TypedDict):
    """A responder of an SLA in a request."""

    user: str
    unique_id: NotRequired[str | None]


class NewEscalation(TypedDict):
    """An escalation of an SLA in a request."""

    unique_id: NotRequired[str | None]
    time: int
    type: int
    responders: NotRequired[list[NewResponder]]


class SlaResponderSchema(Schema):
    user = Username(required=True, blank=False, metadata=explain("The username of the person to notify."))
    unique_id = Uuid(metadata=explain("Chosen by the client, or generated."))


class SlaEscalationSchema(Schema):
    """Responders to notify before or after a breach.

    The published clients differ in the name of the list: requests use one of two names, answers have both.
    """

    unique_id = Uuid(metadata=explain("Chosen by the client, or generated."))
    time = Number(
        min_value=-MAX_SLA_S,
        max_value=MAX_SLA_S,
        required=True,
        metadata=explain("Seconds after the breach of the SLA target; negative: before the breach."),
    )
    type = Choice(SlaTargetKind, required=True, metadata=explain("The SLA target."))
    responders = List(
        Nested(SlaResponderSchema),
        metadata=explain("The people to notify; without any, the managers of the team."),
    )
    responder = List(
        Nested(SlaResponderSchema),
        attribute="responders",
        dump_only=True,
        metadata=explain("The same list, for published clients."),
    )

    @pre_load
    def _merge_names(self, data: object, **kwargs: object) -> object:
        if isinstance(data, dict) and "responder" in data and not data.get("responders"):
            return {**data, "responders": data["responder"]}
        return data


class SlaSeconds(OptionalNumber):
    """Seconds or null. 0 means null, for clients that cannot send null."""

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        is_none = value in (0, "0") and value is not False
        return super().deserialize(None if is_none else value, attr, data, **kwargs)


class SlaSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    is_active = Boolean(metadata=explain("false: nobody is notified because of this SLA; default: true."))
    conditions = fields.Function(lambda sla: "{}", metadata=explain("Always `{}`."))
    acknowledge_time = SlaSeconds(
        min_value=1,
        max_value=MAX_SLA_S,
        metadata=explain("Seconds until the incident must be acknowledged; null: no such target."),
    )
    resolve_time = SlaSeconds(
        min_value=1,
        max_value=MAX_SLA_S,
        metadata=explain("Seconds until the incident must be resolved; null: no such target."),
    )
    escalations = List(
        Nested(SlaEscalationSchema),
        required=True,
        metadata=explain("Who is notified before or after a breach."),
    )
    team = Number(attribute="team_id", dump_only=True, metadata=explain("The number of the team."))
    creation_date = Moment(dump_only=True)


class Slas(TeamElement[Sla]):
    """The SLAs of a team: the seconds within which an incident must be acknowledged and resolved."""

    model = Sla
    noun = "SLA"
    schema = SlaSchema()
    parent_field = Sla.team
    id_arg = "sla_id"
    permissions = get_permissions("sla")
    timer_column = "sla"
    defaults = {"name": ""}

    def check_values(self, values: dict[str, Any], parent: Team, row: Sla | None) -> dict[str, object]:
        if "escalations" in values:
            get_account_members(parent.account, _list_usernames(values["escalations"]))
            values["escalations"] = _build_escalations(values["escalations"], row.escalations if row else [])
        return values


def _list_usernames(escalations: list[NewEscalation]) -> Iterator[tuple[str, str]]:
    """Yield the place and the username of each responder."""
    for step, new in enumerate(escalations):
        for place, responder in enumerate(new.get("responders", [])):
            yield f"escalations.{step}.responders.{place}", responder["user"]


def _build_escalations(new: list[NewEscalation], before: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Return the escalations as they are stored, with unique IDs: from the client (contract 2.9) or new.

    An escalation without an ID gets the ID of the stored one with the same type and time. So it does not
    notify again of the same incident (decision 0015).
    """
    used_ids = {each.get("unique_id") for each in new}
    unmatched = (each for each in before if each["unique_id"] not in used_ids)
    reusable = {(each["type"], each["time"]): each["unique_id"] for each in unmatched}
    used: set[str] = set()
    result = []
    for each in new:
        preferred = each.get("unique_id") or reusable.pop((each["type"], each["time"]), None)
        unique_id = preferred if preferred and preferred not in used else make_uuid()
        used.add(unique_id)
        result.append(_build_escalation(each, unique_id))
    return result


def _build_escalation(new: NewEscalation, unique_id: str) -> dict[str, object]:
    responders = [
        {"user": responder["user"], "unique_id": responder.get("unique_id") or make_uuid()}
        for responder in new.get("responders", [])
    ]
    return {"unique_id": unique_id, "time": new["time"], "type": new["type"], "responders": responders}


PRIORITIES = Priorities()
TAGS = Tags()
SLAS = Slas()
