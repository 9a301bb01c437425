"""What every source must do, over the table of sources: each kind gives its fixtures."""

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.domain.enums import AlertType
from models.domain.values import list_fields, replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import NORMALIZERS, SOURCES
from tests.support.offenders import list_offenders
from tests.support.scenarios.combinations import count_examples
from tests.support.sources import FACTS, ORIGINS, build_request, list_fixtures, list_kinds, load

NATIVE = [source.extension for source in NORMALIZERS]
# Sources without levels of the sender: pings are one entity, and the level is in the URL.
FIXED_LEVELS = {"generic", "heartbeat", "httphealthcheck"}
# Alerts without a status: they end at the time that they say, if they are not sent again.
ENDED_BY_TIME = {"alertmanager"}
# ElastAlert reports nothing but problems.
WITHOUT_RESOLVE = {"elastalert", "graylog"} | ENDED_BY_TIME
# All pings of an integration are about one entity.
WITHOUT_OTHER = {"heartbeat"}
# The bodies have no field for the time of the problem. Zabbix 6.0 has no macro for it.
WITHOUT_TIME = {"opsgenie", "oncall", "zabbix", "librenms", "dynatrace", "nodeping", "statuscake", "prtg"}

FIXTURES = list_fixtures()
# The same problem fires and repeats, also in other forms of the same tool: legacy_fires, legacy_repeats ...
REPEATED = [one for one in FIXTURES if one.name.endswith("repeats")]
RESOLVED = [one for one in FIXTURES if one.name.endswith("resolves")]

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def describe(fixture):
    return f"{fixture.kind}-{fixture.name}"


def fires(fixture):
    """Return the fixture of the same problem when it began."""
    return load(fixture.kind, fixture.name.replace("repeats", "fires").replace("resolves", "fires"))


def codes(alert):
    return [reason.code for reason in alert.remarks]


def test_every_source_has_its_fixtures():
    names = {kind: {one.name for one in FIXTURES if one.kind == kind} for kind in NATIVE}
    required = {
        kind: {"fires", "repeats"}
        | ({"resolves"} if kind not in WITHOUT_RESOLVE else set())
        | ({"other"} if kind not in WITHOUT_OTHER else set())
        | ({"unknown_level"} if kind not in FIXED_LEVELS else set())
        for kind in NATIVE
    }
    assert {kind: required[kind] - names[kind] for kind in NATIVE if required[kind] - names[kind]} == {}


def test_a_fixture_names_its_origin():
    def check(fixture):
        mark, _, rest = fixture.origin.partition(": ")
        assert mark in ORIGINS
        assert rest
        if mark == "real":
            assert re.search(r"^\w+ \d+\.\d+", rest), "name the tool and its version"

    assert list_offenders(check, FIXTURES, describe) == []


def test_a_problem_has_the_same_entity_id_when_it_repeats():
    def check(fixture):
        first, again = fires(fixture).parse_one(), fixture.parse_one()

        assert again.entity_id == first.entity_id
        assert first.entity_id
        assert AlertType.RESOLVED not in (first.alert_type, again.alert_type)

    assert list_offenders(check, REPEATED, describe) == []


def test_a_problem_has_the_same_entity_id_when_it_is_resolved():
    def check(fixture):
        first, end = fires(fixture).parse_one(), fixture.parse_one()

        assert (end.entity_id, end.alert_type) == (first.entity_id, AlertType.RESOLVED)

    assert list_offenders(check, RESOLVED, describe) == []


@pytest.mark.parametrize("kind", sorted(ENDED_BY_TIME))
def test_an_alert_without_a_status_says_when_it_ends(kind):
    first, end = load(kind, "fires").parse_one(), load(kind, "ends").parse_one()

    assert (end.entity_id, end.is_resent) == (first.entity_id, True)
    assert end.ends_at > first.ends_at


def test_two_problems_have_two_entity_ids():
    def check(fixture):
        first = load(fixture.kind, fixture.name.replace("other", "fires"))

        assert fixture.parse_one().entity_id != first.parse_one().entity_id

    assert list_offenders(check, [one for one in FIXTURES if one.name.endswith("other")], describe) == []


@pytest.mark.parametrize("kind", list_kinds("acknowledges"))
def test_an_acknowledgement_of_the_tool_is_one(kind):
    alert = load(kind, "acknowledges").parse_one()

    assert alert.alert_type is AlertType.ACKNOWLEDGED
    assert alert.entity_id == load(kind, "fires").parse_one().entity_id


