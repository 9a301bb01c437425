"""A body that the reader of a tool does not know is a critical alert, never a quiet info."""

import json

import pytest

from models.domain.applications import KINDS
from models.domain.enums import AlertType, IntegrationType
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.unknown_form import guess, name_problem
from pipeline.sources.table import EVENT_APIS, OWN_FORMS, SOURCES
from tests.support.offenders import list_offenders
from tests.support.sources import list_fixtures

# The event APIs refuse such bodies, as the services do whose senders they take over.
REFUSING = {source.extension for source in EVENT_APIS}
TOOLS = sorted(
    kind
    for kind in SOURCES.keys() - OWN_FORMS - REFUSING
    if KINDS[kind].application_type is IntegrationType.ALERT
)

UNKNOWN = {
    "plugin": "our script",
    "when": "2026-03-01 02:14:05",
    "count": 7,
    "check": {"output": "Disk /var on db1 is 97% full since 02:14", "duration": 1.5},
}
REPEATED = {
    "plugin": "our script",
    "when": "2026-03-01 03:15:06",
    "count": 12,
    "check": {"output": "Disk /var on db1 is 98% full since 03:15", "duration": 99},
}
# The words of tools for levels, where nobody declared what they mean.
HARMLESS = (
    {"status": "ok"},
    {"state": "resolved"},
    {"severity": "info"},
    {"level": "low"},
    {"priority": "P5"},
)


def parse(kind, body):
    (alert,) = SOURCES[kind].parse(RequestBody(json.dumps(body).encode()))
    return alert


def codes(alert):
    return [reason.code for reason in alert.remarks]


def test_an_unknown_body_of_a_tool_is_critical_and_has_a_title_and_a_stable_entity():
    def check(kind):
        alert, repeated = parse(kind, UNKNOWN), parse(kind, REPEATED)

        assert (alert.alert_type, alert.suppressed, alert.has_default_level) == (
            AlertType.CRITICAL,
            False,
            True,
        )
        assert alert.message == "Disk /var on db1 is 97% full since 02:14"
        assert alert.entity_id == repeated.entity_id is not None
        assert alert.entity_from == "check.output"
        assert alert.payload == UNKNOWN
        assert {"title_guessed"} <= set(codes(alert))
        assert "other_form" in codes(alert) or alert.read_as_generic == kind
        assert SOURCES[kind].count(RequestBody(json.dumps(UNKNOWN).encode())) == 1

    assert len(TOOLS) > 25
    assert list_offenders(check, TOOLS) == []


def test_no_word_in_an_unknown_body_makes_it_quiet():
    def check(kind):
        assert {parse(kind, {**UNKNOWN, **words}).alert_type for words in HARMLESS} == {AlertType.CRITICAL}
        assert parse(kind, {}).alert_type is AlertType.CRITICAL

    assert list_offenders(check, [kind for kind in TOOLS if kind != "prometheus"]) == []


def test_a_body_in_the_generic_form_keeps_its_level_and_is_critical_without_one():
    def check(kind):
        quiet = parse(kind, {"message": "Disk full", "alert_type": "info", "entity_id": "d"})
        loud = parse(kind, {"message": "Disk full"})

        assert (quiet.alert_type, quiet.entity_id, quiet.entity_from) == (AlertType.INFO, "d", "")
        assert (loud.alert_type, loud.message) == (AlertType.CRITICAL, "Disk full")

    assert list_offenders(check, TOOLS) == []


