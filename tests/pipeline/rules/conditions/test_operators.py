"""Every field with every operator, as a tree and as JSON Logic that a person could write."""

import json
from typing import Any

import pytest

from pipeline.rules.conditions import Budget, catalogue, compile_rule, evaluate
from tests.support.conditions.trees import group, rule, search, subject
from tests.support.offenders import list_offenders

PAYLOAD = {
    "title": "Disk full on db1",
    "nothing": None,
    "blank": "",
    "labels": {"app.name": "shop"},
    "alerts": [{"host": "db1", "load": 3}, {"host": "db2", "up": True}],
}

# operator -> values and their verdicts for the text "Disk full on db1".
TEXT = {
    "equal": [(["Disk full on db1"], True), (["disk full on db1"], False), (["Disk"], False)],
    "like": [(["FULL"], True), (["db2"], False)],
    "starts_with": [(["Disk"], True), (["disk"], False)],
    "ends_with": [(["db1"], True), (["DB1"], False)],
    "regex": [(["db[0-9]$"], True), (["(?i)DISK"], True), (["^full"], False)],
    "is_not_empty": [([], True)],
}
# The same for an empty text.
EMPTY_TEXT = {
    "is_not_empty": [([], False)],
    "equal": [([""], True), (["x"], False)],
    "like": [(["x"], False)],
}

# field -> the same for an alert that is critical, urgent, on Wednesday, 2026-03-04 at 23:30:15 UTC, 600
# seconds after the last incident.
CHOICES = {
    "alert_type": ("3", "critical", ["0", "resolved"], ["warning", 3.0]),
    "urgency": ("1", "high", ["0"], ["low", 1]),
    "day_of_week": ("3", "wednesday", ["1", "sunday"], ["sat", "Wed"]),
}
ORDERED = {
    "alert_time": {
        "equal": [(["23:30:15"], True), ([84615], True), (["23:30"], False)],
        "less": [(["23:31"], True), (["23:30:15"], False)],
        "less_or_equal": [(["23:30:15"], True), (["9:00"], False), (["24:00"], True)],
        "greater": [(["23:30"], True), (["23:30:15"], False)],
        "greater_or_equal": [(["23:30:15"], True), ([84616], False), (["84600"], True)],
        "between": [
            (["23:00", "23:59"], True),
            (["08:00", "18:00"], False),
            (["22:00", "06:00"], True),
            (["23:45", "6:00"], False),
        ],
    },
    "alert_date": {
        "equal": [(["2026-03-04"], True), (["2026-03-05"], False), (["2026-03-04T00:00:00Z"], True)],
        "less": [(["2026-03-05"], True), (["2026-03-04"], False)],
        "less_or_equal": [(["2026-03-04"], True), (["2025-12-31"], False)],
        "greater": [(["2026-03-03"], True), (["2026-03-04"], False)],
        "greater_or_equal": [(["2026-03-04"], True), (["2026-04-01"], False)],
        "between": [(["2026-03-01", "2026-03-04"], True), (["2026-03-05", "2026-03-31"], False)],
    },
    "seconds_since_last": {
        "equal": [([600], True), (["600"], True), ([601], False)],
        "less": [([600.5], True), ([600], False)],
        "less_or_equal": [([600], True), (["599"], False)],
        "greater": [(["599"], True), ([600], False)],
        "greater_or_equal": [([600], True), ([601], False)],
        "between": [([600, 700], True), (["1", "2"], False)],
    },
}

ALIASES = {
    "equal": ["select_equals"],
    "like": ["contains"],
    "regex": ["regex_match", "regexp", "matches"],
    "is_not_empty": ["is_not_null"],
}
NEGATIVES = {
    "equal": ["not_equal", "select_not_equals"],
    "like": ["not_like", "not_contains"],
    "starts_with": ["not_starts_with"],
    "ends_with": ["not_ends_with"],
    "regex": ["not_regex", "not_regex_match", "regex_not_match", "not_regexp", "not_matches"],
    "is_not_empty": ["is_empty", "is_null"],
    "between": ["not_between"],
    "select_any_in": ["select_not_any_in"],
}

