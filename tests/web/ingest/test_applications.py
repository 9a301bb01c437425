"""The webhook of each application accepts alerts, with or without a normalizer of its own."""

import json
import re
from pathlib import Path

import pytest

from models.domain.applications import APPLICATIONS, KINDS
from models.domain.enums import IntegrationType
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from pipeline.sources.table import EVENT_APIS, NORMALIZERS
from tests.support.offenders import list_offenders
from tests.support.rules import add_router, add_router_rule, equals
from tests.support.sources import load
from tests.support.web.server import run_server
from web.ingest import events
from web.ingest.fast_path import FastPath
from workers.alerts import process_lane, process_router

__all__ = ["run_server"]

# The forms that are published, and have no normalizer yet.
PUBLISHED = (
    "zabbix", "nagios", "grafana", "datadog", "cloudwatch_v2", "newrelic", "splunk_legacy", "stackdriver",
    "microsoftazure", "sensu_go", "librenms", "guardduty",
)  # fmt: skip
BODY = {"title": "Disk full on db1", "description": "/var at 97 %", "alert_type": "critical", "host": "db1"}


@pytest.fixture
def served(run_server, app):
    """Return a running server with the whole web application, as in a web process."""
    server = run_server()
    server.app = FastPath(app, events.commits, events.large_bodies)
    return server


@pytest.fixture
def post(served):
    """post(path, body): the status and the JSON of the answer to a request through a socket."""

    def post(path, body):
        answer = served.ask("POST", path, json.dumps(body).encode(), **{"Content-Type": "application/json"})
        return answer.status, json.loads(answer.text)

    return post


def get_trace(ask, trace_id):
    (alert,) = ask("GET", f"/api/tocsin/alerts/{trace_id}/").json["alerts"]
    return alert


NATIVE = {source.extension for source in NORMALIZERS}
OTHER_FORM = "The body does not have the form of {kind}, so Tocsin guessed what it says."
NO_NORMALIZER = "Tocsin has no normalizer for {kind}, so it guessed what the body says."


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_published_form_is_read_in_the_generic_form(post, ask, world, kind):
    key, account = world.integration.integration_key, world.account.account_identifier

    older = post(f"/api/integration/{kind}/{key}/", BODY)
    newer = post(f"/integration/{account}/{kind}/{key}/", {**BODY, "entity_id": "db1"})
    process_lane.run(world.service.id)

    assert [older[0], newer[0]] == [200, 200]
    alert = get_trace(ask, older[1]["trace_id"])
    assert alert["stages"][0]["reason"] == (
        "The level is critical. The sender gave no entity_id, so Tocsin made one from: title, host. "
        + (OTHER_FORM if kind in NATIVE else NO_NORMALIZER).format(kind=kind)
        + " The title is the text of the field title."
    )
    assert alert["incident_created"]
    assert {receipt.source for receipt in Receipt.select()} == {kind}
    event = Event.get(Event.entity_id == "db1")
    assert (event.message, event.summary) == ("Disk full on db1", "/var at 97 %")
    assert event.alert["payload"] == {**BODY, "entity_id": "db1"}


@pytest.mark.parametrize("body", [[], "text", None])
def test_a_body_that_is_no_object_is_refused(post, world, body):
    status, answer = post(f"/api/integration/zabbix/{world.integration.integration_key}/", body)

    assert (status, answer["detail"]) == (400, "This request can not be processed.")
    assert not Receipt.select().exists()


def test_a_tool_with_a_normalizer_has_no_such_reason_in_its_trace(post, ask, world):
    group = {"alerts": [{"status": "firing", "labels": {"alertname": "A"}, "fingerprint": "f"}]}

    _, answer = post(f"/api/integration/prometheus/{world.integration.integration_key}/", group)
    process_lane.run(world.service.id)

    reason = get_trace(ask, answer["trace_id"])["stages"][0]["reason"]
    assert reason == "The level is critical. The sender gave the entity_id."


