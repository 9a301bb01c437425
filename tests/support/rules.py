"""Build alert rules and routers, as facts for pure functions and as rows, with simple defaults."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from models.domain.enums import RouterAction
from models.domain.facts import AlertRuleFacts, RouterFacts, RouterRuleFacts, RouteTarget
from models.store.ids import make_uuid
from models.tables.accounts import bump_version
from models.tables.events import Receipt
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertRule
from models.tables.services import Integration
from pipeline.rules.action_table import ACTIONS, COMMON_FIELDS
from tests.support.world import World

Logic = Mapping[str, Any] | str

# The actions of alert rules by name.
RuleAction = IntEnum("RuleAction", {spec.name.upper(): spec.number for spec in ACTIONS.values()})

# A stored action without values.
BLANK = {reference.name: None for spec in ACTIONS.values() for reference in spec.references} | {
    text.name: "" for text in COMMON_FIELDS
}


def action(kind: RuleAction, value: str = "", **fields: str) -> dict[str, Any]:
    """Build an action as it is stored."""
    return {"unique_id": "", "action_type": int(kind), **BLANK, "value": value, **fields}


def to_json(when: Logic) -> str:
    return when if isinstance(when, str) else json.dumps(when)


def var(name: str) -> dict[str, str]:
    return {"var": name}


def equals(name: str, value: Any) -> Logic:
    return {"==": [var(name), value]}


def rule_facts(*actions: Mapping[str, Any], when: Logic = "", name: str = "", **more: Any) -> AlertRuleFacts:
    return AlertRuleFacts(name or "rule", name, to_json(when), actions=actions, **more)


def add_rule(
    world: World,
    *actions: Mapping[str, Any],
    when: Logic = "",
    integration: Integration | None = None,
    **columns: Any,
) -> AlertRule:
    """Add a rule at the end of an integration's rules, and raise the version of the configuration."""
    owner = integration or world.integration
    position = AlertRule.select().where(AlertRule.integration == owner).count() + 1
    fields_given = {
        "position": position,
        "unique_id": make_uuid(),
        "creation_date": owner.creation_date,
        **columns,
    }
    rule = AlertRule.create(integration=owner, rule_json=to_json(when), actions=list(actions), **fields_given)
    bump_version(world.account.id)
    return rule


def target(row: int = 7, **changes: Any) -> RouteTarget:
    fields_given = {
        "integration": row,
        "service": 1,
        "name": f"Target {row}",
        "source": "generic",
        "accepts_alerts": True,
    }
    return RouteTarget(**(fields_given | changes))


def route_to(*unique_ids: str) -> tuple[Mapping[str, Any], ...]:
    return tuple({"unique_id": "", "action_type": 0, "integration": unique_id} for unique_id in unique_ids)


SUPPRESS: Mapping[str, Any] = {
    "unique_id": "",
    "action_type": int(RouterAction.SUPPRESS),
    "integration": None,
}


def router_rule(*actions: Mapping[str, Any], when: Logic = "", name: str = "rule") -> RouterRuleFacts:
    return RouterRuleFacts(f"id of {name}", name, to_json(when), actions)


def router_facts(*rules: RouterRuleFacts, **targets: RouteTarget) -> RouterFacts:
    """Build a router. Its rules refer to targets by these names."""
    return RouterFacts(1, "Front door", rules, targets)


def add_router(world: World, **columns: Any) -> GlobalRouter:
    fields_given = {"unique_id": make_uuid(), "integration_key": make_uuid(), "name": "Front door", **columns}
    router = GlobalRouter.create(
        account=world.account, creation_date=world.account.creation_date, **fields_given
    )
    bump_version(world.account.id)
    return router


def add_router_rule(
    router: GlobalRouter, *to: Integration, when: Logic = "", suppress: bool = False, **columns: Any
) -> RouterRule:
    """Add a rule at the end of a router's rules, with these integrations as targets."""
    actions = [*route_to(*(each.unique_id for each in to)), *([SUPPRESS] if suppress else [])]
    position = RouterRule.select().where(RouterRule.router == router).count() + 1
    fields_given = {"unique_id": make_uuid(), "name": f"rule {position}", "position": position, **columns}
    rule = RouterRule.create(
        router=router,
        rule_json=to_json(when),
        actions=actions,
        creation_date=router.creation_date,
        **fields_given,
    )
    bump_version(router.account_id)
    return rule


def accept_from_router(
    router: GlobalRouter,
    now: datetime,
    *,
    source: str = "generic",
    body: Any = None,
    exactly: bool = False,
    **alert: Any,
) -> Receipt:
    """Write a receipt with a router's key, a millisecond after the previous one or `exactly` now."""
    number = Receipt.select().count()
    raw = alert if body is None else body
    return Receipt.create(
        trace_id=f"00000000-0000-4000-8000-{number:012d}",
        account=router.account_id,
        router=router,
        source=source,
        body=raw if isinstance(raw, bytes) else json.dumps(raw).encode(),
        received_at=now if exactly else now + timedelta(milliseconds=number),
    )