Case = tuple[str, str, str, list[Any], bool]


def list_cases(field: str, table: dict[str, list[tuple[list[Any], bool]]]) -> list[Case]:
    """(field, plain operator, operator, values, verdict) for all names of each operator."""
    return [
        (field, plain, name, values, verdict is positive)
        for plain, rows in table.items()
        for names, positive in (([plain, *ALIASES.get(plain, [])], True), (NEGATIVES.get(plain, []), False))
        for name in names
        for values, verdict in rows
    ]


def list_choice_cases() -> list[Case]:
    return [
        case
        for field, (code, name, other_codes, mixed) in CHOICES.items()
        for case in list_cases(
            field,
            {
                "equal": [([code], True), ([name], True), ([int(code)], True), ([other_codes[0]], False)],
                "select_any_in": [
                    ([[*other_codes, code]], True),
                    ([[*other_codes, name]], True),
                    ([other_codes], False),
                    ([mixed], True),
                    ([*other_codes, code], True),
                ],
            },
        )
    ]


CASES: list[Case] = [
    *list_choice_cases(),
    *(case for field, table in ORDERED.items() for case in list_cases(field, table)),
    *(case for field in ("message", "summary", "entity_id") for case in list_cases(field, TEXT)),
]


def describe(case: Case) -> str:
    field, _, name, values, _ = case
    return f"{field} {name} {values}"


def build_subject() -> Any:
    text = "Disk full on db1"
    return subject(600, message=text, summary=text, entity_id=text, payload=PAYLOAD)


def verdict(condition: Any, alert: Any = None) -> bool:
    found = evaluate(compile_rule(json.dumps(condition)), alert or build_subject(), Budget())
    assert found.note is None
    return found.matches


def test_an_operator_gives_its_verdict_in_a_tree():
    def check(case: Case) -> None:
        field, _, name, values, expected = case
        assert expected is verdict(group(rule(f"alert.{field}", name, *values)))
        assert expected is verdict(rule(field, name, *values))

    assert list_offenders(check, CASES, describe) == []


def build_logic(plain: str, read: Any, values: list[Any]) -> Any:
    """The condition as a person would write it in JSON Logic."""
    flat = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
    if plain == "between" and isinstance(flat[0], str) and ":" in flat[0] and flat[0] > flat[1]:
        return {"or": [{">=": [read, flat[0]]}, {"<=": [read, flat[1]]}]}
    signs = {"less": "<", "less_or_equal": "<=", "greater": ">", "greater_or_equal": ">="}
    return {
        "equal": lambda: {"==": [read, flat[0]]},
        "select_any_in": lambda: {"in": [read, flat]},
        "like": lambda: {"in": [{"lower": flat[0]}, {"lower": read}]},
        "starts_with": lambda: {"starts_with": [read, flat[0]]},
        "ends_with": lambda: {"ends_with": [read, flat[0]]},
        "regex": lambda: {"matches": [read, flat[0]]},
        "is_not_empty": lambda: {"!=": [read, ""]},
        "between": lambda: {"<=": [flat[0], read, flat[1]]},
    }.get(plain, lambda: {signs[plain]: [read, flat[0]]})()


def test_an_operator_gives_its_verdict_in_json_logic():
    def check(case: Case) -> None:
        field, plain, name, values, expected = case
        positive = expected is not any(name in names for names in NEGATIVES.values())
        for read in ({"var": field}, {"var": f"alert.{field}"}, {"val": ["alert", field]}):
            assert positive is verdict(build_logic(plain, read, values))
            assert positive is not verdict({"!": [build_logic(plain, read, values)]})

    assert list_offenders(check, CASES, describe) == []


def test_the_table_has_every_field_and_operator():
    tested = {(field, name) for field, _, name, _, _ in CASES}

    assert {(name, each) for name, field in catalogue.FIELDS.items() for each in field.operators} == tested


def test_an_operator_gives_its_verdict_on_an_empty_text():
    def check(case: Case) -> None:
        field, _, name, values, expected = case
        assert expected is verdict(rule(f"alert.{field}", name, *values), subject(message=""))

    assert list_offenders(check, list_cases("message", EMPTY_TEXT), describe) == []


