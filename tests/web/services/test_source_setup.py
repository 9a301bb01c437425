"""The secret and the mapping of an integration's source; a request with a wrong signature pages nobody."""

import hashlib
import hmac
import json

import pytest

from models.domain.applications import KINDS
from models.domain.enums import AlertType
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.services import Integration, SourceSetup
from tests.support.rules import accept_from_router, add_router, add_router_rule
from tests.support.sources import list_kinds, load
from workers.alerts import process_lane, process_router

ALERT = {"alerts": [{"status": "firing", "labels": {"alertname": "CPU"}, "fingerprint": "f"}]}
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
MAPPING = {
    "message": "check.name",
    "entity_id": ["check.host", "check.id"],
    "alert_type": "check.status",
    "levels": {"bad": "error"},
}


@pytest.fixture
def make(ask, world):
    """make(kind): the ID and the key of a new integration of this kind."""

    def make(kind):
        team, service = world.team.unique_id, world.service.unique_id
        path = f"/api/account/teams/{team}/services/{service}/integrations/"
        made = ask("POST", path, {"name": kind, "application": KINDS[kind].unique_id}).json
        return f"/api/tocsin/integrations/{made['unique_id']}/source/", made["integration_key"]

    return make


@pytest.fixture
def post(app, world):
    """post(kind, key, body, headers): send a body and process it; return its event."""

    def post(kind, key, body, headers=None):
        path = f"/api/integration/{kind}/{key}/"
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        assert app.test_client().post(path, data=raw, headers=headers).status_code == 200
        process_lane.run(world.service.id)
        return Event.select().order_by(Event.id.desc()).first()

    return post


def sign(secret, body):
    digest = hmac.new(secret.encode(), json.dumps(body).encode(), hashlib.sha256).hexdigest()
    return {"X-Grafana-Alerting-Signature": digest}


def get_reason(event):
    return str(event.reasons[0][1] if isinstance(event.reasons[0][1], str) else event.reasons[0][1]["code"])


def test_a_new_secret_is_shown_once(ask, make):
    path, _ = make("grafana")
    assert ask("GET", path).json["has_secret"] is False

    secret = ask("POST", f"{path}secret/").json["secret"]
    shown = ask("GET", path).json

    assert (shown["is_signed"], shown["has_secret"]) == (True, True)
    assert secret not in json.dumps(shown)


def test_a_secret_of_the_tool_is_stored_and_never_shown(ask, make):
    path, _ = make("sentry")

    shown = ask("PUT", path, {"secret": "given by the tool"})

    assert "given by" not in shown.text
    assert SourceSetup.get().secret == "given by the tool"


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("sentry", {"secret": "short"}, "secret"),
        ("zabbix", {"secret": "long enough"}, "secret"),
        ("grafana", {"mapping": MAPPING}, "mapping"),
        ("cloudwatch_v2", {"secret": "long enough"}, "secret"),
        ("cloudwatch_v2", {"topics": ["arn:aws:sns:eu-west-1:12:alarms"]}, "topics.0"),
        ("cloudwatch_v2", {"topics": [f"{TOPIC}/x"]}, "topics.0"),
        ("cloudwatch_v2", {"topics": [TOPIC] * 21}, "topics"),
        ("grafana", {"topics": [TOPIC]}, "topics"),
        ("json", {"mapping": {"levels": {"bad": "loud"}}}, "mapping.levels.bad.value"),
        ("json", {"mapping": {"entity_id": ["a"] * 6}}, "mapping.entity_id"),
        ("json", {"mapping": {"message": "x" * 201}}, "mapping.message"),
    ],
)
def test_a_wrong_setup_is_refused_by_name(ask, make, kind, body, field):
    path, _ = make(kind)

    refused = ask("PUT", path, body, headers={"Prefer": "errors"})

    assert (refused.status_code, list(refused.json["errors"])) == (400, [field])
    assert not SourceSetup.select().exists()


