"""Build alert rules, and alerts of about 900 bytes, as facts and values of the pipeline."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import cycle, islice

import msgspec

from bench.traffic import ENTITY, GENERIC
from models.domain.enums import RuleType, Urgency
from models.domain.facts import (
    AlertRuleFacts,
    IntegrationFacts,
    LaneFacts,
    OnCallConfig,
    Reference,
    ReferenceMap,
    References,
    ServiceFacts,
)
from pipeline.alert import Alert
from pipeline.rules.action_table import ACTIONS
from pipeline.rules.actions import Action
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import RequestBody
from pipeline.stages.normalize import build_alert

INTEGRATION = 7
ACCEPTED_AT = datetime(2026, 3, 4, 12, tzinfo=UTC)

_NUMBERS = {spec.name: spec.number for spec in ACTIONS.values()}


def _build_action(name: str, value: str = "") -> Action:
    return {"action_type": _NUMBERS[name], "key": "", "value": value}


# Typical actions of a rule. They change nothing that a condition below reads, except the message.
TYPICAL_ACTIONS = (
    _build_action("assign_priority", "p1"),
    _build_action("change_urgency", "0"),
    _build_action("add_note", "Disk of {{payload.host}}, see {{payload.runbook}}"),
    _build_action("add_tags", "production"),
    _build_action("assign_sla", "gold"),
    _build_action("change_message", "Disk 93% full on {{payload.host}}"),
    _build_action("delay_notifications", "60"),
)
SUPPRESS = _build_action("suppress")


def _read(name: str) -> Mapping[str, str]:
    return {"var": name}


def _search(path: str, value: str) -> Mapping[str, object]:
    """Return a search of the payload, as the query builder writes it."""
    properties = {
        "field": "alert.payload",
        "operator": "payloadsearch",
        "value": [path, value],
        "operatorOptions": {"ploperator": "equal"},
    }
    return {"type": "group", "children1": [{"type": "rule", "properties": properties}]}


# Conditions of usual kinds that match each alert.
MATCHING: tuple[Mapping[str, object], ...] = (
    {"==": [_read("alert_type"), "critical"]},
    {"in": ["full", _read("message")]},
    {"matches": [_read("summary"), "postgresql has [0-9]+ GiB"]},
    _search("$.labels.team", "payments"),
    {
        "and": [
            {"==": [_read("payload.labels.env"), "production"]},
            {">": [_read("payload.values.used_bytes"), 1_000_000_000]},
        ]
    },
    {"or": [{"==": [_read("urgency"), "high"]}, {"!=": [_read("payload.host"), "db2"]}]},
)


def _build_rule(number: int, condition: Mapping[str, object] | None, action: Action) -> AlertRuleFacts:
    rule_json = msgspec.json.encode(condition).decode() if condition else ""
    return AlertRuleFacts(f"rule-{number}", f"Rule {number}", rule_json, RuleType.ALL, (), (action,))


def build_plain_rules(count: int) -> tuple[AlertRuleFacts, ...]:
    """Build rules without a condition: each matches each alert."""
    actions = islice(cycle((*TYPICAL_ACTIONS, SUPPRESS)), count)
    return tuple(_build_rule(number, None, action) for number, action in enumerate(actions))


def build_matching_rules(count: int) -> tuple[AlertRuleFacts, ...]:
    """Build rules with conditions of usual kinds, which match each alert."""
    pairs = zip(cycle(MATCHING), islice(cycle((*TYPICAL_ACTIONS, SUPPRESS)), count), strict=False)
    return tuple(_build_rule(number, *pair) for number, pair in enumerate(pairs))


def build_selective_rules(count: int, matching: int) -> tuple[AlertRuleFacts, ...]:
    """Build rules that each name a host; `matching` of them, at equal distances, name the host of the alerts.

    Every second rule searches the payload, as the query builder writes it; the others compare a variable.
    """
    distance = count // matching
    hosts = ("db1.example.org" if number % distance == 0 else f"web{number}" for number in range(count))
    return tuple(
        _build_rule(
            number,
            _search("$.host", host) if number % 2 else {"==": [_read("payload.host"), host]},
            TYPICAL_ACTIONS[number // distance % len(TYPICAL_ACTIONS)],
        )
        for number, host in enumerate(hosts)
    )


def build_facts(rules: tuple[AlertRuleFacts, ...]) -> LaneFacts:
    """Build a service with one integration, which has these rules."""
    return LaneFacts(
        ServiceFacts(row=1, unique_id="service", name="Checkout", account=1, team=1),
        {INTEGRATION: IntegrationFacts(INTEGRATION, "integration", "Probe", 1, Urgency.HIGH)},
        OnCallConfig(),
        References(
            slas=ReferenceMap({"gold": Reference(1, "Gold")}),
            priorities=ReferenceMap({f"p{row}": Reference(row, f"P{row}") for row in range(1, 6)}),
            tags=ReferenceMap({"production": Reference(1, "production"), "staging": Reference(2, "staging")}),
        ),
        rules={INTEGRATION: rules} if rules else {},
    )


def build_alerts(count: int, entities: int) -> list[Alert]:
    """Build alerts as the generic webhook reads them, of a number of entities in turn."""
    alerts = []
    for number in range(count):
        body = GENERIC.replace(ENTITY, b"entity-%d" % (number % entities))
        (parsed,) = generic.parse(RequestBody(body))
        alerts.append(
            build_alert(f"00000000-0000-4000-8000-{number:012d}", number, 0, INTEGRATION, ACCEPTED_AT, parsed)
        )
    return alerts