@pytest.mark.parametrize("account", [False, True])
def test_a_healthcheck_has_its_level_in_the_path(served, ask, world, account):
    key = world.integration.integration_key
    base = f"/integration/{world.account.account_identifier}" if account else "/api/integration"

    def send(level, body=b""):
        answer = served.ask("POST", f"{base}/httphealthcheck/{key}/{level}/", body)
        process_lane.run(world.service.id)
        return answer.status

    assert send("critical") == 200
    assert (Incident.get().title, Incident.get().status) == ("HTTP healthcheck: critical", 1)
    assert send("acknowledged", b"output of a job") == 200
    assert Incident.get().status == 2
    assert send("RESOLVED", b'{"message": "Backup is well again"}') == 200
    assert Incident.get().status == 3
    assert [event.message for event in Event.select()][-1] == "Backup is well again"


def test_an_unknown_level_in_a_path_is_refused_by_name(ask, world):
    path = f"/api/integration/httphealthcheck/{world.integration.integration_key}/loud/"

    refused = ask("POST", path, who=None, headers={"Prefer": "errors"})

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["alert_type"])
    assert not Receipt.select().exists()


def test_a_router_reads_the_whole_body_of_a_tool_without_a_normalizer(post, world):
    router = add_router(world)
    add_router_rule(router, world.integration, when=equals("payload.host", "db1"))

    post(f"/api/integration/librenms/{router.integration_key}/", {**BODY, "payload": {"host": "other"}})
    process_router.run(router.id)
    process_lane.run(world.service.id)

    assert Incident.get().title == "Disk full on db1"


TAKES_ALERTS = [kind for kind, one in KINDS.items() if one.application_type is IntegrationType.ALERT]


def test_the_webhook_url_of_every_application_accepts_alerts(ask, world):
    def check(kind):
        team, service = world.team.unique_id, world.service.unique_id
        made = ask(
            "POST",
            f"/api/account/teams/{team}/services/{service}/integrations/",
            {"name": "Probe", "application": KINDS[kind].unique_id},
        ).json
        path = f"/api/integration/{kind}/{made['integration_key']}/"

        bodies = (
            {**BODY, "message": "m"},
            {"alerts": [{"labels": {"alertname": "A"}}]},
            {"event_action": "trigger", "payload": {"summary": "m"}},
            {"message_type": "CRITICAL"},
            [{"labels": {"alertname": "A"}}],
        )
        received = [ask("POST", path, body, who=None).status_code for body in bodies]

        assert 200 in received
        assert made["application_reference"]["extension"] == kind
        assert kind in made["webhook_url"]

    assert list_offenders(check, TAKES_ALERTS) == []


def test_the_contract_lists_the_applications():
    contract = (Path(__file__).parents[3] / "docs/contract.md").read_text()

    rows = [f"| {one.name} | {one.unique_id} | {one.extension} |" for one in APPLICATIONS.values()]
    assert "\n".join(rows) in contract


def test_the_contract_names_the_extensions_that_have_a_reader():
    contract = (Path(__file__).parents[3] / "docs/contract.md").read_text()
    (named,) = re.findall(r"^These extensions have a reader: (.*?)\.\s", contract, re.DOTALL | re.MULTILINE)

    known = dict.fromkeys(each.extension for each in (*NORMALIZERS, *EVENT_APIS))
    assert re.findall(r"`(\w+)`", named) == list(known)


def test_every_application_for_alerts_has_a_reader():
    alerting = {
        one.extension for one in APPLICATIONS.values() if one.application_type == IntegrationType.ALERT
    }

    assert alerting - {each.extension for each in (*NORMALIZERS, *EVENT_APIS)} == set()


def test_every_normalizer_is_of_an_application():
    assert [source.extension for source in NORMALIZERS if source.extension not in KINDS] == []


def test_uptime_kuma_sends_a_form_in_parts_through_a_socket(served, world):
    path = f"/api/integration/uptimekuma/{world.integration.integration_key}/"
    data = json.dumps(load("uptimekuma", "fires").body).encode()
    body = b'--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n' + data + b"\r\n--x--\r\n"
    answer = served.ask("POST", path, body, **{"Content-Type": "multipart/form-data; boundary=x"})
    process_lane.run(world.service.id)

    assert answer.status == 200
    assert Event.get().entity_id == load("uptimekuma", "fires").parse_one().entity_id
