"""Dead letters under /api/tocsin/dead-letters/."""

import threading

import pytest
from structlog.testing import capture_logs

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.people import provisioning
from models.reports import dead_letters
from models.tables.events import Event, Receipt, list_reasons
from models.tables.routers import GlobalRouter
from models.tables.teams import Team
from tests.support.contract.described import described
from tests.support.dead_letters import ERROR, add_dead_letter_alert, add_dead_letter_body
from tests.support.polling import PATIENCE_S
from web.operations import dead_letters as views

__all__ = ["described"]

PATH = "/api/tocsin/dead-letters/"


@pytest.fixture
def router_body(world, now):
    """Create a dead letter of a router, which has no service."""
    router = GlobalRouter.create(
        unique_id="00000000-0000-4000-8000-0000000000aa",
        account=world.account,
        name="Front door",
        integration_key="00000000-0000-4000-8000-0000000000bb",
        creation_date=now,
    )
    body = add_dead_letter_body(world, now)
    Receipt.update(router=router, service=None, integration=None).where(Receipt.id == body.id).execute()
    return body


@pytest.fixture
def enqueued(monkeypatch):
    lanes_enqueued = []
    monkeypatch.setattr(views.queue, "enqueue_lane", lambda *lane: lanes_enqueued.append(lane))
    monkeypatch.setattr(views.queue, "enqueue_router", lambda *lane: lanes_enqueued.append(lane))
    return lanes_enqueued


def test_a_page_lists_the_newest_dead_letter_first(ask, world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now, stage="rules")
    page = ask("GET", PATH, who="bob").json

    assert (page["count"], page["next"], page["previous"]) == (2, None, None)
    assert [one["id"] for one in page["results"]] == [alert.unique_id, body.trace_id]
    assert page["results"][0] == {
        "id": alert.unique_id,
        "trace_id": alert.receipt.trace_id,
        "position": 0,
        "accepted_at": "2026-03-04T12:00:00.001000Z",
        "error": "ZeroDivisionError in stage rules.",
        "source": "generic",
        "service": {"unique_id": world.service.unique_id, "name": "Checkout"},
        "integration": {"unique_id": world.integration.unique_id, "name": "Probe"},
        "router": None,
        "message": "poison",
        "stages": [{"stage": "normalize", "reason": "The level is critical. The sender gave the entity_id."}],
        "body_bytes": len(alert.receipt.body),
        "alerts": 1,
    }


def test_pages_have_links_to_each_other(ask, world, now):
    for _ in range(3):
        add_dead_letter_body(world, now)
    first = ask("GET", f"{PATH}?page_size=2").json
    second = ask("GET", f"{PATH}?page_size=2&page=2").json

    assert first["next"] == f"https://tocsin.example.org{PATH}?page=2&page_size=2"
    ids = [one["id"] for page in (first, second) for one in page["results"]]
    assert len(set(ids)) == 3
    assert ask("GET", f"{PATH}?page=3").status_code == 404


def test_responses_match_the_description(ask, world, now, described):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    one = "/api/tocsin/dead-letters/{dead_letter_id}/"
    asked = (
        ("GET", PATH, PATH),
        ("GET", one, f"{PATH}{body.trace_id}/"),
        ("GET", one, f"{PATH}{alert.unique_id}/"),
        ("POST", f"{one}replay/", f"{PATH}{alert.unique_id}/replay/"),
    )

    for method, path, place in asked:
        content = described.paths[path][method.lower()]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        assert described.find_mismatches(schema, ask(method, place).json) == [], place


def test_members_see_only_dead_letters_of_their_teams(ask, world, now, router_body):
    ours = add_dead_letter_body(world, now)
    theirs = provisioning.create_service(world.charlies_team, "Invoices", world.policy, world.charlie, now)
    other_integration = provisioning.create_integration(theirs, "Door", GENERIC, world.charlie, now)
    charlies = add_dead_letter_body(replace(world, service=theirs, integration=other_integration), now)
    Team.update(account_permissions=[]).execute()

    def list_seen(who):
        return {one["id"] for one in ask("GET", PATH, who=who).json["results"]}

    assert list_seen("alice") == {ours.trace_id, charlies.trace_id, router_body.trace_id}
    assert list_seen("bob") == {ours.trace_id}
    assert list_seen("charlie") == {charlies.trace_id}
    assert list_seen("mallory") == set()
    shown = {
        (who, name): ask("GET", f"{PATH}{body.trace_id}/", who=who).status_code
        for who in ("alice", "bob", "charlie", "mallory")
        for name, body in (("ours", ours), ("routers", router_body))
    }
    assert shown == {
        ("alice", "ours"): 200, ("alice", "routers"): 200, ("bob", "ours"): 200, ("bob", "routers"): 403,
        ("charlie", "ours"): 403, ("charlie", "routers"): 403, ("mallory", "ours"): 404,
        ("mallory", "routers"): 404,
    }  # fmt: skip


