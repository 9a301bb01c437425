"""Grouping policies: which alerts of a service become one incident, while its collation is 3.

Contract sections 3.12 and 4.3. pipeline/incidents/grouping.py applies them.
"""

from typing import Any

from marshmallow import ValidationError, validate

from models.domain.enums import MatchMode
from models.tables.rules import AlertGroupingPolicy
from models.tables.services import Service
from pipeline.incidents.grouping import STATIC_FIELDS
from pipeline.rules.conditions import paths
from web.http import access
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import (
    Boolean,
    Choice,
    List,
    Moment,
    Nested,
    Number,
    RawText,
    Reference,
    Schema,
    Text,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import LimitedResource


def _check_path(path: str) -> None:
    try:
        if not paths.parse(path):
            raise ValidationError("Give a path in the payload.")
    except paths.BadPath as error:
        raise ValidationError(str(error)) from None


class MatchFieldsSchema(Schema):
    static_fields = List(
        Text(validate=validate.OneOf(STATIC_FIELDS)),
        metadata=explain("Fields of the alert to compare. A repeated field counts once."),
    )
    custom_fields = List(
        RawText(validate=_check_path),
        max_items=20,
        metadata=explain("Paths into the payload to compare, for example `labels.cluster`."),
    )


class GroupingPolicySchema(Schema):
    """Alerts with the same values within some minutes become one incident."""

    unique_id = Text(dump_only=True)
    service = Reference(dump_only=True)
    match_mode = Choice(MatchMode, metadata=explain("How many of the fields must be equal; default: 1."))
    match_fields = Nested(
        MatchFieldsSchema, required=True, metadata=explain("The fields to compare, at least one.")
    )
    time_window = Number(
        min_value=1,
        max_value=20,
        metadata=explain("Minutes in which alerts with equal values join one incident; default: 5."),
    )
    is_active = Boolean(metadata=explain("false: the policy groups nothing; default: true."))
    created_at = Moment(attribute="creation_date", dump_only=True)
    updated_at = Moment(dump_only=True)


class GroupingPolicies(LimitedResource[AlertGroupingPolicy, Service]):
    """The grouping policies of a service."""

    model = AlertGroupingPolicy
    noun = "alert grouping policy"
    schema = GroupingPolicySchema()
    parent_field = AlertGroupingPolicy.service
    id_arg = "grouping_policy_id"
    permissions = get_permissions("service")
    max_rows = 20

    def get_parent(self, **ids: str) -> Service:
        return access.access_service(viewer(), **ids)

    def check_values(
        self, values: dict[str, Any], parent: Service, row: AlertGroupingPolicy | None
    ) -> dict[str, object]:
        if "match_fields" in values:
            values["match_fields"] = _clean_fields(values["match_fields"])
        return {**values, "updated_at": now()}


def _clean_fields(fields: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return both lists with each field once. Reject empty lists: all alerts would have the same values."""
    result = {name: list(dict.fromkeys(fields.get(name, []))) for name in ("static_fields", "custom_fields")}
    if not any(result.values()):
        reject("match_fields", "Give at least one field.")
    return result


GROUPING_POLICIES = GroupingPolicies()
