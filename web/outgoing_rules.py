"""Which incidents an outbound integration is told of: contract sections 3.12 and 4.8."""

from models.rules import OutgoingRule
from models.services import Integration
from web import access
from web.auth import viewer
from web.permissions import named
from web.resource import Limited
from web.shapes import Flag, RuleJson, Shape, Text


class OutgoingRuleShape(Shape):
    unique_id = Text(dump_only=True)
    is_enabled = Flag()
    rule_json = RuleJson()


class OutgoingRules(Limited):
    """Conditions on incidents; each of them is looked at for every move of an incident."""

    model = OutgoingRule
    noun = "outgoing rule"
    schema = OutgoingRuleShape()
    parent_field = OutgoingRule.integration
    id_arg = "outgoing_rule_id"
    needs = named("integration")
    most = 100

    def parent(self, **ids: str) -> Integration:
        return access.access_integration(viewer(), **ids)


OUTGOING_RULES = OutgoingRules()