def test_a_replayed_body_enqueues_its_lane(ask, world, now, enqueued):
    body = add_dead_letter_body(world, now, message="secret")
    with capture_logs() as logged:
        answer = ask("POST", f"{PATH}{body.trace_id}/replay/", who="bob")

    assert answer.status_code == 200
    assert answer.json == {"message": "The dead letter is replayed.", "trace_id": body.trace_id}
    assert enqueued == [(world.service.id, "normalize")]
    assert Receipt.get().state == WorkState.PENDING
    assert [entry["event"] for entry in logged] == ["dead letter replayed"]
    assert "secret" not in str(logged)


def test_a_replay_records_the_member(ask, world, now, enqueued):
    alert = add_dead_letter_alert(world, now, stage="rules")
    ask("POST", f"{PATH}{alert.unique_id}/replay/", who="bob")

    error = make_reason("alert_failed", error="ZeroDivisionError", stage="rules")
    replayed = make_reason("replayed", by="Bob", error=error)
    assert list_reasons(Event.get())[-1] == ("replay", replayed)
    assert enqueued == [(world.service.id, "normalize")]


def test_a_replayed_router_body_goes_to_the_routers_lane(ask, router_body, enqueued):
    assert ask("POST", f"{PATH}{router_body.trace_id}/replay/").status_code == 200
    assert enqueued == [(GlobalRouter.get().id,)]


def test_a_dropped_dead_letter_keeps_its_reason(ask, world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    with capture_logs() as logged:
        responses = [ask("DELETE", f"{PATH}{one}/", who="bob") for one in (body.trace_id, alert.unique_id)]

    assert [answer.status_code for answer in responses] == [204, 204]
    assert dead_letters.count() == 0
    trace = ask("GET", f"/api/tocsin/alerts/{body.trace_id}/").json
    assert (trace["status"], trace["error"]) == ("failed", f"Dropped by Bob. {ERROR}")
    assert [entry["event"] for entry in logged] == ["dead letter dropped", "dead letter dropped"]


def test_a_second_replay_is_not_found(ask, world, now):
    body = add_dead_letter_body(world, now)
    first, second = (ask("POST", f"{PATH}{body.trace_id}/replay/") for _ in range(2))

    assert (first.status_code, second.status_code) == (200, 404)


def test_only_one_of_two_simultaneous_replays_succeeds(app, world, now, monkeypatch):
    body = add_dead_letter_body(world, now)
    found, barrier = views._access, threading.Barrier(2, timeout=PATIENCE_S)

    def list_both(dead_letter_id):
        one = found(dead_letter_id)
        barrier.wait()
        return one

    monkeypatch.setattr(views, "_access", list_both)
    responses = []
    headers = {"Authorization": f"Bearer {world.tokens['bob']}"}

    def replay():
        responses.append(app.test_client().post(f"{PATH}{body.trace_id}/replay/", headers=headers))

    threads = [threading.Thread(target=replay) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    won, lost = sorted(responses, key=lambda answer: answer.status_code)
    assert (won.status_code, lost.status_code) == (200, 400)
    reason = "Somebody else has replayed or dropped this dead letter in the meantime."
    assert lost.json["errors"] == {"id": [reason]}


def test_a_dead_letter_of_a_deleted_service_cannot_be_replayed(ask, world, now):
    body = add_dead_letter_body(world, now)
    world.service.delete_instance()
    refused = ask("POST", f"{PATH}{body.trace_id}/replay/")

    assert refused.status_code == 400
    reason = "Its integration or router was deleted, so this dead letter can only be dropped."
    assert refused.json["errors"] == {"id": [reason]}
    assert ask("POST", f"{PATH}{body.trace_id}/replay/", who="bob").status_code == 403
    assert ask("DELETE", f"{PATH}{body.trace_id}/").status_code == 204


@pytest.mark.parametrize("bad_id", ["x", "%00", "00000000-0000-4000-8000-000000000009", "A" * 22, "A" * 300])
def test_unknown_ids_are_not_found(ask, bad_id):
    assert ask("GET", f"{PATH}{bad_id}/").status_code == 404