def test_topics_are_stored_and_removed(ask, make):
    path, _ = make("cloudwatch_v2")
    assert ask("GET", path).json["topics"] is None

    assert ask("PUT", path, {"topics": [f"{TOPIC}\n"]}).json["topics"] == [TOPIC]
    assert ask("GET", path).json["is_signed"] is False
    assert ask("PUT", path, {"topics": []}).json["topics"] is None
    assert SourceSetup.get().topics is None


def test_a_request_that_is_not_of_a_topic_pages_nobody(ask, make, post):
    path, key = make("cloudwatch_v2")
    ask("PUT", path, {"topics": [TOPIC]})

    event = post("cloudwatch_v2", key, {"AlarmName": "CPU", "NewStateValue": "ALARM"})

    assert get_reason(event) == "signature_absent"
    assert not Incident.select().exists()


def test_a_request_with_the_right_signature_opens_an_incident(ask, make, post):
    path, key = make("grafana")
    secret = ask("POST", f"{path}secret/").json["secret"]

    post("grafana", key, ALERT, sign(secret, ALERT))

    assert Incident.get().title == "CPU"


@pytest.mark.parametrize(
    ("headers", "reason"), [({}, "signature_missing"), (sign("another", ALERT), "signature_wrong")]
)
def test_a_request_that_does_not_verify_is_stored_and_pages_nobody(ask, make, post, headers, reason):
    path, key = make("grafana")
    ask("POST", f"{path}secret/")

    event = post("grafana", key, ALERT, headers)

    assert not Incident.select().exists()
    assert (event.message, event.alert["payload"]) == ("refused request", {})
    assert get_reason(event) == reason
    assert Receipt.get().state == 1


@pytest.mark.parametrize("kind", ["generic", "prometheus", "zabbix"])
def test_the_address_of_another_tool_does_not_avoid_the_signature(ask, make, post, kind):
    path, key = make("grafana")
    ask("POST", f"{path}secret/")
    alert = {"message": "CPU", "alert_type": "critical", **ALERT}

    event = post(kind, key, alert)

    assert not Incident.select().exists()
    assert (event.message, get_reason(event)) == ("refused request", "signature_required")
    assert event.alert["payload"] == {}


def test_a_refused_request_resolves_nothing(ask, make, post):
    path, key = make("grafana")
    secret = ask("POST", f"{path}secret/").json["secret"]
    post("grafana", key, ALERT, sign(secret, ALERT))

    ended = {"alerts": [{**ALERT["alerts"][0], "status": "resolved"}]}
    post("grafana", key, ended, sign("another", ended))

    assert Incident.get().status == 1


def test_without_a_secret_signatures_are_not_checked(ask, make, post):
    path, key = make("grafana")
    ask("POST", f"{path}secret/")
    assert ask("DELETE", f"{path}secret/").status_code == 204

    post("grafana", key, ALERT)

    assert Incident.get().title == "CPU"


def test_a_declared_mapping_reads_the_body(ask, make, post):
    path, key = make("json")
    assert ask("PUT", path, {"mapping": MAPPING}).json["mapping"] == MAPPING

    event = post("json", key, load("json", "fires").body)

    assert (event.message, event.entity_id, event.alert_type) == ("Queue is full", "q-1/7", 2)


def test_a_mapping_can_be_tried_and_nothing_is_stored(ask, make):
    path, _ = make("json")
    trial = {"mapping": {**MAPPING, "at": "when"}, "body": load("json", "fires").body}

    (alert,) = ask("POST", f"{path}try/", trial).json["alerts"]

    assert (alert["message"], alert["alert_type"], alert["remarks"]) == ("Queue is full", "error", [])
    assert alert["source_time"].startswith("2026-03-01T02:09:35")
    assert not Receipt.select().exists()
    assert not SourceSetup.select().exists()


def test_a_trial_shows_the_alerts_of_a_native_body(ask, make):
    path, _ = make("grafana")

    shown = ask("POST", f"{path}try/", {"body": load("grafana", "group").body}).json["alerts"]

    assert [alert["alert_type"] for alert in shown] == ["critical", "critical", "resolved"]
    assert shown[1]["remarks"] == [
        "This alert of the body does not have the form of grafana, so it has the default level."
    ]