@pytest.mark.parametrize("kind", list_kinds("note"))
def test_a_note_of_the_tool_opens_and_resolves_nothing(kind):
    alert = load(kind, "note").parse_one()

    assert (alert.alert_type, alert.suppressed) == (AlertType.INFO, True)


def test_an_unknown_level_is_critical_and_the_reason_says_so():
    def check(kind):
        alert = load(kind, "unknown_level").parse_one()

        assert (alert.alert_type, codes(alert)) == (AlertType.CRITICAL, ["level_unknown"])
        assert "weird" in str(alert.remarks[0]).lower() or "9" in str(alert.remarks[0])

    assert list_offenders(check, list_kinds("unknown_level")) == []


def test_the_time_of_the_source_is_kept():
    def check(kind):
        assert load(kind, "fires").parse_one().source_at.isoformat()[:13] == "2026-03-01T02"

    assert list_offenders(check, sorted(set(NATIVE) - FIXED_LEVELS - WITHOUT_TIME)) == []


@pytest.mark.parametrize("kind", sorted({*list_kinds("group"), "prometheus"}))
def test_a_bad_alert_of_a_group_does_not_lose_the_others(kind):
    if kind == "prometheus":
        body = load(kind, "fires").body
        alerts = build_group(body["alerts"][0])
        parsed = SOURCES[kind].parse(build_request(kind, {**body, "alerts": alerts}))
    else:
        parsed = load(kind, "group").parse()

    assert [codes(alert) for alert in parsed] == [[], ["alert_unreadable"], []]
    assert parsed[0].entity_id != parsed[2].entity_id
    assert parsed[1].alert_type is AlertType.CRITICAL


def test_a_bad_alert_pushed_to_the_api_of_alertmanager_is_not_stored_and_the_others_are():
    """The sender learns of it in the response; stored, it would fire again each minute."""
    (alert,) = load("alertmanager", "fires").body
    body = [alert, "not an alert", {**alert, "labels": {"alertname": "another"}}]
    parsed = SOURCES["alertmanager"].parse(build_request("alertmanager", body))

    assert [codes(one) for one in parsed] == [[], []]
    assert parsed[0].entity_id != parsed[1].entity_id


def build_group(alert):
    return [alert, "not an alert", {**alert, "fingerprint": "another"}]


def test_a_fixture_needs_no_generic_form():
    def check(kind):
        alert = load(kind, "fires").parse_one()

        assert (alert.read_as_generic, codes(alert)) == ("", [])
        assert alert.message
        assert alert.urls == tuple(link for link in alert.urls if link["link_url"].startswith("http"))

    assert list_offenders(check, NATIVE) == []


@pytest.mark.parametrize("kind", sorted(SOURCES))
@settings(max_examples=count_examples(40), deadline=None)
@given(value=ANY_JSON)
def test_any_json_is_alerts_or_a_refusal_that_names_the_field(kind, value):
    parse(kind, value)


@pytest.mark.parametrize("fixture", FIXTURES, ids=describe)
@settings(max_examples=count_examples(10), deadline=None)
@given(data=st.data())
def test_a_body_with_any_values_in_its_fields_is_read(fixture, data):
    parse(fixture.kind, spoil(fixture.body, data), fixture.headers)


def spoil(value, data):
    """Replace some values of a body, at any depth, with others of any type."""
    if isinstance(value, dict) and value:
        name = data.draw(st.sampled_from(sorted(value)))
        return {**value, name: spoil(value[name], data)}
    if isinstance(value, list) and value:
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], spoil(value[place], data), *value[place + 1 :]]
    return data.draw(ANY_JSON)


def parse(kind, value, headers=None):
    """Parse a body, which may only be refused with BadBody, and require alerts that can be stored."""
    source = SOURCES[kind]
    request = build_request(kind, value, headers)
    try:
        alerts = source.parse(request)
    except BadBody:
        return
    assert alerts
    assert source.count(build_request(kind, value, headers)) == len(alerts)
    for alert in alerts:
        stored = replace(alert, source_at=None, ends_at=None, remarks=(), refusal=None)
        json.dumps(
            {name: getattr(stored, name) for name in list_fields(ParsedAlert)}, allow_nan=False
        ).encode()
        assert all(at.tzinfo is not None for at in (alert.source_at, alert.ends_at) if at)


NO_OBJECTS = [b"", b"[1]", b"7", b"<xml/>", b'{"a":']


def test_a_body_that_is_no_object_is_refused():
    def check(case):
        kind, text = case
        request = RequestBody(text, None, FACTS["json"])

        with pytest.raises(BadBody):
            SOURCES[kind].parse(request)

    assert list_offenders(check, itertools.product(set(NATIVE) - {"heartbeat"}, NO_OBJECTS)) == []
