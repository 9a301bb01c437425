"""Which incidents an outbound integration is told of: contract sections 3.12 and 4.8."""

from models.tables.rules import OutgoingRule
from models.tables.services import Integration
from web import access
from web.auth import viewer
from web.permissions import get_permissions
from web.resource import LimitedResource
from web.shapes import Boolean, RuleJson, Schema, Text


class OutgoingRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    is_enabled = Boolean()
    rule_json = RuleJson()


class OutgoingRules(LimitedResource):
    """Conditions on incidents; each of them is looked at for every move of an incident."""

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
