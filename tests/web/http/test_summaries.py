"""The summaries of operations: English, and no two alike."""

from collections import Counter

import pytest

from tests.support.offenders import list_offenders
from web.http.openapi import summaries
from web.routes import ROUTES

DOCUMENTED = [route for route in ROUTES if route.documented]
# Method -> the words with which summaries begin. They say what the request does.
WORDS = {
    "GET": {"Get", "List", "Accept"},
    "POST": {
        "Accept", "Assign", "Count", "Create", "Give", "Invite", "List", "Merge", "Remove", "Replace",
        "Replay", "Send", "Separate", "Simulate", "Snooze", "Try", "Undo", "Verify",
    },
    "PUT": {"Update", "Move"},
    "PATCH": {"Update"},
    "DELETE": {"Delete", "End", "Replace"},
}  # fmt: skip
LIMIT = 85


def test_a_summary_begins_with_a_known_verb_and_is_one_short_phrase():
    def check(route):
        assert route.summary.partition(" ")[0] in WORDS[route.method]
        assert len(route.summary) <= LIMIT
        assert not set(".;:") & set(route.summary)

    assert list_offenders(check, DOCUMENTED, lambda route: f"{route.method} {route.path}") == []


def test_no_two_operations_have_the_same_summary():
    counted = Counter(route.summary for route in DOCUMENTED)

    assert [summary for summary, count in counted.items() if count > 1] == []


def test_the_other_sentences_of_an_operation_end_with_a_period():
    assert [route.details for route in DOCUMENTED if route.details and not route.details.endswith(".")] == []


@pytest.mark.parametrize(
    ("verb", "noun", "summary"),
    [
        ("index", "maintenance window", "List maintenance windows"),
        ("index", "escalation policy", "List escalation policies"),
        ("index", "rule of a global router", "List rules of a global router"),
        ("index", "SLA", "List SLAs"),
        ("create", "SLA", "Create an SLA"),
        ("create", "user", "Create a user"),
        ("retrieve", "incident note", "Get an incident note"),
        ("update", "service", "Update a service"),
        ("change", "service", "Update some fields of a service"),
        ("destroy", "alert rule", "Delete an alert rule"),
    ],
)
def test_an_operation_of_a_resource_is_summarized(verb, noun, summary):
    assert summaries.summarize(verb, noun) == summary


def test_a_docstring_becomes_a_summary_and_sentences():
    text = """Move a rule. The others move by one.

    Nobody is notified.
    """

    assert summaries.split(text) == ("Move a rule", "The others move by one. Nobody is notified.")
