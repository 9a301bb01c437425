"""Alerts with a global router's key: acceptance, answers, and who may see their status and trace."""

import pytest

from models.domain.applications import GENERIC
from models.people import provisioning
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.routers import GlobalRouter
from models.tables.teams import Team
from tests.support.rules import add_router, add_router_rule, equals
from workers.alerts import process_lane, process_router

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}
GROUP = {"version": "4", "alerts": [{"status": "firing", "labels": {"alertname": "A"}, "fingerprint": "f"}]}
NOWHERE = "00000000-0000-4000-8000-000000000000"

FORMS = {
    "event": ("/api/events/{key}/", 201, CRITICAL),
    "generic": ("/integration/{account}/generic/{key}/", 200, CRITICAL),
    "prometheus": ("/api/integration/prometheus/{key}/", 200, GROUP),
    "prometheus, newer": ("/integration/{account}/prometheus/{key}/", 200, GROUP),
    "generic, older": ("/api/integration/generic/{key}/", 200, CRITICAL),
}


@pytest.fixture
def router(world) -> GlobalRouter:
    return add_router(world)


@pytest.fixture
def billing_integration(world, now):
    """Create an integration of Charlie's team. Bob is not a member of it."""
    service = provisioning.create_service(world.charlies_team, "Billing", world.policy, world.charlie, now)
    return provisioning.create_integration(service, "Billing door", GENERIC, world.charlie, now)


@pytest.fixture
def send_to_router(ask, world):
    """send_to_router("form", key): one request without a token."""

    def send(form, key, body=None, account=None):
        path, _, usual = FORMS[form]
        account = account or world.account.account_identifier
        return ask("POST", path.format(key=key, account=account), usual if body is None else body, who=None)

    return send


def work():
    while process_router.process_pending_routers() or process_lane.process_pending_lanes():
        pass


@pytest.mark.parametrize("form", FORMS)
def test_every_form_accepts_a_routers_key_and_returns_a_trace_id(send_to_router, world, router, form):
    add_router_rule(router, world.integration)
    answer = send_to_router(form, router.integration_key)
    work()

    assert answer.status_code == FORMS[form][1]
    assert answer.json == {"message": "success", "trace_id": Receipt.get().trace_id}
    assert Incident.select().count() == 1


@pytest.mark.parametrize("form", FORMS)
def test_unknown_and_disabled_keys_are_not_found(send_to_router, router, form):
    GlobalRouter.update(is_enabled=False).execute()

    assert send_to_router(form, router.integration_key).status_code == 404
    assert send_to_router(form, NOWHERE).status_code == 404
    assert not Receipt.select().exists()


@pytest.mark.parametrize("form", ["generic", "prometheus, newer"])
def test_another_accounts_id_in_the_path_is_not_found(send_to_router, router, world, form):
    for account in ("zzzzz", world.mallorys_team.account.account_identifier):
        assert send_to_router(form, router.integration_key, account=account).status_code == 404
    assert not Receipt.select().exists()


@pytest.mark.parametrize("form", ["event", "generic", "generic, older"])
@pytest.mark.parametrize("body", [{"a": 1}, GROUP, {"message": " "}, {"message": 5, "tags": 1}], ids=str)
def test_a_router_accepts_any_json_object_and_an_integration_needs_a_message(
    send_to_router, world, router, form, body
):
    add_router_rule(router, world.integration)
    refused = send_to_router(form, world.integration.integration_key, body)
    taken = send_to_router(form, router.integration_key, body)
    work()

    if body.get("message") != 5:
        assert refused.status_code == 400
    assert taken.status_code == FORMS[form][1]
    assert Event.select().where(Event.receipt == Receipt.get(Receipt.router == router)).count() == 1


@pytest.mark.parametrize("form", ["event", "generic"])
@pytest.mark.parametrize("body", [[], "text", 5], ids=repr)
def test_a_body_that_is_no_object_is_refused(send_to_router, router, form, body):
    assert send_to_router(form, router.integration_key, body).status_code == 400
    assert not Receipt.select().exists()


@pytest.mark.parametrize(("body", "status"), [({"alerts": []}, 400), ({"alerts": 5}, 400), ({"a": "x"}, 200)])
def test_a_group_of_prometheus_is_checked_and_another_object_accepted(send_to_router, router, body, status):
    assert send_to_router("prometheus", router.integration_key, body).status_code == status


def get_status(ask, trace_id, who="alice"):
    return ask("GET", f"/api/alert/status/{trace_id}/", who=who)


def get_trace(ask, trace_id, who="alice"):
    return ask("GET", f"/api/tocsin/alerts/{trace_id}/", who=who)


