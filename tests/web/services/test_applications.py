"""The IDs of applications that an account brings: who may add them, and what integrations with them do."""

import json

import pytest

from models.domain.applications import APPLICATIONS, GENERIC
from models.people import provisioning
from models.services import added_applications
from models.store.ids import make_uuid
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.services import AddedApplication, Integration
from tests.support.rules import add_router, add_router_rule
from workers.alerts import process_lane, process_router

OWN = "/api/tocsin/applications/"
BROUGHT = "8f0d2f3c-3a7e-4f3b-9d0a-51c1a4f4c0de"
# What the sample of the published JavaScript package names: createIntegration in its integrations_api.js.
SAMPLED = "f63f1c66-9fd9-4e54-8087-2734dda81ad8"
GROUP = {"alerts": [{"status": "firing", "labels": {"alertname": "Disk full"}, "fingerprint": "f"}]}


@pytest.fixture
def integrations(world) -> str:
    team, service = world.team.unique_id, world.service.unique_id
    return f"/api/account/teams/{team}/services/{service}/integrations/"


@pytest.fixture
def add(ask):
    """add(kind): add the ID that the account brings, as an application of this kind."""

    def add(kind="grafana", unique_id=BROUGHT, **more):
        return ask("POST", OWN, {"unique_id": unique_id, "kind": kind}, **more)

    return add


@pytest.fixture
def create(ask, integrations):
    """create(...): an integration with the ID that the account brings."""

    def create(**more):
        made = ask("POST", integrations, {"name": "Probe", "application": BROUGHT, **more})
        assert made.status_code == 201, made.json
        return made.json

    return create


def test_the_sample_of_the_published_javascript_package_works_after_its_id_was_added(ask, add, integrations):
    sample = {"name": "Probe", "summary": "Of the shop", "application": SAMPLED}
    refused = ask("POST", integrations, sample, scheme="Token", headers={"Prefer": "errors"})
    assert "tocsin application add ID --as KIND" in str(refused.json["errors"])

    assert add("generic", unique_id=SAMPLED).status_code == 201
    assert ask("POST", integrations, sample, scheme="Token").status_code == 201


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_an_unknown_id_is_refused_until_it_is_added(ask, add, integrations, world, method, scheme):
    path = integrations if method == "POST" else f"{integrations}{world.integration.unique_id}/"

    def send():
        headers = {"Prefer": "errors"}
        return ask(method, path, {"application": BROUGHT.upper()}, scheme=scheme, headers=headers)

    refused = send()
    assert refused.status_code == 400
    (why,) = refused.json["errors"]["application"]
    assert "tocsin application add ID --as KIND" in why
    assert OWN in why

    assert add("grafana").status_code == 201
    answer = send()

    assert answer.status_code == (201 if method == "POST" else 200)
    reference = answer.json["application_reference"]
    assert answer.json["application"] == reference["unique_id"] == BROUGHT
    assert (reference["name"], reference["extension"]) == ("Grafana", "grafana")
    assert f"/api/integration/grafana/{answer.json['integration_key']}/" in answer.json["webhook_url"]


def test_an_added_id_is_in_the_lists_and_can_be_removed(ask, add):
    made = add("grafana").json
    catalogue = ask("GET", "/api/account/applications/", who="bob").json

    assert ask("GET", OWN, who="bob").json == [made]
    assert ask("GET", f"{OWN}{BROUGHT}/").json == made
    assert [one["unique_id"] for one in catalogue] == [*APPLICATIONS, BROUGHT]
    assert ask("DELETE", f"{OWN}{BROUGHT}/").status_code == 204
    assert ask("GET", OWN).json == []


def test_only_owners_and_admins_add_and_remove_ids(ask, add):
    assert add(who="bob").status_code == 403
    add()
    assert ask("DELETE", f"{OWN}{BROUGHT}/", who="bob").status_code == 403


