"""Global routers and their rules: contract sections 3.10 and 4.7.

They belong to the account, so only its owner and admins see them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

import peewee
from marshmallow import fields, pre_load

from models.domain.enums import IntegrationType, RouterAction
from models.store.ids import make_uuid
from models.tables.accounts import Account
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.services import Integration, Service
from models.tables.teams import Team
from web.http import access, serialization
from web.http.auth import viewer
from web.http.errors import reject
from web.http.fields import (
    LONG_TEXT,
    Boolean,
    Choice,
    List,
    Moment,
    Nested,
    Number,
    Reference,
    RuleJson,
    Schema,
    Text,
    explain,
)
from web.http.permissions import ADMIN, ReadWrite
from web.http.resource import OrderedResource, Resource, config_transaction, lock_row
from web.http.writing import Mode, Part, Writing, begin_change, read_writing

MAX_RULES = 1_000
# Actions of one rule. With this limit, one SQL statement can load the integrations of all rules of a router.
MAX_ACTIONS = 25


class RouterSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)
    account = Reference(dump_only=True, metadata=explain("The unique_id of the account."))
    is_enabled = Boolean(metadata=explain("false: requests with the key get 404; default: true."))
    integration_key = Text(
        dump_only=True, metadata=explain("The key in the addresses of alerts. It is a secret.")
    )
    created_at = Moment(attribute="creation_date", dump_only=True)
    account_identifier = Text(
        attribute="account.account_identifier",
        dump_only=True,
        metadata=explain("The account in addresses of alerts: five characters."),
    )


class Routers(Resource[GlobalRouter, Account]):
    """The global routers of an account. Each has a key, and rules that choose integrations for its alerts."""

    model = GlobalRouter
    noun = "global router"
    schema = RouterSchema()
    parent_field = GlobalRouter.account
    id_arg = "router_id"
    permissions = ReadWrite(ADMIN, ADMIN)
    defaults = {"name": ""}

    def get_parent(self, **ids: str) -> Account:
        return access.access_account(viewer())

    def insert(self, parent: Account, values: dict[str, object]) -> GlobalRouter:
        router: GlobalRouter = super().insert(parent, {"integration_key": make_uuid(), **values})
        return router


ROUTERS = Routers()


class TargetNameSchema(Schema):
    name = Text(dump_only=True)
    unique_id = Text(dump_only=True)


class NewAction(TypedDict):
    """An action in a request. `integration` is an integration's id or key."""

    action_type: int
    integration: NotRequired[str | None]


class StoredAction(TypedDict):
    """An action as it is stored. `integration` is an integration's id."""

    unique_id: str
    action_type: int
    integration: str | None


class RouterActionSchema(Schema):
    """An action of a rule. `integration` may also be the object from an answer."""

    unique_id = Text(dump_only=True)
    action_type = Choice(RouterAction, required=True, metadata=explain("What to do with a matching alert."))
    integration = Reference(
        load_only=True, metadata=explain("The unique_id or key of the integration that gets the alert.")
    )
    service = fields.Nested(
        TargetNameSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The service of the integration; null: none."),
    )
    team = fields.Nested(
        TargetNameSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The team of the integration; null: none."),
    )
    integration_obj = fields.Nested(
        TargetNameSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The integration that gets the alert; null: none."),
    )

    @pre_load
    def _merge_names(self, data: object, **kwargs: object) -> object:
        if isinstance(data, dict) and not data.get("integration"):
            return {**data, "integration": data.get("integration_obj")}
        return data


class RouterRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text()
    position = Number(
        dump_only=True,
        metadata=explain("The place among the rules, from 1. The first rule that matches decides."),
    )
    rule_json = RuleJson()
    actions = List(
        Nested(RouterActionSchema), max_items=MAX_ACTIONS, metadata=explain("Where a matching alert goes.")
    )
    router = Reference(dump_only=True, metadata=explain("The unique_id of the router."))


class RouterRules(OrderedResource[RouterRule, GlobalRouter]):
    """The rules of a router. Their positions are 1, 2, 3 and so on without gaps."""

    model = RouterRule
    noun = "global router rule"
    title = "rule of a global router"
    schema = RouterRuleSchema()
    parent_field = RouterRule.router
    id_arg = "ruleset_id"
    permissions = ReadWrite(ADMIN, ADMIN)
    defaults = {"name": ""}
    max_rows = MAX_RULES

    def get_parent(self, **ids: str) -> GlobalRouter:
        router: GlobalRouter = ROUTERS.find_row(**ids)[1]
        return router

    def fill(self, rows: list[RouterRule]) -> list[RouterRule]:
        target_ids = {action["integration"] for row in rows for action in row.actions} - {None}
        found = _select_integrations(Integration.unique_id.in_(list(target_ids))) if target_ids else ()
        targets = {target.unique_id: target for target in found}
        for row in rows:
            row.actions = [_show(action, targets) for action in row.actions]
        return rows

    def check_values(
        self, values: dict[str, Any], parent: GlobalRouter, row: RouterRule | None
    ) -> dict[str, object]:
        if "actions" in values:
            values["actions"] = _build_actions(values["actions"])
        return values

    def remove(self, row: RouterRule) -> None:
        """Delete a rule and decrement the positions of the rules after it. The router is locked."""
        rule = lock_row(row)
        super().remove(rule)
        following = RouterRule.update(position=RouterRule.position - 1)
        following.where(RouterRule.router == rule.router_id, RouterRule.position > rule.position).execute()

    def prepare_return(self, parent: GlobalRouter, values: Mapping[str, object]) -> None:
        """Increment the positions of the rules before which the rule was. The router is locked."""
        following = RouterRule.update(position=RouterRule.position + 1)
        following.where(RouterRule.router == parent, RouterRule.position >= values["position"]).execute()