def test_the_status_before_and_after_routing(ask, send_to_router, world, router):
    add_router_rule(router, world.integration)
    trace = send_to_router("generic", router.integration_key).json["trace_id"]
    pending = {
        "status": "queued", "alert": None, "integration": None, "incident": None, "suppressed": False,
        "is_incident_created": False,
    }  # fmt: skip
    assert get_status(ask, trace).json == pending

    process_router.process_pending_routers()
    routed = get_status(ask, trace).json
    assert (routed["status"], routed["integration"], routed["incident"]) == (
        "queued",
        {"name": "Probe"},
        None,
    )

    process_lane.process_pending_lanes()
    done = get_status(ask, trace).json
    incident = Incident.get()
    assert done["status"] == "completed"
    assert done["incident"] == {"incident_number": 1, "unique_id": incident.unique_id}
    assert done["is_incident_created"]


def test_the_status_of_an_alert_that_no_rule_matches(ask, send_to_router, router):
    trace = send_to_router("generic", router.integration_key).json["trace_id"]
    work()

    assert get_status(ask, trace).json == {
        "status": "completed", "alert": None, "integration": None, "incident": None, "suppressed": True,
        "is_incident_created": False,
    }  # fmt: skip
    (alert,) = get_trace(ask, trace).json["alerts"]
    assert alert["stages"][-1]["reason"] == "No rule of router Front door matches, so nobody is notified."


@pytest.fixture
def split_trace_id(ask, send_to_router, world, router, billing_integration):
    """Return the trace_id of an alert that became one event of Bob's team and one of Charlie's team."""
    Team.update(account_permissions=[]).execute()
    add_router_rule(router, world.integration, billing_integration)
    trace = send_to_router("generic", router.integration_key).json["trace_id"]
    work()
    return trace


def list_names(answer):
    described = answer.json
    return [alert["integration"]["name"] for alert in described["alerts"]], len(described["incidents"])


def test_a_trace_shows_only_events_of_the_viewers_teams(ask, split_trace_id):
    assert list_names(get_trace(ask, split_trace_id)) == (["Probe", "Billing door"], 2)
    assert list_names(get_trace(ask, split_trace_id, "bob")) == (["Probe"], 1)
    assert list_names(get_trace(ask, split_trace_id, "charlie")) == (["Billing door"], 1)
    assert get_trace(ask, split_trace_id, "mallory").status_code == 404
    assert get_status(ask, split_trace_id, "bob").json["integration"] == {"name": "Probe"}
    assert get_status(ask, split_trace_id, "charlie").json["integration"] == {"name": "Billing door"}


def test_a_trace_shows_no_more_after_the_router_is_deleted(ask, split_trace_id, router):
    router.delete_instance()

    assert list_names(get_trace(ask, split_trace_id, "bob")) == (["Probe"], 1)
    assert list_names(get_trace(ask, split_trace_id, "charlie")) == (["Billing door"], 1)
    assert get_status(ask, split_trace_id, "charlie").json["integration"] == {"name": "Billing door"}
    assert list_names(get_trace(ask, split_trace_id)) == (["Probe", "Billing door"], 2)


def test_only_owners_and_admins_see_alerts_of_a_deleted_service(ask, send_to_router, world):
    send_to_router("generic", world.integration.integration_key)
    work()
    trace = Receipt.get().trace_id
    assert get_trace(ask, trace, "bob").status_code == 200
    world.service.delete_instance()

    for who in ("bob", "charlie"):
        assert get_trace(ask, trace, who).status_code == 404
        assert get_status(ask, trace, who).status_code == 404
    assert get_trace(ask, trace).status_code == 200


def test_only_owners_see_pending_and_unrouted_alerts(ask, send_to_router, world, router):
    add_router_rule(router, world.integration, when=equals("message", "other"))
    trace = send_to_router("generic", router.integration_key).json["trace_id"]
    for _ in range(2):
        assert get_trace(ask, trace).status_code == 200
        assert get_trace(ask, trace, "bob").status_code == 403
        assert get_status(ask, trace, "charlie").status_code == 403
        work()


def test_a_routed_alert_keeps_its_links_images_and_notes(ask, send_to_router, world, router):
    add_router_rule(router, world.integration)
    more = {"urls": ["https://example.org/a"], "images": ["https://example.org/i.png"], "notes": ["n"]}
    send_to_router("generic", router.integration_key, {**CRITICAL, **more, "payload": {"a": 1}})
    work()

    shown = ask("GET", "/api/incidents/1/alerts/").json
    (alert,) = shown["results"] if isinstance(shown, dict) else shown
    assert [link["link_url"] for link in alert["urls"]] == ["https://example.org/a"]
    assert alert["images"][0]["image_src"] == "https://example.org/i.png"
    assert alert["notes"][0]["note_text"] == "n"