def test_accounts_have_their_own_ids(ask, add):
    add("grafana")

    assert ask("GET", OWN, who="mallory").json == []
    assert ask("GET", f"{OWN}{BROUGHT}/", who="mallory").status_code == 404
    assert add("zabbix", who="mallory").status_code == 201
    assert {row.kind for row in AddedApplication.select()} == {"grafana", "zabbix"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"unique_id": GENERIC, "kind": "grafana"}, "unique_id"),
        ({"unique_id": "x", "kind": "grafana"}, "unique_id"),
        ({"unique_id": None, "kind": "grafana"}, "unique_id"),
        ({"unique_id": BROUGHT, "kind": "nosuch"}, "kind"),
        ({"unique_id": BROUGHT}, "kind"),
        ({"kind": "grafana"}, "unique_id"),
    ],
    ids=str,
)
def test_an_id_that_cannot_be_added_is_refused_by_name(ask, body, field):
    answer = ask("POST", OWN, body)

    assert (answer.status_code, list(answer.json["errors"])) == (400, [field])


def test_an_id_is_added_once(add):
    add("grafana")

    assert "grafana" in add("zabbix").json["errors"]["unique_id"][0]


def test_the_number_of_added_ids_is_limited(add, monkeypatch):
    monkeypatch.setattr(added_applications, "MAX_ADDED", 1)
    add()

    assert add(unique_id=make_uuid()).json["errors"] == {"unique_id": ["No more than 1 are allowed."]}


def test_an_integration_keeps_the_kind_of_an_id_that_was_removed(ask, add, create, integrations):
    add("grafana")
    made = create()
    one = f"{integrations}{made['unique_id']}/"
    ask("DELETE", f"{OWN}{BROUGHT}/")

    sent_back = ask("PUT", one, {**made, "name": "Graphs"})

    assert (sent_back.status_code, sent_back.json["application_reference"]["name"]) == (200, "Grafana")
    assert ask("POST", integrations, {"application": BROUGHT}).status_code == 400
    # Added again, the id has its new kind for what is written from then on.
    add("zabbix")
    assert ask("GET", one).json["application_reference"]["extension"] == "grafana"
    assert ask("PUT", one, made).json["application_reference"]["extension"] == "zabbix"
    assert ask("PUT", one, {**made, "application": GENERIC}).json["application"] == GENERIC
    assert Integration.get(Integration.unique_id == made["unique_id"]).kind is None


def test_alerts_for_an_added_id_are_read_by_the_normalizer_of_its_kind(ask, add, create, world):
    add("prometheus")
    made = create()
    router = add_router(world)
    add_router_rule(router, Integration.get(Integration.unique_id == made["unique_id"]))

    path = f"/api/integration/prometheus/{made['integration_key']}/"
    assert ask("POST", path, GROUP, who=None).status_code == 200
    group = json.loads(json.dumps(GROUP).replace("Disk full", "Disk full again").replace('"f"', '"g"'))
    assert ask("POST", f"/api/events/{router.integration_key}/", group, who=None).status_code == 201
    process_router.run(router.id)
    process_lane.run(world.service.id)

    titles = [one.title for one in Incident.select().order_by(Incident.id)]
    assert titles == ["Disk full", "Disk full again"]
    assert {event.integration.unique_id for event in Event.select()} == {made["unique_id"]}


def test_an_added_id_can_be_a_heartbeat(ask, add, create, integrations, world):
    add("heartbeat")
    made = create()
    heartbeat = f"/api/tocsin/integrations/{made['unique_id']}/heartbeat/"

    assert ask("GET", heartbeat).json["every"] == 300
    assert ask("POST", f"/api/events/{made['integration_key']}/", who=None, data=b"").status_code == 201
    process_lane.run(world.service.id)
    assert [event.message for event in Event.select()] == ["Ping"]
    ask("PATCH", f"{integrations}{made['unique_id']}/", {"application": GENERIC})
    assert ask("GET", heartbeat).status_code == 400


def test_the_kind_of_a_later_version_is_shown_as_generic(ask, integrations, world, now):
    made = provisioning.create_integration(world.service, "Probe", BROUGHT, world.alice, now)
    Integration.update(kind="nosuch").where(Integration.id == made.id).execute()

    shown = ask("GET", integrations).json[-1]["application_reference"]

    assert (shown["unique_id"], shown["extension"]) == (BROUGHT, "generic")


def test_metadata_and_simulations_use_the_kind_of_an_added_id(ask, add, create):
    add("prometheus")
    made = create()

    metadata = ask("GET", f"/api/account/integration-metadata/{made['integration_key']}/").json
    body = {"integration": made["unique_id"], "payload": GROUP, "source": "prometheus"}
    simulated = ask("POST", "/api/tocsin/simulate/", body).json

    assert metadata["integration"]["extension"] == "prometheus"
    assert simulated["alerts"][0]["message"] == "Disk full"