PAYLOAD_CASES = list_cases("$.title", TEXT | {"select_any_in": [(["db2", "Disk full on db1"], True)]})


def test_an_operator_gives_its_verdict_on_a_value_of_the_payload():
    """The text is at a path, in a list, and in a payload that has it in two places."""

    def check(case: Case) -> None:
        path, _, name, values, expected = case
        assert expected is verdict(group(search(name, path, *values)))
        assert expected is verdict(search(name, "title", *values))
        assert expected is verdict(
            search(name, "$.alerts[*].title", *values), subject(payload={"alerts": [{}, PAYLOAD, 5]})
        )

    assert list_offenders(check, PAYLOAD_CASES, describe) == []


def test_the_payload_supports_every_operator():
    assert set(catalogue.PAYLOAD_OPERATORS) == {name for _, _, name, _, _ in PAYLOAD_CASES}


@pytest.mark.parametrize(
    ("ploperator", "path", "values", "expected"),
    [
        ("equal", "$.alerts[*].host", ["db2"], True),
        ("equal", "$.alerts[*].host", ["db3"], False),
        ("not_equal", "$.alerts[*].host", ["db2"], False),
        ("not_equal", "$.alerts[*].host", ["db3"], True),
        ("not_equal", "$.absent", ["db3"], True),
        ("equal", "$.alerts[0].load", ["3"], True),
        ("equal", "$.alerts[0].load", [3], True),
        ("equal", "$.alerts[1].up", ["true"], True),
        ("like", "$.alerts", ['"host":"DB2"'], True),
        ("equal", '$.labels["app.name"]', ["shop"], True),
        ("is_empty", "$.nothing", [], True),
        ("is_empty", "$.blank", [], True),
        ("is_empty", "$.absent", [], True),
        ("is_not_empty", "$.absent", [], False),
        ("equal", "$.absent", [""], False),
    ],
)
def test_absent_empty_and_nested_values_of_the_payload_are_compared(ploperator, path, values, expected):
    assert expected is verdict(search(ploperator, path, *values))


def test_a_payload_search_without_an_operator_means_equality():
    assert verdict(rule("alert.payload", "payloadsearch", "$.title", "Disk full on db1"))
    assert verdict(rule("payload", "not_equal", "$.title", "Disk full on db2"))


@pytest.mark.parametrize("operator", ["keysearch", "key_exists", "payload_key_search"])
def test_a_key_operator_finds_a_path_of_the_payload(operator):
    assert verdict(rule("alert.payload", operator, "$.nothing"))
    assert verdict(rule("alert.payload", operator, "alerts[*].load"))
    assert not verdict(rule("alert.payload", operator, "$.absent"))
    assert verdict(rule("alert.payload", f"not_{operator}", "$.absent"))


def test_json_logic_reads_the_payload():
    assert verdict({"==": [{"var": "payload.alerts.1.host"}, "db2"]})
    assert verdict({"==": [{"var": "alert.payload.title"}, "Disk full on db1"]})
    assert verdict({"some": [{"var": "payload.alerts"}, {"==": [{"var": "host"}, "db2"]}]})
    assert verdict({"exists": ["payload", "nothing"]})
    assert verdict({"missing": ["payload.absent"]})
    assert not verdict({"missing": ["payload.title"]})


def test_names_of_codes_are_converted_for_the_alert_and_not_for_items_of_its_payload():
    payload = {"alerts": [{"urgency": "high"}]}
    some = {"some": [{"var": "payload.alerts"}, {"==": [{"var": "urgency"}, "high"]}]}

    assert verdict(some, subject(payload=payload))


def test_an_alert_without_a_similar_incident_compares_as_long_ago():
    first = subject(None)

    assert not verdict(rule("alert.seconds_since_last", "less", 300), first)
    assert not verdict({"<": [{"var": "seconds_since_last"}, 300]}, first)
    assert verdict(rule("alert.seconds_since_last_similar_incident", "greater", 300), first)
    assert verdict({">": [{"var": "alert.seconds_since_last_incident"}, 300]}, first)
