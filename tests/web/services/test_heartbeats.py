"""Heartbeats: pings to every address, and the pings that an integration expects."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models.domain.applications import GENERIC, HEARTBEAT
from models.domain.reasons import make_reason
from models.load.lane import lock_service
from models.store.store import connection, db
from models.store.store import store as opened_store
from models.tables.events import Event, Receipt, list_reasons
from models.tables.services import Integration
from tests.support.polling import PATIENCE_S, wait_until
from workers.alerts import process_lane
from workers.periodic import missing_heartbeats


@pytest.fixture
def made(ask, world):
    """The answer to a new integration of the application Heartbeat."""
    path = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/integrations/"
    answer = ask("POST", path, {"name": "Backup", "application": HEARTBEAT})
    assert answer.status_code == 201
    return answer.json


@pytest.fixture
def settings_of(made):
    return f"/api/tocsin/integrations/{made['unique_id']}/heartbeat/"


@pytest.fixture
def path_of(made, world):
    key = made["integration_key"]
    return {
        "its webhook": made["webhook_url"].removeprefix("https://tocsin.example.org"),
        "with the account": f"/integration/{world.account.account_identifier}/heartbeat/{key}/",
        "the deprecated one": f"/api/events/{key}/",
    }


def get_row(made):
    return Integration.get(Integration.unique_id == made["unique_id"])


FORMS = {"its webhook": 200, "with the account": 200, "the deprecated one": 201}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", [b"", b"3 GB in 20 min", b'{"message": "3 GB"}'])
def test_any_body_to_any_address_of_the_key_is_a_ping(ask, made, path_of, world, form, body):
    Integration.update(expected_at=None).execute()
    answer = ask("POST", path_of[form], who=None, data=body)
    assert answer.status_code == FORMS[form]
    process_lane.run(world.service.id)

    receipt, event = Receipt.get(), Event.get()
    assert (receipt.source, bytes(receipt.body)) == ("heartbeat", body)
    assert event.entity_id == "heartbeat"
    assert list_reasons(event)[-1] == ("dedupe", make_reason("nothing_to_resolve"))
    assert get_row(made).expected_at == receipt.received_at + timedelta(seconds=360)


@pytest.mark.parametrize("form", ["its webhook", "with the account"])
def test_a_get_is_a_ping_that_must_not_be_cached(ask, made, path_of, form):
    answer = ask("GET", path_of[form], who=None)

    assert (answer.status_code, answer.json["message"]) == (200, "success")
    assert answer.headers["Cache-Control"] == "no-store"
    assert Receipt.select().count() == 1


@pytest.mark.parametrize(("method", "form"), [("GET", "its webhook"), *(("POST", form) for form in FORMS)])
def test_a_ping_without_a_body_can_report_a_failure_in_the_url(ask, made, path_of, world, method, form):
    ask(method, f"{path_of[form]}?status=failed&message=Disk+full", who=None)
    process_lane.run(world.service.id)

    assert (Event.get().message, Event.get().incident_created) == ("Disk full", True)


def test_a_get_is_not_a_ping_for_other_applications(ask, world, made):
    key = made["integration_key"]
    for path in (f"/api/integration/generic/{key}/", f"/api/events/{key}/"):
        assert ask("GET", path, who=None).status_code == 405

    assert Receipt.select().count() == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_broken_json_object_is_refused_and_not_stored(ask, path_of, form):
    assert ask("POST", path_of[form], who=None, data=b"{status: failed}").status_code == 400

    assert Receipt.select().count() == 0


def test_keys_of_other_applications_still_refuse_an_invalid_alert(ask, world):
    path = f"/api/events/{world.integration.integration_key}/"

    assert [ask("POST", path, who=None, data=body).status_code for body in (b"", b"done", b"{}")] == [400] * 3


def test_an_unknown_or_disabled_key_is_not_found(ask, made, path_of):
    Integration.update(is_enabled=False).execute()

    for form in FORMS:
        assert ask("POST", path_of[form], who=None).status_code == 404
    assert ask("GET", "/api/integration/heartbeat/00000000-0000-4000-8000-000000000000/").status_code == 404


# --- expected pings ----------------------------------------------------------------------------------


def test_a_new_heartbeat_expects_a_ping_every_five_minutes(ask, made, settings_of):
    shown = ask("GET", settings_of).json

    assert (shown["every"], shown["grace"], shown["last_ping"], shown["is_missing"]) == (300, 60, None, False)
    row = get_row(made)
    assert row.expected_at - row.creation_date == timedelta(seconds=360)


def test_a_heartbeat_shows_its_last_ping_and_whether_a_ping_is_missing(
    ask, made, settings_of, path_of, world
):
    ask("GET", path_of["its webhook"], who=None)
    process_lane.run(world.service.id)
    accepted_at = Receipt.get().received_at
    assert ask("GET", settings_of).json["last_ping"] == f"{accepted_at:%Y-%m-%dT%H:%M:%S.%f}Z"

    Integration.update(expected_at=accepted_at).execute()
    assert ask("GET", settings_of).json["is_missing"] is True
    Integration.update(expected_at=None).execute()
    assert ask("GET", settings_of).json["is_missing"] is True


def test_a_missing_ping_stays_missing_until_the_next_ping(ask, made, settings_of, path_of, world):
    """A new period in the meantime does not change this."""
    Integration.update(is_missing=True).execute()
    assert ask("GET", settings_of).json["is_missing"] is True

    ask("GET", path_of["its webhook"], who=None)
    process_lane.run(world.service.id)
    assert ask("GET", settings_of).json["is_missing"] is False


def test_a_change_of_the_period_keeps_the_time_of_the_last_ping(ask, made, settings_of, path_of, world):
    ask("GET", path_of["its webhook"], who=None)
    process_lane.run(world.service.id)
    ask("PUT", settings_of, {"every": 3600})

    assert get_row(made).last_ping_at == Receipt.get().received_at


def test_a_new_period_begins_now(ask, made, settings_of):
    Integration.update(expected_at=None).execute()
    shown = ask("PUT", settings_of, {"every": 3600}).json

    assert (shown["every"], shown["grace"], shown["is_missing"]) == (3600, 60, False)
    left = get_row(made).expected_at - opened_store().now()
    assert timedelta(seconds=3600) < left <= timedelta(seconds=3660)


def test_a_period_of_zero_expects_no_ping(ask, made, settings_of):
    shown = ask("PUT", settings_of, {"every": 0}).json

    assert (shown["expected_at"], shown["is_missing"]) == (None, False)


@pytest.mark.parametrize(
    "body", [{"every": 29}, {"every": 31 * 86_400 + 1}, {"every": -1}, {"grace": -1}, {"every": "often"}]
)
def test_an_invalid_period_is_refused(ask, made, settings_of, body):
    assert ask("PUT", settings_of, body).status_code == 400
    assert get_row(made).heartbeat_interval == 300


def test_only_integrations_of_the_application_expect_pings(ask, world):
    path = f"/api/tocsin/integrations/{world.integration.unique_id}/heartbeat/"

    assert [ask(method, path, {"every": 60}).status_code for method in ("GET", "PUT")] == [400, 400]


def test_members_read_a_heartbeat_and_managers_change_it(ask, settings_of):
    shown = {
        who: [ask(m, settings_of, {}, who=who).status_code for m in ("GET", "PUT")]
        for who in ("bob", "charlie")
    }

    assert shown == {"bob": [200, 403], "charlie": [403, 403]}


# --- changes of the integration ----------------------------------------------------------------------


@pytest.fixture
def change(ask, world):
    def change(unique_id, **values):
        team, service = world.team.unique_id, world.service.unique_id
        path = f"/api/account/teams/{team}/services/{service}/integrations/{unique_id}/"
        assert ask("PATCH", path, values).status_code == 200

    return change


def test_an_integration_that_is_enabled_again_starts_a_new_period(made, change, ask, settings_of):
    ask("PUT", settings_of, {"every": 3600, "grace": 0})
    change(made["unique_id"], is_enabled=False)
    assert (get_row(made).expected_at, ask("GET", settings_of).json["is_missing"]) == (None, False)

    change(made["unique_id"], is_enabled=True)
    left = get_row(made).expected_at - opened_store().now()
    assert timedelta(seconds=3590) < left <= timedelta(seconds=3600)


def test_a_new_name_does_not_change_the_expected_ping(made, change):
    before = get_row(made).expected_at
    change(made["unique_id"], name="Night backup", is_enabled=True)

    assert get_row(made).expected_at == before


def test_a_change_of_the_application_resets_the_heartbeat(made, change):
    change(made["unique_id"], application=GENERIC)
    assert (get_row(made).heartbeat_interval, get_row(made).expected_at) == (0, None)

    change(made["unique_id"], application=HEARTBEAT.upper())
    assert get_row(made).heartbeat_interval == 300
    assert get_row(made).expected_at is not None


def test_a_change_waits_for_the_lane_that_uses_the_old_period(ask, made, settings_of, world, store):
    """Else a ping would be processed with the old, longer period, and a missing ping would be found late."""
    holds, leave = threading.Event(), threading.Event()

    def lane():
        with connection(), store.write_transaction():
            lock_service(world.service.id)
            holds.set()
            leave.wait(PATIENCE_S)
            late = opened_store().now() + timedelta(days=1)
            Integration.update(expected_at=late).execute()
        db.close()

    with ThreadPoolExecutor(2) as pool:
        working = pool.submit(lane)
        wait_until(holds.is_set)
        asking = pool.submit(ask, "PUT", settings_of, {"every": 60, "grace": 0})
        assert not asking.done()
        leave.set()
        assert (working.result(), asking.result().status_code) == (None, 200)

    assert get_row(made).expected_at < opened_store().now() + timedelta(seconds=61)


def test_a_heartbeat_without_a_period_causes_no_writes(world, statements):
    with statements() as seen:
        assert missing_heartbeats.report_missing() == 0

    assert [sql for sql, _ in seen if not sql.startswith("SELECT")] == []
