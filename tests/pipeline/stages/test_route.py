"""The integrations and the alerts that a global router creates from a body."""

import json

import pytest

from models.domain.enums import AlertType, WorkState
from models.domain.reasons import Reason, make_reason
from pipeline import router
from pipeline.router import CompiledRouter, RouterLane
from pipeline.run_stages import AlertInProgress, run_stages
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.stages.normalize import parse_routed_alerts
from pipeline.topology import ROUTER_SEGMENT
from tests.support.facts import NOON
from tests.support.rules import SUPPRESS, equals, route_to, router_facts, router_rule, target, var

SEVEN, EIGHT = target(7), target(8, service=2)
PROMETHEUS = target(9, source="prometheus")
ALERTS = [
    {"status": "firing", "labels": {"alertname": "A", "team": "web"}, "fingerprint": "a"},
    {"status": "resolved", "labels": {"alertname": "B", "team": "data"}, "fingerprint": "b"},
]
GROUP = {"version": "4", "alerts": ALERTS}
DISK = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


def routed(*rules, body=DISK, source="generic", **targets):
    facts = router_facts(*rules, **{"seven": SEVEN, "eight": EIGHT, "nine": PROMETHEUS, **targets})
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lane = RouterLane(CompiledRouter(facts), "trace", 1, source, RequestBody(raw), NOON)
    alerts = (AlertInProgress(alert) for alert in parse_routed_alerts(lane))
    return run_stages(alerts, ROUTER_SEGMENT, lane).events


def get_reason(*rules, **more):
    (event,) = routed(*rules, **more)
    return dict(event.reasons)["route"]


def build_sent(rule, *targets):
    return make_reason("router_rule_sent", rule=rule, router="Front door", targets=targets)


def list_integrations(events):
    return [event.integration for event in events]


def test_only_the_first_matching_rule_acts():
    events = routed(
        router_rule(*route_to("nine"), when=equals("message", "other")),
        router_rule(*route_to("eight"), name="first"),
        router_rule(*route_to("seven"), name="second"),
    )

    assert list_integrations(events) == [8]
    assert events[0].reasons == (
        ("normalize", make_reason("entity_given", level="critical")),
        ("route", build_sent("first", "Target 8")),
    )
    assert [record["rule"] for record in events[0].rules] == ["id of first"]


def test_all_actions_of_a_rule_act_and_each_target_gets_its_own_alert():
    seven, eight = routed(router_rule(*route_to("seven", "eight")))

    assert (seven.integration, seven.service, seven.stage) == (7, 1, "rules")
    assert (eight.integration, eight.service, eight.state) == (8, 2, WorkState.PENDING)
    assert seven.unique_id != eight.unique_id
    assert dict(seven.reasons)["route"] == build_sent("rule", "Target 7", "Target 8")


def test_two_integrations_of_one_service_get_an_alert_each():
    events = routed(router_rule(*route_to("seven", "ten")), ten=target(10, service=1))

    assert [(event.integration, event.service) for event in events] == [(7, 1), (10, 1)]


def test_a_target_that_is_named_twice_gets_one_alert():
    assert list_integrations(routed(router_rule(*route_to("seven", "eight", "seven")))) == [7, 8]


NO_RULE = make_reason("no_router_rule", router="Front door")


def build_lost(code):
    """Return why the alert that matches rule x reaches nobody."""
    return Reason(code, {"rule": "x", "router": "Front door"})