def test_the_secret_stays_when_the_mapping_changes(ask, make):
    path, _ = make("sentry")
    ask("PUT", path, {"secret": "given by the tool"})

    ask("PUT", path, {"mapping": None})

    assert SourceSetup.get().secret == "given by the tool"


@pytest.mark.parametrize("kind", ["zabbix", "sentry"])
def test_another_tool_does_not_keep_the_secret(ask, make, post, world, kind):
    path, key = make("grafana")
    ask("POST", f"{path}secret/")
    team, service, row = world.team.unique_id, world.service.unique_id, path.split("/")[4]
    own = f"/api/account/teams/{team}/services/{service}/integrations/{row}/"
    assert ask("PATCH", own, {"application": KINDS["grafana"].unique_id}).status_code == 200
    assert ask("GET", path).json["has_secret"] is True

    assert ask("PATCH", own, {"application": KINDS[kind].unique_id}).status_code == 200
    event = post(kind, key, load(kind, "fires").body)

    assert ask("GET", path).json["has_secret"] is False
    assert event.message != "refused request"


@pytest.mark.parametrize("kind", ["json", "prometheus", "grafana"])
@pytest.mark.parametrize("levels", [150, 600, 900, 1010])
def test_a_trial_with_a_body_that_is_nested_too_deeply_is_refused(ask, make, kind, levels):
    path, _ = make(kind)
    value = '{"a":' * levels + "1" + "}" * levels
    body = f'{{"body": {{"alerts": [{{"labels": {value}}}], "data": {value}}}}}'

    refused = ask("POST", f"{path}try/", data=body, content_type="application/json")

    assert (refused.status_code, "nested too deeply" in refused.text) == (400, True)


@pytest.mark.parametrize("kind", list_kinds("unknown_level"))
def test_an_unknown_level_is_the_default_level_of_the_integration(ask, make, post, kind):
    path, key = make(kind)
    assert ask("PUT", path, {"default_alert_type": "warning"}).json["default_alert_type"] == "warning"
    if kind == "json":
        ask("PUT", path, {"mapping": MAPPING})

    fixture = load(kind, "unknown_level")
    event = post(kind, key, fixture.body, fixture.headers)

    assert event.alert_type == AlertType.WARNING
    (first, *_) = list_reasons(event)
    assert "The level is warning." in str(first[1])
    assert "The default level of the integration is warning." in str(first[1])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("generic", {"message": "CPU"}),
        ("prometheus", {"alerts": [{"labels": {"alertname": "CPU"}}]}),
        ("grafana", ALERT),
        ("zabbix", {"event_id": "7", "event_name": "CPU"}),
        ("zabbix", {"message": "CPU"}),
        ("json", {"message": "CPU"}),
    ],
)
def test_a_missing_level_is_the_default_level_of_the_integration(ask, make, post, kind, body):
    path, key = make(kind)
    ask("PUT", path, {"default_alert_type": "error"})

    assert post(kind, key, body).alert_type == AlertType.ERROR


@pytest.mark.parametrize("default", ["error", None])
def test_a_known_level_stays_as_it_is(ask, make, post, default):
    path, key = make("grafana")
    ask("PUT", path, {"default_alert_type": default})
    labels = {"alertname": "CPU", "severity": "warning"}
    fired = {"status": "firing", "labels": labels, "fingerprint": "f"}

    assert post("grafana", key, {"alerts": [fired]}).alert_type == AlertType.WARNING
    assert (
        post("grafana", key, {"alerts": [{**fired, "status": "resolved"}]}).alert_type == AlertType.RESOLVED
    )


@pytest.mark.parametrize("name", ["resolved", "acknowledged", "loud", 3])
def test_a_level_that_is_no_problem_is_no_default_level(ask, make, name):
    path, _ = make("grafana")

    refused = ask("PUT", path, {"default_alert_type": name}, headers={"Prefer": "errors"})

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["default_alert_type"])


def test_the_default_level_can_be_removed(ask, make, post):
    path, key = make("grafana")
    ask("PUT", path, {"default_alert_type": "error"})
    assert ask("PUT", path, {"default_alert_type": None}).json["default_alert_type"] is None

    assert post("grafana", key, ALERT).alert_type == AlertType.CRITICAL


