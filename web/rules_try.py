"""Trying a draft of an alert rule on a pasted payload or on an alert of the past: nothing is written."""

import time
from datetime import datetime
from typing import Any

import msgspec
import peewee
from marshmallow import fields, validate

from models.applications import APPLICATIONS
from models.enums import RuleType, Urgency
from models.events import Event, Receipt
from models.facts import AlertRuleFacts, Directory, IntegrationFacts, LaneFacts, ServiceFacts
from models.ids import new_uuid
from models.loading import lane_facts
from models.services import Integration, Service
from models.teams import Team
from pipeline import actions, wishes
from pipeline.alert import Alert, Parsed
from pipeline.conditions import Compiled, Subject, Verdict, evaluate, subject_of, trace
from pipeline.routing import read_by
from pipeline.rulesets import RuleSet, shown_value
from pipeline.sources import SOURCES, generic
from pipeline.sources.body import BadBody
from pipeline.stages.normalize import identified
from web import access, alert_rules, wire
from web.auth import now, viewer
from web.errors import BadRequest, NotFound, bad
from web.rule_actions import ActionShape
from web.shapes import AskedMoment, Choice, Flag, Number, Part, Reference, RuleJson, Several, Shape, Text

# A condition is looked at in so many steps, or for so long, whichever is less.
MOST_STEPS = 200
TRACE_S = 1.0
# A step that reads everything shows so many of its values.
MOST_READ = 50


# Nothing said is no error.
SOURCE = validate.OneOf([*SOURCES, ""], error=f"Must be one of: {', '.join(SOURCES)}.")


class TryShape(Shape):
    """A draft, and what to try it on: either `payload`, which is read as a body for `source` (generic
    unless it is said), or `alert`, an alert of the past as it came in. The draft may refer to what the team
    of `integration` has, which is the alert's own unless it is said. `at` is when the alert is taken to
    come, now if that is not said; `seconds_since_last` how long ago the last similar incident was over."""

    rule_json = RuleJson()
    rule_type = Choice(RuleType)
    conditions = Several(Part(alert_rules.ConditionShape), most=alert_rules.MOST_CONDITIONS)
    actions = Several(Part(ActionShape), most=alert_rules.MOST_ACTIONS)
    payload = fields.Dict(allow_none=True)
    source = Text(limit=64, validate=SOURCE)
    alert = Text(limit=64)
    integration = Reference()
    at = AskedMoment()
    seconds_since_last = fields.Float(
        allow_none=True, allow_nan=False, validate=validate.Range(min=0, max=1e10)
    )


class TriedStepShape(Shape):
    depth = Number(dump_only=True)
    logic = Text(dump_only=True)
    matches = Flag(dump_only=True)
    note = Text(dump_only=True, allow_none=True)
    read = fields.Dict(dump_only=True)


class TriedActionShape(Shape):
    action_type = Number(dump_only=True)
    before = Text(dump_only=True, allow_none=True, data_key="from")
    to = Text(dump_only=True, allow_none=True)
    note = Text(dump_only=True, allow_none=True)


class TriedShape(Shape):
    """`logic` is the condition as JSON Logic; `read` are the values that it looked at, null for what the
    alert does not have. `trace` has a step for each part of the condition; `actions` are what a match would
    change."""

    matches = Flag(dump_only=True)
    note = Text(dump_only=True, allow_none=True)
    read = fields.Dict(dump_only=True)
    logic = Text(dump_only=True)
    trace = Several(fields.Nested(TriedStepShape), dump_only=True)
    trace_is_cut = Flag(dump_only=True)
    actions = Several(fields.Nested(TriedActionShape), dump_only=True)


TRY = TryShape()
TRIED = TriedShape()


def attempt() -> dict[str, Any]:
    """Try a draft of an alert rule on a payload or an alert; nothing is written and nobody is told."""
    draft = wire.body()
    if bool(draft.get("alert")) == (draft.get("payload") is not None):
        bad("payload", "Give either a payload or an alert.")
    event = _event(draft["alert"]) if draft.get("alert") else None
    named = draft.get("integration")
    integration = _integration(named) if named else event.integration if event else None
    rule = _rule(draft, integration)
    condition = alert_rules.compiled(rule.rule_json, rule.rule_type, rule.conditions)
    facts = lane_facts(integration.service, draft.get("at"), rule) if integration else NOWHERE
    at, since = draft.get("at") or now(), draft.get("seconds_since_last")
    alert = _alert(draft, event, integration, at)
    alert, _ = wishes.planned(alert, facts.nameable)
    subject = subject_of(alert, actions.urgency_of(alert, facts), at, since)
    verdict = evaluate(condition, subject)
    steps, is_cut = _trace(condition, subject)
    return {
        **_told(verdict),
        "logic": msgspec.json.encode(condition.logic).decode(),
        "trace": steps,
        "trace_is_cut": is_cut,
        "actions": _acted(rule, alert, facts, at, since) if verdict.matches else [],
    }


