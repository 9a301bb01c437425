"""Global routers, and the rules by which they send alerts on: contract sections 3.10 and 4.7.

They are the account's: only its owner and admins see them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from marshmallow import fields, pre_load

from models.accounts import Account
from models.enums import IntegrationType, RouterAction
from models.ids import new_uuid
from models.routers import GlobalRouter, RouterRule
from models.services import Integration, Service
from models.teams import Team
from web import access, wire
from web.auth import viewer
from web.errors import bad
from web.permissions import ADMIN, Needs
from web.resource import Ordered, Resource, configuring, locked
from web.shapes import (
    LONG_TEXT,
    Choice,
    Flag,
    Moment,
    Number,
    Part,
    Reference,
    RuleJson,
    Several,
    Shape,
    Text,
)

MOST_RULES = 1_000
# Of a rule. With all its rules, a router then names no more than one statement can look up.
MOST_ACTIONS = 25


class RouterShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    account = Reference(dump_only=True)
    is_enabled = Flag()
    integration_key = Text(dump_only=True)
    created_at = Moment(attribute="creation_date", dump_only=True)
    account_identifier = Text(attribute="account.account_identifier", dump_only=True)


class Routers(Resource):
    """The doors of an account: each has a key, and rules that say where its alerts go."""

    model = GlobalRouter
    noun = "global router"
    schema = RouterShape()
    parent_field = GlobalRouter.account
    id_arg = "router_id"
    needs = Needs(ADMIN, ADMIN)
    defaults = {"name": ""}

    def parent(self, **ids: str) -> Account:
        return access.access_account(viewer())

    def insert(self, parent: Account, values: dict[str, Any]) -> GlobalRouter:
        router: GlobalRouter = super().insert(parent, {"integration_key": new_uuid(), **values})
        return router


ROUTERS = Routers()


class NamedObject(Shape):
    name = Text(dump_only=True)
    unique_id = Text(dump_only=True)


class RouterActionShape(Shape):
    """What a rule does. The integration may be named by its id or its key, or as answers name it."""

    unique_id = Text(dump_only=True)
    action_type = Choice(RouterAction, required=True)
    integration = Reference(load_only=True)
    service = fields.Nested(NamedObject, dump_only=True, allow_none=True)
    team = fields.Nested(NamedObject, dump_only=True, allow_none=True)
    integration_obj = fields.Nested(NamedObject, dump_only=True, allow_none=True)

    @pre_load
    def _one_name(self, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, dict) and not data.get("integration"):
            return {**data, "integration": data.get("integration_obj")}
        return data


class RouterRuleShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text()
    position = Number(dump_only=True)
    rule_json = RuleJson()
    actions = Several(Part(RouterActionShape), most=MOST_ACTIONS)
    router = Reference(dump_only=True)


class RouterRules(Ordered):
    """The rules of a router; their positions are always 1 to their number."""

    model = RouterRule
    noun = "global router rule"
    schema = RouterRuleShape()
    parent_field = RouterRule.router
    id_arg = "ruleset_id"
    needs = Needs(ADMIN, ADMIN)
    defaults = {"name": ""}
    most = MOST_RULES

    def parent(self, **ids: str) -> GlobalRouter:
        router: GlobalRouter = ROUTERS.found(**ids)[1]
        return router

    def filled(self, rows: list[RouterRule]) -> list[RouterRule]:
        named = {action["integration"] for row in rows for action in row.actions} - {None}
        found = _integrations(Integration.unique_id.in_(list(named))) if named else ()
        targets = {target.unique_id: target for target in found}
        for row in rows:
            row.actions = [_shown(action, targets) for action in row.actions]
        return rows

    def checked(self, values: dict[str, Any], parent: GlobalRouter, row: Any) -> dict[str, Any]:
        if "actions" in values:
            values["actions"] = _actions(values["actions"])
        return values

    def remove(self, row: RouterRule) -> None:
        """Those behind it move up."""
        locked(row.router)
        gone = locked(row)
        super().remove(gone)
        behind = RouterRule.update(position=RouterRule.position - 1)
        behind.where(RouterRule.router == gone.router_id, RouterRule.position > gone.position).execute()


class MoveShape(Shape):
    """A place beyond the end is the last one."""

    rule = Reference(required=True, blank=False)
    position = Number(required=True, least=1)


def move(router_id: str) -> list[RouterRule]:
    """Move a rule to another position; the rules between move over."""
    router = RULES.parent(router_id=router_id)
    wanted = wire.body()
    with configuring():
        locked(router)
        _move(router, wanted["rule"], wanted["position"])
    return RULES.index(router_id=router_id)


def _move(router: GlobalRouter, unique_id: str, wanted: int) -> None:
    rules = RULES.rows(router)
    moved = rules.where(RouterRule.unique_id == unique_id).first()
    if moved is None:
        bad("rule", "The router has no such rule.")
    old, new = moved.position, min(wanted, rules.count())
    step = 1 if new < old else -1
    between = RouterRule.position.between(min(old, new), max(old, new))
    RouterRule.update(position=RouterRule.position + step).where(
        RouterRule.router == router, between
    ).execute()
    RouterRule.update(position=new).where(RouterRule.id == moved.id).execute()


def _integrations(condition: Any) -> Iterable[Integration]:
    """Those of this account's integrations, with their services and teams."""
    found = Integration.select(Integration, Service, Team).join(Service).join(Team)
    integrations: Iterable[Integration] = found.where(Team.account == viewer().account, condition)
    return integrations


def _actions(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The actions as they are kept: with ids of their own, targets by unique_id."""
    named = [action["integration"] for action in given if action.get("integration")]
    is_named = Integration.unique_id.in_(named) | Integration.integration_key.in_(named)
    takes_alerts = Integration.integration_type == IntegrationType.ALERT
    targets: dict[str, str] = {}
    for target in _integrations(is_named & takes_alerts) if named else ():
        targets |= {target.integration_key: target.unique_id, target.unique_id: target.unique_id}
    return [
        {
            "unique_id": new_uuid(),
            "action_type": action["action_type"],
            "integration": _target(place, action, targets),
        }
        for place, action in enumerate(given)
    ]


def _target(place: int, action: dict[str, Any], targets: Mapping[str, str]) -> str | None:
    if action["action_type"] != RouterAction.ROUTE:
        return None
    if action.get("integration") not in targets:
        bad(f"actions.{place}.integration", "The account has no such integration for alerts.")
    return targets[action["integration"]]


def _shown(action: dict[str, Any], targets: Mapping[str, Integration]) -> dict[str, Any]:
    """An action as answers show it; what was deleted since is null."""
    target = targets.get(action["integration"] or "")
    return {
        **action,
        "integration_obj": target,
        "service": target and target.service,
        "team": target and target.service.team,
    }


RULES = RouterRules()
MOVE = MoveShape()