def test_a_trial_shows_the_default_level(ask, make):
    path, _ = make("grafana")
    ask("PUT", path, {"default_alert_type": "error"})

    (alert,) = ask("POST", f"{path}try/", {"body": ALERT}).json["alerts"]

    assert (alert["alert_type"], alert["remarks"]) == (
        "error",
        ["The default level of the integration is error."],
    )


def test_an_alert_of_a_router_gets_the_default_level_of_each_integration(ask, make, world, now):
    router = add_router(world)
    keys = {}
    for level in ("warning", None):
        path, _ = make("grafana")
        ask("PUT", path, {"default_alert_type": level})
        keys[level] = Integration.get(Integration.unique_id == path.split("/")[4])
    add_router_rule(router, *keys.values())
    accept_from_router(router, now, source="prometheus", body=ALERT)
    process_router.run(router.id)
    process_lane.run(world.service.id, "rules")

    events = {row.integration_id: row for row in Event.select()}
    assert events[keys["warning"].id].alert_type == AlertType.WARNING
    assert events[keys[None].id].alert_type == AlertType.CRITICAL
    texts = " ".join(str(reason) for _, reason in list_reasons(events[keys["warning"].id]))
    assert "the default level of each integration applies" in texts


JOINED = {
    "message": ["check.host", "check.name"],
    "entity_id": ["check.host"],
    "alert_type": "check.status",
    "levels": {"bad": "error", "fine": "resolved"},
    "defaults": {"message": "A check failed", "alert_type": "bad", "entity_id": "checks"},
}


@pytest.mark.parametrize(
    ("mapping", "body", "message", "level", "entity_id"),
    [
        (JOINED, {"check": {"host": "q1", "name": "Queue"}}, "q1: Queue", "error", "q1"),
        (JOINED, {"check": {"name": "Queue"}}, "Queue", "error", "checks"),
        (JOINED, {}, "A check failed", "error", "checks"),
        (JOINED, {"check": {"host": "q1", "status": "fine"}}, "q1", "resolved", "q1"),
        (
            {**JOINED, "level": "warning"},
            {"check": {"status": "critical"}},
            "A check failed",
            "warning",
            "checks",
        ),
        (
            {**JOINED, "level": "warning"},
            {"check": {"status": "fine"}},
            "A check failed",
            "resolved",
            "checks",
        ),
        ({"message": "m", "level": "info"}, {"m": "x"}, "x", "info", None),
        ({"message": "m"}, {"m": "x"}, "x", "critical", None),
    ],
)
def test_a_mapping_joins_fields_and_has_defaults_and_a_fixed_level(
    ask, make, mapping, body, message, level, entity_id
):
    path, _ = make("json")
    stored = ask("PUT", path, {"mapping": mapping})
    tried = ask("POST", f"{path}try/", {"body": body}).json["alerts"][0]

    assert stored.json["mapping"] == mapping
    assert (tried["message"], tried["alert_type"], tried["entity_id"]) == (message, level, entity_id)


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ({"message": []}, "mapping.message"),
        ({"message": ["a"] * 6}, "mapping.message"),
        ({"message": ["x" * 201]}, "mapping.message"),
        ({"message": {"a": 1}}, "mapping.message"),
        ({"message": "m", "level": "loud"}, "mapping.level"),
        ({"message": "m", "level": "resolved"}, "mapping.level"),
        ({"message": "m", "defaults": {"at": "now"}}, "mapping.defaults"),
        ({"message": "m", "defaults": {"message": ""}}, "mapping.defaults"),
        ({"message": "m", "defaults": {"message": "x" * 1_001}}, "mapping.defaults"),
    ],
)
def test_a_mapping_that_is_not_valid_is_refused_by_name(ask, make, mapping, field):
    path, _ = make("json")
    refused = ask("PUT", path, {"mapping": mapping}, headers={"Prefer": "errors"})

    assert refused.status_code == 400
    assert all(name.startswith(field) for name in refused.json["errors"])
