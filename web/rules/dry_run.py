"""Try a draft of an alert rule on a payload or on a past alert. Nothing is written."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import peewee
from marshmallow import fields, validate

from models.domain.enums import RuleType, Urgency
from models.domain.facts import AlertRuleFacts, IntegrationFacts, LaneFacts, OnCallConfig, ServiceFacts
from models.domain.reasons import Reason
from models.load.lane import load_lane
from models.load.source_setups import load_source_facts
from models.store.ids import make_uuid
from models.tables.events import Event, Receipt
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.alert import Alert, ParsedAlert, get_urgency
from pipeline.rules import requested_options
from pipeline.rules.conditions import (
    Budget,
    CompiledCondition,
    Subject,
    Verdict,
    build_subject,
    evaluate,
    list_unknown_parts,
    trace,
)
from pipeline.rules.records import format_value
from pipeline.rules.rulesets import Interrupted, RuleSet
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import SOURCES, STORED_SOURCES
from pipeline.stages.normalize import apply_default_level, build_alert, build_body
from pipeline.stages.route import parse_for_source
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit, start_client_check
from web.http.errors import BadRequest, NotFound, Unavailable, reject
from web.http.fields import (
    Boolean,
    Choice,
    List,
    Nested,
    Number,
    QueryMoment,
    Reference,
    RuleJson,
    Schema,
    Text,
    explain,
)
from web.rules import alert_rules
from web.rules.rule_actions import ACTION_NAMES, ActionSchema

CONCURRENCY = ConcurrencyLimit(2, "rules/try")
# Limits of a trace: the number of steps, and the CPU time in seconds.
MAX_STEPS = 200
MAX_TRACE_S = 1.0
# The largest number of values that a step shows; a step can read all values of an alert.
MAX_VALUES = 50


# "" means that the source is not given.
SOURCE = validate.OneOf([*SOURCES, ""], error=f"Must be one of: {', '.join(SOURCES)}.")


class DryRunSchema(Schema):
    """A draft of a rule, and the alert to try it on: either `payload` or `alert`."""

    rule_json = RuleJson()
    rule_type = Choice(RuleType, metadata=explain("How many of `conditions` must match; default: 0."))
    conditions = List(
        Nested(alert_rules.ConditionSchema),
        max_items=alert_rules.MAX_CONDITIONS,
        metadata=explain("Conditions in addition to `rule_json`."),
    )
    actions = List(
        Nested(ActionSchema), max_items=alert_rules.MAX_ACTIONS, metadata=explain("The actions of the draft.")
    )
    payload = fields.Dict(
        allow_none=True, metadata=explain("A body as `source` sends it, instead of `alert`.")
    )
    source = Text(
        limit=64,
        validate=SOURCE,
        metadata=explain("The application that sends such a body; default: `generic`."),
    )
    alert = Text(
        limit=64,
        metadata=explain("The unique_id of a past alert, instead of `payload`. It is used as it arrived."),
    )
    integration = Reference(
        metadata=explain(
            "The unique_id of the integration whose team's objects the draft may name; default: that"
            " of the alert."
        )
    )
    at = QueryMoment(metadata=explain("The assumed time of arrival; default: now."))
    seconds_since_last = fields.Float(
        allow_none=True,
        allow_nan=False,
        validate=validate.Range(min=0, max=1e10),
        metadata=explain("The assumed seconds since the last similar incident; null: there was none."),
    )


class ConditionStepSchema(Schema):
    depth = Number(dump_only=True, metadata=explain("How deep the part is nested, from 0."))
    logic = Text(dump_only=True, metadata=explain("This part of the condition, as JSON Logic."))
    matches = Boolean(dump_only=True, metadata=explain("Whether this part matches."))
    note = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("Why this part could not match, or what in it is unknown; null: nothing to say."),
    )
    read = fields.Dict(
        dump_only=True,
        metadata=explain("The values that this part read, by name; null: the alert has no such value."),
    )


class ActionResultSchema(Schema):
    action_type = Choice(names=ACTION_NAMES, dump_only=True, metadata=explain("The action."))
    before = Text(
        dump_only=True,
        allow_none=True,
        data_key="from",
        metadata=explain("The value before the action; null: none."),
    )
    to = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The value after the action; null: nothing changed."),
    )
    note = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("Why the action changed nothing, or not everything; null: it changed all."),
    )


class DryRunResultSchema(Schema):
    """The result of a try."""

    matches = Boolean(dump_only=True, metadata=explain("Whether the rule matches."))
    note = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain(
            "Why the condition could not match, or what in it is unknown; null: nothing to say."
        ),
    )
    read = fields.Dict(
        dump_only=True,
        metadata=explain("The values that the condition read, by name; null: the alert has no such value."),
    )
    logic = Text(dump_only=True, metadata=explain("The whole condition, as JSON Logic."))
    trace = List(
        fields.Nested(ConditionStepSchema),
        dump_only=True,
        metadata=explain("A step for each part of the condition."),
    )
    trace_is_truncated = Boolean(dump_only=True, metadata=explain("true: `trace` has not all steps."))
    actions = List(
        fields.Nested(ActionResultSchema),
        dump_only=True,
        metadata=explain("The changes by the actions; empty if the rule does not match."),
    )
    warnings = List(
        Text(), dump_only=True, metadata=explain("What the condition reads and no alert has, as sentences.")
    )


DRY_RUN = DryRunSchema()
DRY_RUN_RESULT = DryRunResultSchema()


def run() -> dict[str, object]:
    """Try a draft of an alert rule on a payload or a past alert. Nothing is written or sent."""
    draft = serialization.read_body()
    if bool(draft.get("alert")) == (draft.get("payload") is not None):
        reject("payload", "Give either a payload or an alert.")
    event = _find_event(draft["alert"]) if draft.get("alert") else None
    integration_id = draft.get("integration")
    integration = (
        _find_integration(integration_id) if integration_id else event.integration if event else None
    )
    rule = _build_rule(draft, integration)
    condition = alert_rules.compile_conditions(rule.rule_json, rule.rule_type, rule.conditions)
    facts = load_lane(integration.service, draft.get("at"), rule) if integration else NO_INTEGRATION
    at, since = draft.get("at") or now(), draft.get("seconds_since_last")
    with CONCURRENCY.acquire(viewer().account):
        # Large alerts cost the most here, so a refused request must not read its alert.
        alert = _build_alert(draft, event, integration, at)
        alert = apply_default_level(alert, facts.integrations[alert.integration].default_level)
        alert, _ = requested_options.apply_requested(alert, facts.references)
        subject = build_subject(alert, get_urgency(alert, facts), at, since)
        is_gone = start_client_check()
        steps, is_truncated = _trace_condition(condition, subject, is_gone)
        # With the index, as the pipeline does it: a search can exceed the budget there.
        try:
            records = RuleSet([rule], is_gone).apply(alert, facts, at, lambda _: since).records
        except Interrupted:
            # The client has left, so nobody reads this.
            raise Unavailable from None
        shown = {} if records else _show(evaluate(condition, subject, Budget()))
    record = records[0] if records else {}
    if record:
        read = list(record["read"].items())[:MAX_VALUES]
        shown = {"matches": record["matches"], "note": _show_note(record.get("note")), "read": dict(read)}
    return {
        **shown,
        "logic": msgspec.json.encode(condition.logic).decode(),
        "trace": steps,
        "trace_is_truncated": is_truncated,
        "actions": [
            {
                "action_type": action["action_type"],
                "before": done.get("from"),
                "to": done.get("to"),
                "note": _show_note(done.get("note")),
            }
            for action, done in zip(rule.actions, record.get("actions", ()), strict=False)
        ],
        "warnings": list_unknown_parts(condition),
    }


def _find_event(unique_id: str) -> Event:
    """Return the alert if the viewer may see it. Only owners and admins see alerts without a service.

    The result shows the text of the alert, so the viewer also needs the permission to read incidents.
    """
    joined = Event.select(Event, Receipt, Integration, Service, Team).join(Receipt)
    joined = joined.join_from(Event, Integration, peewee.JOIN.LEFT_OUTER)
    joined = joined.join(Service, peewee.JOIN.LEFT_OUTER).join(Team, peewee.JOIN.LEFT_OUTER)
    event: Event | None = joined.where(
        Receipt.account == viewer().account, Event.unique_id == unique_id
    ).first()
    if event is None:
        raise NotFound
    if event.integration is not None:
        for permission in (viewer().permission, "incident_read"):
            access.require_permission(viewer(), event.integration.service.team_id, permission)
    elif not viewer().is_admin:
        raise NotFound
    return event


def _find_integration(unique_id: str) -> Integration:
    joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
    found: Integration = access.find(
        joined.where(Team.account == viewer().account), Integration.unique_id, unique_id
    )
    access.require_permission(viewer(), found.service.team_id)
    return found


def _build_rule(draft: dict[str, Any], integration: Integration | None) -> AlertRuleFacts:
    team = integration.service.team if integration else None
    rule = alert_rules.check_rule({"conditions": [], "actions": [], **draft}, team)
    return AlertRuleFacts(
        unique_id="",
        rule_json=rule.get("rule_json", ""),
        rule_type=RuleType(rule.get("rule_type", RuleType.ALL)),
        conditions=tuple(rule["conditions"]),
        actions=tuple(rule["actions"]),
    )


# The facts for a draft without an integration.
NO_INTEGRATION = LaneFacts(
    ServiceFacts(row=0, unique_id="", name="", account=0, team=0),
    {0: IntegrationFacts(0, "", "", 0, Urgency.HIGH)},
    OnCallConfig(),
)


def _build_alert(
    draft: dict[str, Any], event: Event | None, integration: Integration | None, at: datetime
) -> Alert:
    row = integration.id if integration else 0
    if event is None:
        return build_alert(make_uuid(), 0, 0, row, at, _parse_payload(draft))
    receipt = event.receipt
    return build_alert(receipt.trace_id, receipt.id, event.position, row, at, _parse_original(event))


def _parse_payload(draft: dict[str, Any]) -> ParsedAlert:
    """Return the first alert of the payload. A generic payload may omit required fields."""
    source = draft.get("source") or generic.EXTENSION
    try:
        body = RequestBody(msgspec.json.encode(draft["payload"]))
    except RecursionError:
        reject("payload", "The payload is nested too deeply.")
    try:
        return generic.parse_any(body) if source == generic.EXTENSION else SOURCES[source].parse(body)[0]
    except BadBody as error:
        raise BadRequest({_prefix(name): problem for name, problem in error.errors.items()}) from None


def _prefix(name: str) -> str:
    return "payload" if name == "body" else f"payload.{name}"


def _parse_original(event: Event) -> ParsedAlert:
    """Parse an alert again from its receipt, to get it as it was before rules changed it."""
    receipt = event.receipt
    body = build_body(
        receipt.source,
        bytes(receipt.body),
        receipt.headers,
        lambda: load_source_facts(receipt.integration_id),
    )
    try:
        if receipt.router_id and receipt.source == generic.EXTENSION and event.integration:
            target = event.integration.application_reference.extension
            return parse_for_source(target, body)[event.position]
        return STORED_SOURCES[receipt.source].parse(body)[event.position]
    except (BadBody, KeyError, IndexError):
        return generic.parse_any(body)


def _trace_condition(
    condition: CompiledCondition, subject: Subject, is_gone: Callable[[], bool]
) -> tuple[list[dict[str, object]], bool]:
    """Return the steps of a condition, and whether the list is truncated."""
    steps: list[dict[str, Any]] = []
    until = time.thread_time() + MAX_TRACE_S
    for step in trace(condition, subject, Budget()):
        if len(steps) == MAX_STEPS or time.thread_time() > until or is_gone():
            return steps, True
        steps.append({"depth": step.depth, "logic": step.logic, **_show(step.verdict)})
    return steps, False


def _show(verdict: Verdict) -> dict[str, object]:
    read = list(verdict.read.items())[:MAX_VALUES]
    return {
        "matches": verdict.matches,
        "note": _show_note(verdict.note),
        "read": {name: format_value(name, value) for name, value in read},
    }


def _show_note(note: Reason | None) -> str | None:
    return None if note is None else str(note)
