"""A stored reason is a code with parameters. Its text is made when it is shown."""

import ast
from functools import cache
from pathlib import Path
from string import Formatter

import orjson
import pytest

from models.domain.reason_texts import ENGLISH
from models.domain.reasons import (
    Reason,
    describe,
    format_duration,
    from_json,
    make_reason,
    render,
    write_clause,
)

ROOT = Path(__file__).parents[3]
PACKAGES = ("models", "schedules", "pipeline", "workers", "web", "tocsin")
# The code of a text that has no code.
TEXT = "text"


def list_calls():
    """Return each call of make_reason in the product as (place, code, parameters)."""
    for path in sorted(one for package in PACKAGES for one in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "make_reason":
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                code = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
                yield place, code, frozenset(each.arg for each in node.keywords)


@cache
def load_calls():
    return list(list_calls())


def list_fields(text):
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name is not None)


def test_every_reason_has_a_text_with_exactly_its_parameters():
    wrong = [
        (place, code)
        for place, code, parameters in load_calls()
        if code not in ENGLISH or (None not in parameters and parameters != list_fields(ENGLISH[code]))
    ]

    assert len(load_calls()) > 100
    assert not wrong


def test_every_text_belongs_to_a_reason():
    assert set(ENGLISH) - {code for _, code, _ in load_calls()} == {TEXT}


def test_texts_are_sentences_or_named_as_parts():
    parts = {code for code, text in ENGLISH.items() if not text.endswith(".")}

    assert parts == {
        TEXT,
        "forwarded_person",
        "step",
        "step_of_pass",
        "deleted_contact",
        "own_address",
        "tags_unknown",
    } | {code for code, text in ENGLISH.items() if text.endswith("{error}")}


NESTED = make_reason(
    "step_notifies",
    step=make_reason("step", number=2, policy="Nights"),
    people=("Alice", make_reason("forwarded_person", person="Bob", receiver="Carol")),
).add(make_reason("late", ms=12))


def test_a_text_contains_lists_and_other_reasons():
    assert str(NESTED) == (
        "Escalation step 2 of policy Nights notifies Alice, Bob (forwarded to Carol)."
        " The timer was 12 ms late."
    )


def test_what_is_stored_is_read_back():
    assert from_json(orjson.loads(orjson.dumps(NESTED))) == NESTED


def test_a_text_of_a_person_is_no_template():
    assert str(describe("use {policy} and {0.real}")) == "use {policy} and {0.real}"
    assert str(make_reason("dropped", by="{by.__class__}")) == "Dropped by {by.__class__}."
    assert describe("") is None


def test_a_code_of_a_later_version_is_shown_with_its_parameters():
    assert str(Reason("flown_away", {"bird": "Owl", "height": 3})) == "flown_away: bird Owl, height 3"
    assert str(Reason("flown_away")) == "flown_away"


def test_another_language_needs_another_table_only():
    german = {"late": "Um {ms} ms verspätet.", "text": "{text}"}

    assert render(make_reason("late", ms=7), german) == "Um 7 ms verspätet."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (90, "1 min 30 s"),
        (7_500, "2 h 5 min"),
        (432_000, "5 d"),
        (90_061, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert format_duration(seconds) == text
    assert str(make_reason("open_too_long", within=seconds)).endswith(f"it was open for {text}.")


@pytest.mark.parametrize(
    ("reason", "clause"),
    [
        (make_reason("suppressed"), "the alert is suppressed: it is stored and opens no incident"),
        (make_reason("acknowledged", by="Bob"), "Bob had acknowledged"),
        (make_reason("acknowledged", by="an alert"), "an alert had acknowledged"),
        (make_reason("sla_acknowledge_missed", sla="Gold"), "SLA Gold: not acknowledged in time"),
        (make_reason("is_merged").add(make_reason("late", ms=7)), "the incident is merged into another one."
         " The timer was 7 ms late"),
        (describe("Ask Bob."), "Ask Bob"),
    ],
)  # fmt: skip
def test_a_reason_can_end_a_sentence(reason, clause):
    assert write_clause(reason) == clause


def test_a_sentence_begins_with_a_capital():
    assert str(make_reason("acknowledged", by="an alert")) == "An alert had acknowledged."


@pytest.mark.parametrize(("number", "text"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st")])
def test_a_pass_of_a_policy_has_an_ordinal_number(number, text):
    again = make_reason("policy_begins_again", policy="Nights", repeat=number, number=1)

    assert write_clause(again) == f"nobody has acknowledged; policy Nights begins again ({text} time), step 1"


def test_a_time_is_in_utc():
    snoozed = make_reason("snoozed", until="2026-03-04T13:00:00+01:00", by="Alice")

    assert str(snoozed) == "Snoozed until 2026-03-04 12:00:00 UTC by Alice."
