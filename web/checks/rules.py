"""Find rules that can never match, and routers that drop alerts without a rule for it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import peewee

from models.tables.accounts import Account
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.rules.conditions import BadRule, CompiledCondition, compile_rule, list_unknown_parts
from web.checks.finding import Finding


def find_unknown_fields(account: Account, go_on: Callable[[], object] = lambda: None) -> Iterator[Finding]:
    """Find rules of integrations and routers that read fields that alerts do not have.

    `go_on` is called before each rule, and may raise.
    """
    query = AlertRule.select(AlertRule, Integration, Service, Team).join(Integration).join(Service).join(Team)
    enabled = query.where(Team.account == account, AlertRule.is_enabled, AlertRule.rule_json != "")
    for rule in enabled.order_by(AlertRule.id).iterator():
        go_on()
        integration = rule.integration
        subject = f"integration {integration.name} of service {integration.service.name}"
        name = rule.description or rule.unique_id
        yield from _describe(rule.rule_json, integration.team.name, subject, name)
    for rule in _select_router_rules(account).where(RouterRule.rule_json != "").iterator():
        go_on()
        yield from _describe(rule.rule_json, "", f"router {rule.router.name}", rule.name or rule.unique_id)


def _describe(rule_json: str, team: str, subject: str, name: str) -> Iterator[Finding]:
    compiled = _compile(rule_json)
    parts = list_unknown_parts(compiled) if compiled else ()
    if parts:
        what = f"the rule {name} of {subject} may never match: {'; '.join(parts)}"
        yield Finding("unknown_field", team, subject, what)


def _compile(rule_json: str) -> CompiledCondition | None:
    """Return the condition; None: it cannot be evaluated, which the alert trace reports."""
    try:
        return compile_rule(rule_json)
    except BadRule:
        return None


def find_routers_without_catch_all(
    account: Account, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find routers that are enabled and have no rule for the alerts that match no other rule.

    `go_on` is called before each router, and may raise.
    """
    rules = _select_router_rules(account).order_by(RouterRule.router, RouterRule.position)
    by_router = {row: list(group) for row, group in groupby(rules, lambda rule: rule.router_id)}
    routers = GlobalRouter.select().where(GlobalRouter.account == account, GlobalRouter.is_enabled)
    for router in routers.order_by(GlobalRouter.id):
        go_on()
        if not _has_catch_all(by_router.get(router.id, ())):
            name = router.name or router.unique_id
            what = (
                f"the router {name} drops alerts that match none of its rules: add a last rule without a"
                " condition that sends them to an integration or suppresses them"
            )
            yield Finding("no_catch_all", "", f"router {name}", what)


def _has_catch_all(rules: Sequence[RouterRule]) -> bool:
    compiled = ((rule, _compile(rule.rule_json)) for rule in rules if rule.actions)
    return any(condition is not None and condition.logic is True for _, condition in compiled)


def _select_router_rules(account: Account) -> "peewee.ModelSelect[RouterRule]":
    query = RouterRule.select(RouterRule, GlobalRouter).join(GlobalRouter)
    found: peewee.ModelSelect[RouterRule] = query.where(
        GlobalRouter.account == account, GlobalRouter.is_enabled
    )
    return found