def test_the_fixtures_of_all_tools_are_read_as_before():
    def check(fixture):
        assert not {"other_form", "title_guessed"} & {code for one in fixture.parse() for code in codes(one)}

    assert list_offenders(check, [one for one in list_fixtures() if one.kind in TOOLS]) == []


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ({"name": "db1", "title": "CPU high"}, "CPU high"),
        ({"name": "CPU high", "description": "long"}, "CPU high"),
        ({"message": "long", "alert": {"title": "CPU high"}}, "CPU high"),
        ({"message": "CPU high", "user": {"name": "Bob"}}, "CPU high"),
        ({"message": "CPU high", "dashboard": {"title": "Ops"}}, "CPU high"),
        ({"AlertName": "CPU high"}, "CPU high"),
        ({"alert-name": "CPU high"}, "CPU high"),
        ({"alerts": [{"labels": {}, "alertname": "CPU high"}]}, "CPU high"),
        ({"data": {"essentials": {}, "alertRule": "CPU high"}}, "CPU high"),
        ({"watch_id": "w", "payload": {"reason": "CPU high"}}, "CPU high"),
        ({"title": "https://example.org/1", "text": "CPU high"}, "CPU high"),
        ({"title": "17", "text": "CPU high"}, "CPU high"),
        ({"foo": "a", "bar": {"baz": "CPU is high"}}, "CPU is high"),
        ({"foo": 1, "title": None, "name": [], "message": {}}, ""),
    ],
)
def test_the_title_is_the_first_useful_text(body, title):
    assert guess(body).title == title


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"title": "CPU", "alert_id": 7, "event_id": "x1"}, ["7"]),
        ({"title": "CPU", "ruleId": "r", "hostName": "db1"}, ["r", "db1"]),
        ({"title": "CPU", "id": "x", "monitor": {"id": 9}}, ["9"]),
        ({"title": "CPU", "id": "x", "event": {"id": 9}}, ["x"]),
        ({"title": "CPU", "monitor": {"id": 9}}, ["9"]),
        ({"title": "CPU", "user": {"id": 9}}, ["cpu"]),
        ({"title": "CPU", "host": "db1", "service": "Disk"}, ["cpu", "db1", "Disk"]),
        ({"title": "CPU", "notification_id": 1, "request_id": 2, "uuid": "3"}, ["cpu"]),
        ({"b": 1, "a": 2}, ["a b"]),
    ],
)
def test_what_names_the_problem_stays_the_same_while_it_fires(body, names):
    assert guess(body).names == names


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("CPU at 97% on web-1", "CPU at 98.5% on web-1"),
        ("Job failed at 2026-03-01T02:14:05Z", "Job failed at 2026-03-02T12:00:00Z"),
        ("Job failed on 01/03/2026 02:14", "Job failed on 02/03/2026 12:00"),
        ("Backup failed, Mon, 2 Mar 2026 02:14:05 +0100", "Backup failed, Tue, 3 Mar 2026 02:14:05 +0100"),
        ("Response took 350ms", "Response took 1,200 ms"),
        ("12 jobs wait for 3 hours", "7 jobs wait for 25 minutes"),
        (
            "Request 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed",
            "Request 11111111-4f89-11d3-9a0c-0305e82c3301 failed",
        ),
        ("Free: 3.2 GB (4 %)", "Free: 900MB (1 %)"),
        ("[#17] Queue full", "[#18] Queue full"),
    ],
)
def test_times_and_counters_of_a_title_name_no_problem(first, again):
    assert name_problem(first) == name_problem(again)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("CPU high on web-1", "CPU high on web-2"),
        ("db1 is down", "db2 is down"),
        ("No ping from 10.0.0.1", "No ping from 10.0.0.2"),
        ("i-0abc12 has no network", "i-0abc13 has no network"),
        ("eth0: no carrier", "eth1: no carrier"),
        ("Certificate of a.example.org expires in 7 days", "Certificate of b.example.org expires in 7 days"),
        ("404", "500"),
    ],
)
def test_names_with_digits_name_their_problem(first, other):
    assert name_problem(first) != name_problem(other)


@pytest.mark.parametrize(
    "text", ["1" * 100_000, "1.1" * 50_000, "a1-" * 50_000, "0:0" * 50_000, " 1" * 50_000]
)
def test_a_hostile_title_needs_little_work(text):
    for _ in range(50):
        guess({"title": text, **{f"field{number}": {"a": text} for number in range(100)}})