class MoveSchema(Schema):
    """A rule and its new position."""

    rule = Reference(required=True, blank=False, metadata=explain("The unique_id of the rule."))
    position = Number(
        required=True, min_value=1, metadata=explain("The new place, from 1. After the end: the last place.")
    )


def move(router_id: str) -> list[RouterRule]:
    """Move a rule of a global router to another position. The rules between the two positions move by one."""
    router = RULES.get_parent(router_id=router_id)
    values = serialization.read_body()
    move_rule(router, values["rule"], values["position"], read_writing(Mode.PATCH))
    rows: list[RouterRule] = RULES.list_rows(viewer(), router_id=router_id)
    return rows


def move_rule(router: GlobalRouter, unique_id: str, position: int, writing: Writing) -> None:
    """Move a rule of a router to another position, from 1. The order belongs to the router."""
    with config_transaction():
        begin_change(router, writing, ORDER)
        _move(router, unique_id, position)


def _move(router: GlobalRouter, unique_id: str, position: int) -> None:
    rules = RULES.select_rows(router)
    moved = rules.where(RouterRule.unique_id == unique_id).first()
    if moved is None:
        reject("rule", f"{unique_id} is not a rule of this router.")
    old, new = moved.position, min(position, rules.count())
    step = 1 if new < old else -1
    between = RouterRule.position.between(min(old, new), max(old, new))
    RouterRule.update(position=RouterRule.position + step).where(
        RouterRule.router == router, between
    ).execute()
    RouterRule.update({"position": new, **RouterRule.raise_number()}).where(
        RouterRule.id == moved.id
    ).execute()


def _select_integrations(condition: peewee.Expression) -> Iterable[Integration]:
    """Load the integrations of this account that meet a condition, with their services and teams."""
    found = Integration.select(Integration, Service, Team).join(Service).join(Team)
    integrations: Iterable[Integration] = found.where(Team.account == viewer().account, condition)
    return integrations


def _build_actions(new: list[NewAction]) -> list[StoredAction]:
    """Return the actions as they are stored: with new ids, and integrations by unique_id."""
    target_refs = [action["integration"] for action in new if action.get("integration")]
    is_target = Integration.unique_id.in_(target_refs) | Integration.integration_key.in_(target_refs)
    takes_alerts = Integration.integration_type == IntegrationType.ALERT
    targets: dict[str, str] = {}
    for target in _select_integrations(is_target & takes_alerts) if target_refs else ():
        targets |= {target.integration_key: target.unique_id, target.unique_id: target.unique_id}
    return [
        {
            "unique_id": make_uuid(),
            "action_type": action["action_type"],
            "integration": _get_target(place, action, targets),
        }
        for place, action in enumerate(new)
    ]


def _get_target(place: int, action: NewAction, targets: Mapping[str, str]) -> str | None:
    if action["action_type"] != RouterAction.ROUTE:
        return None
    target = targets.get(action.get("integration") or "")
    if target is None:
        reject(
            f"actions.{place}.integration",
            "Must be the id or key of an integration of this account that takes alerts.",
        )
    return target


def _show(action: StoredAction, targets: Mapping[str, Integration]) -> dict[str, object]:
    """Build an action as answers show it. Deleted integrations are null."""
    target = targets.get(action["integration"] or "")
    return {
        **action,
        "integration_obj": target,
        "service": target and target.service,
        "team": target and target.service.team,
    }


def _describe_order(router: GlobalRouter) -> dict[str, object]:
    rules = RULES.select_rows(router).order_by(RouterRule.position, RouterRule.id)
    return {"order": [rule.unique_id for rule in rules]}


def _show_router(router: GlobalRouter) -> object:
    return ROUTERS.show(viewer().account, router)


def _order_again(router: GlobalRouter, values: dict[str, list[str]], writing: Writing) -> None:
    """Give the rules the positions of this order. Rules that it does not name come last."""
    with config_transaction():
        begin_change(router, writing, ORDER)
        places = {unique_id: place for place, unique_id in enumerate(values["order"], start=1)}
        last = len(places)
        for rule in RULES.select_rows(router).order_by(RouterRule.position, RouterRule.id):
            last += rule.unique_id not in places
            position = places.get(rule.unique_id, last)
            if position != rule.position:
                changed = {"position": position, **RouterRule.raise_number()}
                RouterRule.update(changed).where(RouterRule.id == rule.id).execute()


RULES = RouterRules()
MOVE = MoveSchema()
ORDER = Part("global router", "rules", _describe_order, _show_router, write=_order_again)
