"""Undos that are refused, or that happen at the same time."""

from threading import Barrier, Thread

import pytest

from models.store.ids import make_short_id
from models.store.store import connection, db
from models.tables.changes import Change
from models.tables.outbound import OutboundTarget
from models.tables.rules import AlertRule
from models.tables.schedules import ScheduleOverride
from models.tables.services import Integration, Service
from models.tables.teams import Tag
from tests.support.contract.samples import OUTGOING_WEBHOOK

TEAM = "/api/account/teams"


def undo(ask, change, **more):
    return ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/", **more)


def find_last():
    return Change.select().where(Change.kind != "").order_by(Change.id.desc()).first()


@pytest.fixture
def service(world):
    return f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"


def test_the_same_undo_twice_at_the_same_time_happens_once(ask, app, world, service):
    ask("PATCH", service, {"name": "Kiosk"})
    change, barrier, statuses = find_last(), Barrier(4), []

    def send():
        with connection():
            barrier.wait()
            path = f"/api/tocsin/changes/{change.unique_id}/undo/"
            headers = {"Authorization": f"Bearer {world.tokens['alice']}"}
            statuses.append(app.test_client().post(path, headers=headers).status_code)

    threads = [Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, 409, 409, 409]
    assert Change.select().where(Change.undoes == change.unique_id).count() == 1
    assert Service.get_by_id(world.service.id).name == world.service.name


def test_ten_thousand_changes_of_one_object_are_undone_one_by_one(ask, world, service):
    ask("PATCH", service, {"name": "Kiosk"})
    first = find_last()
    values = {name: getattr(first, name) for name in ("account", "at", "action", "kind", "object_id", "actor",
                                                      "way", "batch", "fields", "name")}  # fmt: skip
    ids = [make_short_id() for _ in range(10_000)]
    others = [{**values, "unique_id": each, "batch": each} for each in ids]
    with db.atomic():
        for start in range(0, len(others), 500):
            Change.insert_many(others[start : start + 500]).execute()

    assert undo(ask, first).status_code == 200
    assert Service.get_by_id(world.service.id).name == world.service.name
    # The object has the values of before the last change already.
    assert undo(ask, Change.get(Change.unique_id == ids[-1])).status_code == 200
    assert Service.get_by_id(world.service.id).name == world.service.name


@pytest.mark.parametrize(("who", "status"), [("bob", 403), ("charlie", 403), ("mallory", 404)])
def test_who_may_not_write_learns_nothing_of_a_change(ask, world, service, who, status):
    ask("PATCH", service, {"name": "Secret project"})
    change = find_last()

    for _ in range(2):
        refused = undo(ask, change, who=who)
        assert (refused.status_code, "Secret" in refused.text) == (status, False)
        # Undone already: still nothing is said.
        undo(ask, change)
    batch = ask("POST", f"/api/tocsin/changes/{change.batch}/undo/", who=who)
    assert (batch.status_code, "Secret" in batch.text) == (status, False)


def test_unknown_ids_of_changes_are_not_found(ask):
    for unknown in ("x", "%00", "A" * 22, "00000000-0000-4000-8000-000000000000", "é" * 22):
        assert ask("POST", f"/api/tocsin/changes/{unknown}/undo/").status_code == 404


def test_a_change_that_is_too_long_is_kept_without_its_fields_and_not_undone(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/schedules/"
    override = {"user": world.bob.username, "name": "Holidays of the whole team"}
    times = [f"2026-04-{1 + number % 28:02}T{number % 24:02}:" for number in range(2_000)]
    overrides = [{**override, "start_time": f"{at}00:00Z", "end_time": f"{at}30:00Z"} for at in times]
    made = ask("POST", path, {"name": "Nights", "overrides": overrides}).json
    assert find_last().fields is None

    assert ask("PATCH", f"{path}{made['unique_id']}/", {"overrides": []}).status_code == 200
    change = find_last()
    assert (change.action, change.fields, change.kind) == ("changed", None, "schedule")
    refused = undo(ask, change)
    assert (refused.status_code, "too long to be kept" in refused.json["detail"]) == (409, True)
    assert not ScheduleOverride.select().exists()


def test_a_deletion_of_too_many_rows_is_recorded_and_not_undone(ask, world, service, now):
    rules = [
        {
            "unique_id": f"{number:036}",
            "integration": world.integration.id,
            "position": 1,
            "creation_date": now,
        }
        for number in range(3_001)
    ]
    with db.atomic():
        for start in range(0, len(rules), 500):
            AlertRule.insert_many(rules[start : start + 500]).execute()

    assert ask("DELETE", service).status_code == 204
    change = find_last()
    assert (change.action, change.removed) == ("deleted", None)
    refused = undo(ask, change)
    assert (refused.status_code, "no longer kept" in refused.json["detail"]) == (409, True)


def test_the_values_of_a_secret_are_needed_for_no_undo_of_a_creation(ask, world):
    path = f"/api/account/users/{world.bob.username}/contacts/"
    made = ask("POST", path, {"name": "Home", "contact_type": 1, "value": "bob@home.example.org"}).json
    create = find_last()
    assert undo(ask, create).status_code == 200
    assert ask("GET", f"{path}{made['unique_id']}/").status_code == 404


def test_a_creation_whose_secret_was_changed_since_is_not_undone(ask, world):
    path = f"/api/account/users/{world.bob.username}/contacts/"
    made = ask("POST", path, {"name": "Home", "contact_type": 1, "value": "bob@home.example.org"}).json
    create = find_last()
    ask("PATCH", f"{path}{made['unique_id']}/", {"value": "bob@work.example.org"})

    refused = undo(ask, create)

    assert (refused.status_code, "value" in refused.json["detail"]) == (409, True)
    assert ask("GET", f"{path}{made['unique_id']}/").status_code == 200


def test_a_new_team_is_deleted_again_if_it_is_as_it_was_made(ask):
    made = ask("POST", f"{TEAM}/", {"name": "Search"}).json
    create = find_last()
    ask("POST", f"{TEAM}/{made['unique_id']}/tags/", {"name": "db"})

    refused = undo(ask, create)
    assert (refused.status_code, "tag" in refused.json["detail"]) == (409, True)
    Tag.delete().execute()
    assert undo(ask, create).status_code == 200
    assert ask("GET", f"{TEAM}/{made['unique_id']}/").status_code == 404


def test_a_target_that_comes_back_receives_incidents_again(ask, samples_of_outbound, world):
    """The last target of the service was deleted meanwhile, too."""
    path, ids = samples_of_outbound
    assert ask("DELETE", f"{path}{ids[0]}/").status_code == 204
    change = find_last()
    assert ask("DELETE", f"/api/tocsin/integrations/{ids[1]}/outbound/").status_code == 204
    assert not Service.get_by_id(world.service.id).has_outbound

    assert undo(ask, change).status_code == 200
    assert OutboundTarget.get().integration == Integration.get(Integration.unique_id == ids[0])
    assert Service.get_by_id(world.service.id).has_outbound


@pytest.fixture
def samples_of_outbound(ask, service):
    """The path of the integrations of the service, and two outbound integrations with targets."""
    path, ids = f"{service}integrations/", []
    body = {"name": "Tickets", "application": OUTGOING_WEBHOOK, "integration_type": 1}
    for number in range(2):
        ids.append(ask("POST", path, body).json["unique_id"])
        target = {"url": f"https://tickets.example.org/{number}"}
        assert ask("PUT", f"/api/tocsin/integrations/{ids[-1]}/outbound/", target).status_code == 200
    return path, ids
