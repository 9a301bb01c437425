"""Maintenance windows: what is stored and what is refused."""

import pytest

from models.people import provisioning
from models.tables.services import Maintenance, MaintenanceService
from tests.support.offenders import list_offenders

START, END = "2026-03-08T22:00:00Z", "2026-03-08T23:30:00Z"


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/maintenance/"


@pytest.fixture
def search(world, now):
    """A second service of the team."""
    return provisioning.create_service(world.team, "Search", world.policy, world.alice, now)


@pytest.fixture
def body(world) -> dict:
    return {"start_time": START, "end_time": END, "services": [{"service": world.service.unique_id}]}


@pytest.fixture
def window(ask, path, body) -> dict:
    return ask("POST", path, body).json


@pytest.fixture
def change(ask, path, window):
    return lambda values, method="PATCH": ask(method, f"{path}{window['unique_id']}/", values)


def test_a_window_needs_only_three_fields(window, world):
    inside = window["services"][0]

    assert window == {
        "unique_id": window["unique_id"], "start_time": START, "end_time": END, "repeat_interval": 0,
        "services": [{"unique_id": inside["unique_id"], "service": world.service.unique_id}],
        "creation_date": window["creation_date"], "name": "", "time_zone": "UTC", "repeat_until": None,
        "maintenance_template": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ({"repeat_interval": "7"}, {"repeat_interval": 7}),
        ({"repeat_interval": 7.0}, {"repeat_interval": 7}),
        ({"repeat_until": ""}, {"repeat_until": None}),
        ({"repeat_until": None}, {"repeat_until": None}),
        ({"repeat_until": "2026-04-08"}, {"repeat_until": "2026-04-08T00:00:00Z"}),
        ({"start_time": "2026-03-08T22:00:00"}, {"start_time": START}),
        ({"start_time": "2026-03-08T23:00:00.25+01:00"}, {"start_time": "2026-03-08T22:00:00.250000Z"}),
        ({"time_zone": "Asia/Calcutta"}, {"time_zone": "Asia/Calcutta"}),
        ({"time_zone": ""}, {"time_zone": "UTC"}),
        ({"name": None}, {"name": ""}),
        ({"maintenance_template": "x", "creation_date": "", "unique_id": ""}, {"maintenance_template": None}),
    ],
    ids=str,
)
def test_other_forms_of_clients_are_accepted(ask, path, body, text, answered):
    made = ask("POST", path, {**body, **text})

    assert made.status_code == 201
    assert {name: made.json[name] for name in answered} == answered


def test_services_may_be_given_as_ids(ask, path, body, world, search):
    ids = [search.unique_id, world.service.unique_id.upper()]

    made = ask("POST", path, {**body, "services": ids}).json

    assert [one["service"] for one in made["services"]] == [search.unique_id, world.service.unique_id]


WRONG_WINDOWS = [
    {"start_time": None}, {"start_time": ""}, {"start_time": "x"}, {"end_time": START}, {"end_time": []},
    {"end_time": "2026-03-08T21:00:00Z"}, {"repeat_interval": -1}, {"repeat_interval": 1.5},
    {"repeat_interval": 10**9}, {"repeat_until": START}, {"repeat_until": "x"}, {"time_zone": "Mars"},
    {"services": []}, {"services": None}, {"services": ""}, {"services": "x"}, {"services": [{}]},
    {"services": [None]}, {"services": [7]}, {"services": ["x"]}, {"services": [{"service": ""}]},
    {"services": [{"service": "00000000-0000-4000-8000-000000000000"}]}, {"name": []},
    {"services": ["x"] * 501},
]  # fmt: skip


def test_an_invalid_window_is_refused(ask, path, body, window, change):
    def check(wrong):
        assert ask("POST", path, {**body, **wrong}).status_code == 400
        assert change(wrong).status_code == 400
        assert ask("GET", path).json == [window]

    assert list_offenders(check, WRONG_WINDOWS, lambda wrong: str(wrong)[:60]) == []


@pytest.mark.parametrize("missing", ["start_time", "end_time", "services"])
def test_a_window_without_a_required_field_is_refused(ask, path, body, missing):
    del body[missing]

    refused = ask("POST", path, body, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, [missing])
    assert Maintenance.select().count() == 0


def test_duplicate_services_and_services_of_another_team_are_refused(ask, path, body, world, now):
    policy = provisioning.create_team(world.account, "x", world.charlie, now).escalationpolicy_set.get()
    charlies = provisioning.create_service(world.charlies_team, "x", policy, world.charlie, now)
    mallorys = provisioning.create_service(world.mallorys_team, "x", policy, world.mallory, now)
    mine = world.service.unique_id

    for services, place in (
        ([mine, {"service": mine}], "services"),
        ([mine, charlies.unique_id], "services.1"),
        ([mallorys.unique_id], "services.0"),
    ):
        refused = ask("POST", path, {**body, "services": services}, scheme="Token")
        assert (refused.status_code, list(refused.json["errors"])) == (400, [place])
    assert (Maintenance.select().count(), MaintenanceService.select().count()) == (0, 0)


def test_a_missing_field_stays_unchanged(change, window, body):
    changed = change({"name": "Disks", "repeat_interval": 7, "repeat_until": "2027-01-01"}).json
    assert changed["services"] == window["services"]

    put = change(body, "PUT").json

    assert put == {**changed, "services": put["services"]}
    assert put["services"] == window["services"]


def test_the_rules_between_fields_include_unchanged_fields(change):
    assert change({"end_time": "2026-03-08T21:00:00Z"}).status_code == 400
    assert change({"start_time": END}).status_code == 400
    assert change({"repeat_until": "2026-03-09"}).status_code == 200
    later = {"start_time": "2026-03-10T22:00:00Z", "end_time": "2026-03-10T23:00:00Z"}
    assert change(later).status_code == 400
    assert change({**later, "repeat_until": ""}).json["repeat_until"] is None


def test_a_service_that_stays_in_a_window_keeps_its_id(change, window, search, world):
    window_service = window["services"][0]

    both = change({"services": [{"service": search.unique_id}, window_service]}).json["services"]
    alone = change({"services": [search.unique_id]}).json["services"]

    assert both[1] == window_service
    assert alone == both[:1]
    assert MaintenanceService.select().count() == 1


def test_the_list_is_in_the_order_of_creation(ask, path, body):
    for name in "abc":
        ask("POST", path, {**body, "name": name})

    assert [one["name"] for one in ask("GET", path).json] == ["a", "b", "c"]


def test_a_longer_list_needs_no_more_queries(ask, path, body, window, statements, search):
    def count():
        with statements() as seen:
            assert ask("GET", path).status_code == 200
        return len(seen)

    ask("GET", path)
    one = count()
    for _ in range(5):
        ask("POST", path, {**body, "services": [*body["services"], search.unique_id]})

    assert count() == one


def test_a_deletion_of_a_window_deletes_its_rows(ask, path, window, world):
    assert ask("DELETE", f"{path}{window['unique_id']}/").status_code == 204
    assert ask("GET", f"{path}{window['unique_id']}/").status_code == 404
    assert MaintenanceService.select().count() == 0


def test_a_window_stays_when_its_service_is_deleted(ask, path, window, world):
    ask("DELETE", f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/")

    assert ask("GET", f"{path}{window['unique_id']}/").json == {**window, "services": []}


def test_a_window_is_found_only_under_its_team(ask, path, window, world):
    other_team_path = path.replace(world.team.unique_id, world.charlies_team.unique_id)

    assert ask("GET", f"{other_team_path}{window['unique_id']}/").status_code == 404
    assert ask("GET", other_team_path).json == []