def _event(unique_id: str) -> Event:
    """An alert that the viewer may see; what belongs to no service is for owners and admins."""
    joined = Event.select(Event, Receipt, Integration, Service, Team).join(Receipt)
    joined = joined.join_from(Event, Integration, peewee.JOIN.LEFT_OUTER)
    joined = joined.join(Service, peewee.JOIN.LEFT_OUTER).join(Team, peewee.JOIN.LEFT_OUTER)
    event: Event | None = joined.where(
        Receipt.account == viewer().account, Event.unique_id == unique_id
    ).first()
    if event is None:
        raise NotFound
    if event.integration is not None:
        access.require(viewer(), event.integration.service.team_id)
    elif not viewer().is_admin:
        raise NotFound
    return event


def _integration(unique_id: str) -> Integration:
    joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
    found: Integration = access.find(
        joined.where(Team.account == viewer().account), Integration.unique_id, unique_id
    )
    access.require(viewer(), found.service.team_id)
    return found


def _rule(draft: dict[str, Any], integration: Integration | None) -> AlertRuleFacts:
    team = integration.service.team if integration else None
    rule = alert_rules.checked_rule({"conditions": [], "actions": [], **draft}, team)
    return AlertRuleFacts(
        unique_id="",
        rule_json=rule.get("rule_json", ""),
        rule_type=RuleType(rule.get("rule_type", RuleType.ALL)),
        conditions=tuple(rule["conditions"]),
        actions=tuple(rule["actions"]),
    )


# Stands for the place of an alert that comes to no integration.
NOWHERE = LaneFacts(
    ServiceFacts(row=0, unique_id="", name="", account=0, team=0),
    {0: IntegrationFacts(0, "", "", 0, Urgency.HIGH)},
    Directory(),
)


def _alert(
    draft: dict[str, Any], event: Event | None, integration: Integration | None, at: datetime
) -> Alert:
    row = integration.id if integration else 0
    if event is None:
        return identified(new_uuid(), 0, 0, row, at, _pasted(draft))
    receipt = event.receipt
    return identified(receipt.trace_id, receipt.id, event.position, row, at, _as_it_came(event))


def _pasted(draft: dict[str, Any]) -> Parsed:
    """The first alert of what was pasted; a generic one may lack what an alert must have."""
    source = draft.get("source") or generic.EXTENSION
    try:
        body = msgspec.json.encode(draft["payload"])
    except RecursionError:
        bad("payload", "is nested too deeply")
    try:
        return generic.any_form(body) if source == generic.EXTENSION else SOURCES[source].parse(body)[0]
    except BadBody as error:
        raise BadRequest({_within_payload(name): problem for name, problem in error.errors.items()}) from None


def _within_payload(name: str) -> str:
    return "payload" if name == "body" else f"payload.{name}"


def _as_it_came(event: Event) -> Parsed:
    """An alert before any rule changed it: read again from the body that it came in."""
    receipt, body = event.receipt, bytes(event.receipt.body)
    try:
        if receipt.router_id and receipt.source == generic.EXTENSION and event.integration:
            target = APPLICATIONS[event.integration.application].extension
            return read_by(target, body)[event.position]
        return SOURCES[receipt.source].parse(body)[event.position]
    except (BadBody, KeyError, IndexError):
        return generic.any_form(body)


def _trace(condition: Compiled, subject: Subject) -> tuple[list[dict[str, Any]], bool]:
    """The steps of a condition, and whether there are more than there was time for."""
    steps: list[dict[str, Any]] = []
    until = time.thread_time() + TRACE_S
    for step in trace(condition, subject):
        if len(steps) == MOST_STEPS or time.thread_time() > until:
            return steps, True
        steps.append({"depth": step.depth, "logic": step.logic, **_told(step.verdict)})
    return steps, False


def _told(verdict: Verdict) -> dict[str, Any]:
    read = list(verdict.read.items())[:MOST_READ]
    return {
        "matches": verdict.matches,
        "note": verdict.note,
        "read": {name: shown_value(name, value) for name, value in read},
    }


def _acted(
    rule: AlertRuleFacts, alert: Alert, facts: LaneFacts, at: datetime, since: float | None
) -> list[dict[str, Any]]:
    """What each action would change, one upon the other."""
    (record,) = RuleSet([rule]).apply(alert, facts, at, lambda _: since).records
    return [
        {
            "action_type": action["action_type"],
            "before": done.get("from"),
            "to": done.get("to"),
            "note": done.get("note"),
        }
        for action, done in zip(rule.actions, record["actions"], strict=True)
    ]
