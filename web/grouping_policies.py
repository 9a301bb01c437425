"""By what a service puts alerts into one incident: contract sections 3.12 and 4.3."""

from typing import Any

from marshmallow import ValidationError, validate

from models.rules import AlertGroupingPolicy
from models.services import Service
from pipeline import paths
from web import access
from web.auth import now, viewer
from web.errors import bad
from web.permissions import named
from web.resource import Limited
from web.shapes import Flag, Moment, Number, Part, Reference, Several, Shape, Text

# What an incident has whatever its payload says.
STATIC_FIELDS = ("incident_title", "incident_summary", "integration")


def _leads_somewhere(path: str) -> None:
    try:
        if not paths.parse(path):
            raise ValidationError("Say where in the payload to look.")
    except paths.BadPath as error:
        raise ValidationError(str(error)) from None


class MatchFieldsShape(Shape):
    static_fields = Several(Text(validate=validate.OneOf(STATIC_FIELDS)), most=len(STATIC_FIELDS))
    custom_fields = Several(Text(validate=_leads_somewhere), most=20)


class GroupingPolicyShape(Shape):
    """What is alike in any (1) or all (2) of the fields within so many minutes goes together."""

    unique_id = Text(dump_only=True)
    service = Reference(dump_only=True)
    match_mode = Number(validate=validate.OneOf([1, 2]))
    match_fields = Part(MatchFieldsShape, required=True)
    time_window = Number(least=1, most=20)
    is_active = Flag()
    created_at = Moment(attribute="creation_date", dump_only=True)
    updated_at = Moment(dump_only=True)


class GroupingPolicies(Limited):
    """The grouping policies of a service."""

    model = AlertGroupingPolicy
    noun = "alert grouping policy"
    schema = GroupingPolicyShape()
    parent_field = AlertGroupingPolicy.service
    id_arg = "grouping_policy_id"
    needs = named("service")
    most = 20

    def parent(self, **ids: str) -> Service:
        return access.access_service(viewer(), **ids)

    def checked(self, values: dict[str, Any], parent: Service, row: Any) -> dict[str, Any]:
        if "match_fields" in values:
            values["match_fields"] = _fields(values["match_fields"])
        return {**values, "updated_at": now()}


def _fields(given: dict[str, list[str]]) -> dict[str, list[str]]:
    """Both lists, each field once; by nothing, all alerts would be alike."""
    kept = {name: list(dict.fromkeys(given.get(name, []))) for name in ("static_fields", "custom_fields")}
    if not any(kept.values()):
        bad("match_fields", "Name at least one field.")
    return kept


GROUPING_POLICIES = GroupingPolicies()
