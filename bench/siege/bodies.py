"""The costly bodies of the attacks: rules, alerts, groups of alerts and questions.

Each stays within the limits of the interface, so that it is not refused because of its size.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

from pipeline.rules.action_table import ACTIONS

_NUMBERS = {spec.name: number for number, spec in ACTIONS.items()}
# 480 KB of JSON each.
LIST = [0] * 235_000
TEXT = "".join(random.Random(1).choices("ax", k=470_000))
# The longest template that an action may have.
TEMPLATE = "{{payload.list[*].x}}" * 200
UNKNOWN_KEY = "00000000-0000-4000-8000-000000000000"


def build_rules() -> Iterator[dict[str, Any]]:
    """Yield the rules: 40 patterns, 20 conditions that read a long list, and 30 actions with templates."""
    for number in range(40):
        pattern = {"matches": [{"var": "payload.text"}, f"[ax]*a[ax]{{90}}b{number}"]}
        yield _build_rule(pattern, "matched")
    for number in range(20):
        some = {"some": [{"var": "payload.list"}, {"==": [{"var": ""}, number + 1]}]}
        yield _build_rule(some, "matched")
    yield _build_rule({}, *[TEMPLATE] * 30)


def _build_rule(condition: dict[str, Any], *texts: str) -> dict[str, Any]:
    names = ("change_summary", "change_message", "add_note")
    return {
        "rule_json": json.dumps(condition) if condition else "",
        "actions": [
            {"action_type": _NUMBERS[names[place % 3]], "value": text} for place, text in enumerate(texts)
        ],
    }


def build_alert(entity: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"message": entity, "alert_type": "critical", "entity_id": entity, "payload": payload}


def build_costly_alert(number: int) -> bytes:
    """Return an alert for the patterns or, every second time, for templates and conditions."""
    payload: dict[str, Any] = {"text": TEXT} if number % 2 else {"list": LIST}
    return json.dumps(build_alert(f"costly-{number}", payload), separators=(",", ":")).encode()


def build_question() -> bytes:
    """Return a body for rules/try with templates and a condition over a long list."""
    condition = {"some": [{"var": "payload.list"}, {"==": [{"var": ""}, 1]}]}
    rule = _build_rule({"or": [condition, True]}, *[TEMPLATE] * 30)
    return json.dumps({**rule, "payload": {"list": LIST, "message": "draft"}}).encode()


def build_simulation(integration: str) -> bytes:
    """Return a body for simulate: a costly alert, for the longest time."""
    alert = build_alert("simulated", {"list": LIST})
    return json.dumps({"integration": integration, "alert": alert, "for": 7 * 86_400}).encode()


def build_group(number: int, alerts: int) -> bytes:
    """Return a group of Alertmanager with critical alerts about new entities."""
    one = (
        '{"status":"firing","labels":{"alertname":"Down","severity":"critical","host":"h%d-%d"},'
        '"annotations":{"summary":"Host h%d-%d is down"},"startsAt":"2026-03-04T11:58:00Z",'
        '"endsAt":"0001-01-01T00:00:00Z","fingerprint":"group-%d-%d"}'
    )
    items = ",".join(one % ((number, place) * 3) for place in range(alerts))
    return f'{{"version":"4","status":"firing","groupKey":"siege","alerts":[{items}]}}'.encode()


def list_unknown_events() -> list[tuple[str, bytes]]:
    """Return paths of event APIs with bodies of 512 KiB, deep inside, whose keys nobody has."""
    deep = ",".join(["[" * 50 + "]" * 50] * 5_150)
    details = f'{{"message_type":"CRITICAL","routing_key":"{UNKNOWN_KEY}","payload":[{deep}]}}'.encode()
    # The same with an error at the end, so that no reader can stop early.
    return [
        ("/v2/enqueue", details),
        ("/v2/enqueue", details[:-1]),
        (f"/integrations/generic/20131114/alert/{UNKNOWN_KEY}/team", details),
    ]


def build_large_body(size: int) -> bytes:
    """Return a group of about this many bytes."""
    sample = len(build_group(0, 1_000)) / 1_000
    return build_group(0, int(size / sample))