@pytest.mark.parametrize(
    ("rules", "expected_reason"),
    [
        ((), NO_RULE),
        (
            (router_rule(*route_to("seven"), when=equals("message", "x")),),
            NO_RULE,
        ),
        ((router_rule(SUPPRESS, name="x"),), build_lost("router_rule_suppressed")),
        ((router_rule(name="x"),), build_lost("router_rule_empty")),
        (
            (router_rule(*route_to("closed"), name="x"),),
            build_lost("router_rule_without_target").add(make_reason("target_closed", target="Closed")),
        ),
        (
            (router_rule(*route_to("gone", "lost"), name="x"),),
            build_lost("router_rule_without_target").add(make_reason("targets_deleted", count=2)),
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Reason) else "",
)
def test_an_unrouted_alert_is_stored_as_suppressed_and_the_reason_says_why(rules, expected_reason):
    (event,) = routed(*rules, closed=target(11, name="Closed", accepts_alerts=False))

    assert (event.integration, event.service, event.suppressed) == (None, None, True)
    assert (event.state, event.stage) == (WorkState.DONE, "")
    assert event.reasons[-1] == ("route", expected_reason)


def test_other_targets_get_their_alert_if_one_is_closed_or_deleted():
    events = routed(
        router_rule(*route_to("closed", "gone", "seven")),
        closed=target(11, name="Closed", accepts_alerts=False),
    )

    assert list_integrations(events) == [7]
    assert dict(events[0].reasons)["route"] == build_sent("rule", "Target 7").add(
        make_reason("target_closed", target="Closed"), make_reason("targets_deleted", count=1)
    )


def test_an_alert_that_one_action_routes_and_another_drops_is_routed():
    assert list_integrations(routed(router_rule(SUPPRESS, *route_to("seven")))) == [7]


@pytest.mark.parametrize("bad", ['{"no such operator": []}', "{nonsense"])
def test_a_rule_that_cannot_be_read_never_matches_and_its_record_says_so(bad):
    (event,) = routed(
        router_rule(*route_to("eight"), when=bad, name="bad"), router_rule(*route_to("seven"), name="good")
    )
    (lost,) = routed(router_rule(*route_to("eight"), when=bad, name="bad"))

    assert event.integration == 7
    for expected_reason in (event.rules[0], lost.rules[0]):
        assert (expected_reason["rule"], expected_reason["matches"]) == ("id of bad", False)
        assert expected_reason["note"].code == "rule_unreadable"
    assert [record["rule"] for record in event.rules] == ["id of bad", "id of good"]


def test_a_prometheus_body_in_the_generic_form_becomes_the_alerts_of_a_prometheus_integration():
    events = routed(router_rule(*route_to("nine", "seven")), body=GROUP)

    assert [(e.integration, e.position, e.entity_id, e.alert_type) for e in events] == [
        (9, 0, "a", AlertType.CRITICAL),
        (9, 1, "b", AlertType.RESOLVED),
        (7, 0, events[2].entity_id, AlertType.INFO),
    ]
    assert len({event.unique_id for event in events}) == 3
    assert events[2].message == "alert without a message"
    assert events[2].alert["payload"] == GROUP


def test_each_alert_of_a_prometheus_url_is_routed_by_itself():
    events = routed(
        router_rule(*route_to("seven"), when=equals("payload.labels.team", "web")),
        router_rule(*route_to("eight"), when=equals("alert_type", "5")),
        body=GROUP,
        source="prometheus",
    )

    assert [(e.integration, e.position, e.entity_id) for e in events] == [(7, 0, "a"), (8, 1, "b")]


def test_an_unmatched_alert_of_a_group_is_stored_beside_the_matched_ones():
    events = routed(
        router_rule(*route_to("seven"), when=equals("payload.labels.team", "web")),
        body=GROUP,
        source="prometheus",
    )

    assert [(e.integration, e.suppressed) for e in events] == [(7, False), (None, True)]


@pytest.mark.parametrize(
    ("when", "matches"),
    [
        (equals("payload.alerts.0.labels.team", "web"), True),
        (equals("payload.version", "4"), True),
        (equals("message", "alert without a message"), True),
        (equals("payload.payload.x", "y"), False),
    ],
    ids=str,
)
def test_conditions_read_the_whole_posted_body(when, matches):
    (event,) = routed(router_rule(*route_to("seven"), when=when), body=GROUP)

    assert (event.integration == 7) is matches


def test_conditions_read_the_parsed_fields_of_a_generic_body_and_all_its_other_fields():
    when = {
        "and": [
            equals("alert_type", "3"),
            equals("alert.entity_id", "db1"),
            equals("payload.message", "Disk full"),
            equals("alert.payload.payload.host", "db1"),
            equals("payload.colour", "red"),
        ]
    }
    (event,) = routed(
        router_rule(*route_to("seven"), when=when), body={**DISK, "payload": {"host": "db1"}, "colour": "red"}
    )

    assert event.integration == 7
    assert event.alert["payload"] == {"host": "db1"}


BODIES = [
    ({}, "alert without a message"),
    ({"title": "Up", "description": "now"}, "Up"),
    ({"message": 5, "entity_id": True, "alert_type": ["x"], "suppressed": "no"}, "alert without a message"),
    ({"message": "  "}, "alert without a message"),
    ({"message": "m", "alert_type": "loud"}, "m"),
    ({"message": "m", "payload": "text", "urls": 5}, "m"),
]


@pytest.mark.parametrize(("body", "message"), BODIES, ids=str)
def test_any_json_object_is_an_alert(body, message):
    (event,) = routed(router_rule(*route_to("seven")), body=body)

    assert (event.integration, event.message, event.alert_type) == (7, message, AlertType.INFO)
    assert event.alert["payload"] == body
    assert not event.suppressed


@pytest.mark.parametrize("body", [b"[]", b"5", b"nonsense", b'"text"'])
def test_a_body_that_is_not_an_object_is_refused(body):
    with pytest.raises(BadBody):
        routed(body=body)


def test_a_router_knows_no_past_incidents():
    reason = get_reason(router_rule(*route_to("seven"), when={">": [var("seconds_since_last"), 10**9]}))

    assert reason.code == "router_rule_sent"


@pytest.mark.parametrize("source", ["prometheus", "generic"])
def test_the_number_of_alerts_of_a_body_is_limited(monkeypatch, source):
    """25 targets can each read a generic body of 120 kB as 40,000 alerts."""
    monkeypatch.setattr(router, "MAX_EVENTS", 3)
    two = {"ten": target(10, source="prometheus")}

    assert len(routed(router_rule(*route_to("nine")), body=GROUP, source=source)) == 2
    with pytest.raises(router.TooManyAlerts):
        routed(router_rule(*route_to("nine", "ten")), body=GROUP, source=source, **two)


def test_the_same_body_always_gets_the_same_ids():
    rules = (router_rule(*route_to("seven", "eight")),)

    assert routed(*rules) == routed(*rules)


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        pytest.param({**DISK, "host": "db1"}, {**DISK, "host": "db1"}, id="without payload"),
        pytest.param({**DISK, "payload": {"host": "db1"}}, {"host": "db1"}, id="with payload"),
        pytest.param({"host": "db1"}, {"host": "db1"}, id="no message"),
    ],
)
def test_a_generic_target_keeps_the_whole_body_as_payload_unless_it_has_one(body, payload):
    (event,) = routed(router_rule(*route_to("seven")), body=body)

    assert event.alert["payload"] == payload
