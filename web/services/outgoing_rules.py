"""Outgoing rules: which incidents an outbound integration sends. Contract sections 3.12 and 4.8."""

from models.tables.rules import OutgoingRule
from models.tables.services import Integration
from web.http import access
from web.http.auth import viewer
from web.http.fields import Boolean, RuleJson, Schema, Text, explain
from web.http.permissions import get_permissions
from web.http.resource import LimitedResource


class OutgoingRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    is_enabled = Boolean(
        metadata=explain(
            "Whether the rule counts; default: true. Without a rule that counts, all incidents are sent."
        )
    )
    rule_json = RuleJson()


class OutgoingRules(LimitedResource[OutgoingRule, Integration]):
    """Conditions on incidents. An incident is sent if one of them matches, or if there are none."""

    model = OutgoingRule
    noun = "outgoing rule"
    schema = OutgoingRuleSchema()
    parent_field = OutgoingRule.integration
    id_arg = "outgoing_rule_id"
    permissions = get_permissions("integration")
    max_rows = 100

    def get_parent(self, **ids: str) -> Integration:
        return access.access_integration(viewer(), **ids)


OUTGOING_RULES = OutgoingRules()
