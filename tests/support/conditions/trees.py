"""Trees as the query builder sends them, and a second, simple evaluation of them.

`matches_tree` does not use JSON Logic and imports nothing from pipeline/. The tests compare the translation
with it.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from models.domain.enums import AlertType, Urgency
from pipeline.alert import Alert, ParsedAlert
from pipeline.rules.conditions import build_subject

# A Wednesday.
MOMENT = datetime(2026, 3, 4, 23, 30, 15, tzinfo=UTC)


def alert(**changes: Any) -> Alert:
    """Build a critical alert about a disk, with changes."""
    fields: dict[str, Any] = {
        "message": "Disk full on db1",
        "summary": "97% of /var",
        "alert_type": AlertType.CRITICAL,
        "entity_id": "disk/db1",
        "payload": {},
    }
    parsed = ParsedAlert(**fields | changes)
    return Alert("event", "trace", 1, 0, 1, MOMENT, parsed.entity_id or "", parsed)


def subject(seconds: float | None = None, urgency: Urgency = Urgency.HIGH, **changes: Any) -> Any:
    return build_subject(alert(**changes), urgency, MOMENT, seconds)


def rule(field: Any, operator: Any, *values: Any, **options: Any) -> dict[str, Any]:
    """Build a rule of a tree; `options` are its operatorOptions."""
    properties = {
        "field": field,
        "operator": operator,
        "value": list(values),
        "valueSrc": ["value" for _ in values],
        "operatorOptions": options or None,
        "valueType": ["text" for _ in values],
    }
    return {"type": "rule", "id": "r", "properties": properties, "path": ["g", "r"]}


def search(ploperator: str, path: str, *values: Any) -> dict[str, Any]:
    return rule("alert.payload", "payloadsearch", path, *values, ploperator=ploperator)


def group(*children: Any, conjunction: str = "AND", negated: bool = False) -> dict[str, Any]:
    return {
        "type": "group",
        "id": "g",
        "children1": {f"n{number}": child for number, child in enumerate(children)},
        "properties": {"conjunction": conjunction, "not": negated},
        "path": ["g"],
    }


NAMES: dict[str, list[str]] = {
    "alert_type": ["info", "warning", "error", "critical", "acknowledged", "resolved"],
    "urgency": ["low", "high"],
    "day_of_week": ["", "mon", "tue", "wed", "thu", "fri", "sat", "sun"],
}


def matches_tree(tree: dict[str, Any], alert: dict[str, Any]) -> bool:
    """Evaluate a tree of known fields and operators for an alert in plain Python."""
    if tree["type"] == "group":
        return _matches_group(tree, alert)
    properties = tree["properties"]
    field = properties["field"].removeprefix("alert.")
    operator, values = properties["operator"], properties["value"]
    if field == "payload":
        return _matches_payload(operator, values, properties["operatorOptions"] or {}, alert["payload"])
    if field in NAMES:
        return _matches(operator, alert[field], _list_codes(field, values))
    if field == "alert_time":
        return _matches(
            operator, _to_seconds(alert[field]), [_to_seconds(value) for value in values], wraps=True
        )
    return _matches(operator, alert[field], values)


def _matches_group(tree: dict[str, Any], alert: dict[str, Any]) -> bool:
    children = list(tree["children1"].values())
    if not children:
        return True
    combine = all if tree["properties"]["conjunction"] == "AND" else any
    return combine([matches_tree(child, alert) for child in children]) is not tree["properties"]["not"]


def _list_codes(field: str, values: list[Any]) -> list[str]:
    flat = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
    return [str(NAMES[field].index(each)) if each in NAMES[field] else str(each) for each in flat]


def _to_seconds(time: str) -> int:
    hours, minutes, seconds = (int(part) for part in f"{time}:00".split(":")[:3])
    return hours * 3600 + minutes * 60 + seconds


def _matches_payload(operator: str, values: list[Any], options: dict[str, Any], payload: Any) -> bool:
    found = [_to_text(value) for value in _find_values(payload, values[0].removeprefix("$.").split("."))]
    if operator == "key_exists":
        return bool(found)
    path_operator = options["ploperator"]
    if path_operator.startswith("not_") or path_operator == "is_empty":
        positive = {"is_empty": "is_not_empty"}.get(path_operator, path_operator.removeprefix("not_"))
        return not any(_matches(positive, text, values[1:]) for text in found)
    return any(_matches(path_operator, text, values[1:]) for text in found)


def _find_values(value: Any, steps: list[str]) -> list[Any]:
    if not steps:
        return [value]
    first, rest = steps[0], steps[1:]
    if first.endswith("[*]"):
        inner = value.get(first[:-3]) if isinstance(value, dict) else None
        return (
            [found for item in inner for found in _find_values(item, rest)] if isinstance(inner, list) else []
        )
    return _find_values(value[first], rest) if isinstance(value, dict) and first in value else []


def _to_text(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


PLAIN: dict[str, Callable[[Any, list[Any]], bool]] = {
    "equal": lambda mine, values: mine == values[0],
    "select_equals": lambda mine, values: mine == values[0],
    "select_any_in": lambda mine, values: mine in values,
    "like": lambda mine, values: values[0].lower() in mine.lower(),
    "contains": lambda mine, values: values[0].lower() in mine.lower(),
    "starts_with": lambda mine, values: mine.startswith(values[0]),
    "ends_with": lambda mine, values: mine.endswith(values[0]),
    "regex": lambda mine, values: re.search(values[0], mine) is not None,
    "is_not_empty": lambda mine, values: mine != "",
    "less": lambda mine, values: mine < values[0],
    "less_or_equal": lambda mine, values: mine <= values[0],
    "greater": lambda mine, values: mine > values[0],
    "greater_or_equal": lambda mine, values: mine >= values[0],
    "between": lambda mine, values: values[0] <= mine <= values[1],
}
OPPOSITES = {
    "not_equal": "equal",
    "select_not_equals": "equal",
    "select_not_any_in": "select_any_in",
    "not_like": "like",
    "not_contains": "contains",
    "not_starts_with": "starts_with",
    "not_ends_with": "ends_with",
    "not_regex": "regex",
    "is_empty": "is_not_empty",
    "not_between": "between",
}


def _matches(operator: str, mine: Any, values: list[Any], *, wraps: bool = False) -> bool:
    if operator in OPPOSITES:
        return not _matches(OPPOSITES[operator], mine, values, wraps=wraps)
    if operator == "between" and wraps and values[0] > values[1]:
        return mine >= values[0] or mine <= values[1]
    return PLAIN[operator](mine, values)
