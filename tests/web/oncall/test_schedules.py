"""Schedules: how layers and overrides are stored, and what is refused."""

from copy import deepcopy
from datetime import timedelta

import pytest
import time_machine

from models.store.ids import make_uuid
from models.tables.schedules import Schedule, ScheduleOverride
from tests.support.offenders import list_offenders

DAY_S = 86_400
START = "2026-03-02T08:00:00Z"


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/schedules/"


@pytest.fixture
def layer(world) -> dict:
    return {"shift_length": DAY_S, "rotation_start_time": START, "users": build_turns(world.alice, world.bob)}


@pytest.fixture
def override(world) -> dict:
    return {"user": world.bob.username, "start_time": START, "end_time": "2026-03-02T10:00:00Z"}


@pytest.fixture
def make(ask, path):
    """make(name="x", ...): the answer to a new schedule."""

    def make(**values):
        made = ask("POST", path, {"name": "Nights", **values})
        assert made.status_code == 201, made.text
        return made.json

    return make


@pytest.fixture
def change(ask, path):
    """change(schedule, {...}): the answer to a change."""
    return lambda schedule, values: ask("PATCH", f"{path}{schedule['unique_id']}/", values)


def build_turns(*people, **more):
    return [{"user": person.username, **more} for person in people]


def test_a_schedule_needs_only_a_name(make, world):
    made = make()

    assert made == {
        "name": "Nights", "summary": "", "description": "", "time_zone": "UTC", "layers": [], "overrides": [],
        "team": world.team.unique_id, "unique_id": made["unique_id"], "connections": 0,
        "shift_time_in_dst": True,
    }  # fmt: skip


def test_handoffs_keep_their_local_time_unless_the_client_says_otherwise(ask, make, path):
    by_default, chosen = make(name="Nights"), make(name="Turns", shift_time_in_dst=False)
    assert (by_default["shift_time_in_dst"], chosen["shift_time_in_dst"]) == (True, False)

    # An update without the field changes nothing.
    for schedule, kept in ((by_default, True), (chosen, False)):
        for method in ("PUT", "PATCH"):
            answer = ask(method, f"{path}{schedule['unique_id']}/", {"name": "Renamed"})
            assert (answer.status_code, answer.json["shift_time_in_dst"]) == (200, kept)


def test_a_layer_is_answered_as_given_with_defaults(make, layer, world):
    made = make(layers=[layer])["layers"][0]

    assert made == {
        "shift_length": DAY_S, "restrictions": [], "name": "Layer-1", "rotation_start_time": START,
        "rotation_end_time": None, "last_edited": None, "restriction_type": 0, "is_active": True,
        "unique_id": made["unique_id"],
        "users": [
            {"user": person.username, "position": place, "unique_id": made["users"][place - 1]["unique_id"]}
            for place, person in enumerate((world.alice, world.bob), start=1)
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("layers_before", "answered"),
    [
        ({"shift_length": "3600"}, {"shift_length": 3600}),
        ({"shift_length": 7200.0}, {"shift_length": 7200}),
        ({"users": None}, {"users": []}),
        ({"restrictions": None}, {"restrictions": []}),
        ({"restrictions": ""}, {"restrictions": []}),
        ({"rotation_end_time": ""}, {"rotation_end_time": None}),
        ({"rotation_end_time": "2026-03-03"}, {"rotation_end_time": "2026-03-03T00:00:00Z"}),
        ({"rotation_start_time": "2026-03-02T10:00:00+02:00"}, {"rotation_start_time": START}),
        (
            {"rotation_start_time": "2026-03-02T08:00:00.5"},
            {"rotation_start_time": "2026-03-02T08:00:00.500000Z"},
        ),
        ({"name": ""}, {"name": "Layer-1"}),
        ({"is_active": "false"}, {"is_active": False}),
        ({"last_edited": "x", "time_zone": "x", "unknown": []}, {"last_edited": None}),
    ],
    ids=str,
)  # fmt: skip
def test_other_forms_of_clients_are_accepted(make, layer, layers_before, answered):
    made = make(layers=[{**layer, **layers_before}])["layers"][0]

    assert {name: made[name] for name in answered} == answered


def test_a_person_may_have_more_than_one_turn_in_the_order_of_positions(make, layer, world):
    alice, bob = world.alice.username, world.bob.username
    users = [{"user": alice, "position": 3}, {"user": bob, "position": "1"}, {"user": bob, "position": 2}]

    by_position = make(layers=[{**layer, "users": users}])["layers"][0]["users"]
    as_listed = make(layers=[{**layer, "users": [*users, {"user": alice}]}])["layers"][0]["users"]

    assert [(turn["user"], turn["position"]) for turn in by_position] == [(bob, 1), (bob, 2), (alice, 3)]
    assert [turn["user"] for turn in as_listed] == [alice, bob, bob, alice]
    assert [turn["position"] for turn in as_listed] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("layers_before", "answered"),
    [("9:5", "09:05:00"), ("09:05:07", "09:05:07"), ("0:0:0", "00:00:00"), (" 23:59 ", "23:59:00")],
)
def test_a_time_of_day_is_answered_with_zeros_and_seconds(make, layer, layers_before, answered):
    restriction = {"duration": 60, "start_time_of_day": layers_before}

    made = make(layers=[{**layer, "restriction_type": 1, "restrictions": [restriction]}])["layers"][0]

    assert made["restrictions"][0]["start_time_of_day"] == answered
    assert made["restrictions"][0]["start_day_of_week"] == 7


@pytest.mark.parametrize(("kind", "day", "status"), [
    (0, 0, 201), (1, 0, 201), (1, 7, 201), (1, None, 201), (2, 1, 201), (2, "7", 201),
    (2, 0, 400), (2, None, 400), (2, 8, 400), (1, 8, 400), (1, -1, 400), (3, 1, 400),
])  # fmt: skip
def test_a_weekly_restriction_needs_a_day(ask, path, layer, kind, day, status):
    restriction = {"duration": 60, "start_time_of_day": "09:00", "start_day_of_week": day}
    layers = [{**layer, "restriction_type": kind, "restrictions": [restriction]}]

    assert ask("POST", path, {"name": "x", "layers": layers}).status_code == status


WRONG_IN_LAYERS = [
    ("shift_length", 3599), ("shift_length", 31_536_001), ("shift_length", None),
    ("shift_length", 3600.5),
    ("rotation_start_time", None), ("rotation_start_time", ""), ("rotation_start_time", "yesterday"),
    ("rotation_end_time", START), ("rotation_end_time", "2020-01-01"), ("rotation_end_time", 7),
    ("restriction_type", 3), ("is_active", None), ("name", "x" * 256), ("users", "x"), ("users", [7]),
    ("users", [{}]), ("users", [{"user": None}]), ("users", [{"user": "x"}]), ("users", [{"user": []}]),
    ("restrictions", [{}]), ("restrictions", [{"duration": 0, "start_time_of_day": "09:00"}]),
    ("restrictions", [{"duration": 604_801, "start_time_of_day": "09:00"}]),
    ("restrictions", [{"duration": 60, "start_time_of_day": "24:00"}]),
    ("restrictions", [{"duration": 60, "start_time_of_day": "nine"}]),
    ("restrictions", [{"duration": 60, "start_time_of_day": "09:60"}]),
    ("restrictions", [{"duration": 60, "start_time_of_day": None}]),
    ("restrictions", [{"duration": 60, "start_time_of_day": "\u0660\u0669:\u0660\u0660"}]),
]  # fmt: skip


def test_an_invalid_layer_is_refused(ask, path, make, change, layer):
    def check(case):
        field, wrong = case
        schedule = make(layers=[layer])

        refused = change(schedule, {"name": "Changed", "layers": [layer, {**layer, field: wrong}]})

        assert refused.status_code == 400
        assert ask("GET", f"{path}{schedule['unique_id']}/").json == schedule

    assert list_offenders(check, WRONG_IN_LAYERS) == []


WRONG_IN_OVERRIDES = [
    ("user", None), ("user", "x"), ("user", ""), ("start_time", None), ("end_time", ""),
    ("end_time", START), ("end_time", "2026-03-02T07:59:59Z"), ("name", []),
]  # fmt: skip


def test_an_invalid_override_is_refused(ask, path, make, change, override):
    def check(case):
        field, wrong = case
        schedule = make(overrides=[override])

        refused = change(schedule, {"overrides": [override, {**override, field: wrong}]})

        assert refused.status_code == 400
        assert ask("GET", f"{path}{schedule['unique_id']}/").json == schedule

    assert list_offenders(check, WRONG_IN_OVERRIDES) == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Calcutta", "", None])
def test_a_valid_time_zone_is_accepted(make, zone):
    assert make(time_zone=zone)["time_zone"] == (zone or "UTC")


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "localtime", 7, "x" * 300])
def test_an_unknown_time_zone_is_refused(ask, path, zone):
    assert ask("POST", path, {"name": "x", "time_zone": zone}).status_code == 400


@pytest.mark.parametrize("field", ["layers", "overrides"])
def test_a_turn_of_a_person_of_another_account_is_refused(ask, path, layer, override, world, field):
    stranger = {**override, "user": world.mallory.username}
    one = {"layers": {**layer, "users": build_turns(world.bob, world.mallory)}, "overrides": stranger}[field]

    refused = ask("POST", path, {"name": "x", field: [one]}, scheme="Token")

    place = {"layers": "layers.0.users.1", "overrides": "overrides.0"}[field]
    assert (refused.status_code, list(refused.json["errors"])) == (400, [place])
    assert Schedule.select().count() == 0


@pytest.mark.parametrize("field", ["layers", "overrides"])
def test_a_turn_of_a_removed_user_is_refused(ask, path, layer, override, world, now, field):
    world.bob.removed_at = now
    world.bob.save()
    one = {"layers": layer, "overrides": override}[field]

    assert ask("POST", path, {"name": "x", field: [one]}).status_code == 400


def test_any_member_of_the_account_may_have_a_turn(make, layer, world):
    users = make(layers=[{**layer, "users": build_turns(world.charlie)}])["layers"][0]["users"]

    assert [turn["user"] for turn in users] == [world.charlie.username]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_answer_that_is_sent_back_changes_nothing(ask, path, make, layer, override, method):
    restriction = {"duration": 60, "start_time_of_day": "9:00", "start_day_of_week": 3}
    weekly = {**layer, "restriction_type": 2, "restrictions": [restriction]}
    schedule = make(layers=[layer, weekly], overrides=[override, {**override, "name": "Again"}])

    assert ask(method, f"{path}{schedule['unique_id']}/", schedule).json == schedule
    assert ask(method, f"{path}{schedule['unique_id']}/", remove_nulls(schedule)).json == schedule


def remove_nulls(value):
    """Return the value without nulls, in the form in which the published Python client sends it."""
    if isinstance(value, list):
        return [remove_nulls(one) for one in value]
    if isinstance(value, dict):
        return {name: remove_nulls(one) for name, one in value.items() if one is not None}
    return value


def test_a_missing_list_stays_and_a_given_list_replaces(make, change, layer, override):
    schedule = make(layers=[layer], overrides=[override])

    assert change(schedule, {"summary": "x"}).json == {**schedule, "summary": "x"}
    assert change(schedule, {"layers": []}).json["overrides"] == schedule["overrides"]
    emptied = change(schedule, {"overrides": ""}).json
    assert (emptied["layers"], emptied["overrides"]) == ([], [])
    assert ScheduleOverride.select().count() == 0


def test_only_the_changed_layer_has_a_new_edit_time(make, change, layer, world):
    schedule = make(layers=[layer, {**layer, "name": "Second"}])
    layers_before = deepcopy(schedule["layers"])
    layers_before[1]["users"].reverse()
    for turn in layers_before[1]["users"]:
        del turn["position"]

    first, second = change(schedule, {"layers": layers_before}).json["layers"]

    assert first == schedule["layers"][0]
    assert second["last_edited"] is not None
    assert second["unique_id"] == schedule["layers"][1]["unique_id"]
    assert [turn["user"] for turn in second["users"]] == [world.bob.username, world.alice.username]
    again = change(schedule, {"layers": [second, first]}).json["layers"]
    assert again == [second, first]


def test_a_layer_without_the_ids_of_its_items_is_unchanged(make, change, layer):
    schedule = make(layers=[layer])

    sent = {**layer, "unique_id": schedule["layers"][0]["unique_id"]}

    assert change(schedule, {"layers": [sent]}).json == schedule


def test_ids_chosen_by_a_client_are_kept_without_duplicates(make, layer, override):
    chosen, users = make_uuid(), [{**turn, "unique_id": make_uuid()} for turn in layer["users"]]
    first = {**layer, "unique_id": chosen.upper(), "users": users}

    made = make(layers=[first, first], overrides=[{**override, "unique_id": chosen}] * 2)

    assert made["layers"][0]["unique_id"] == chosen
    assert [turn["unique_id"] for turn in made["layers"][0]["users"]] == [turn["unique_id"] for turn in users]
    assert made["overrides"][0]["unique_id"] == chosen
    ids = [one["unique_id"] for layer in made["layers"] for one in (layer, *layer["users"])]
    assert len(set(ids)) == 6
    assert made["overrides"][1]["unique_id"] != chosen


ODD_IDS = ["x", "", None, 7, [], {}, "00000000-0000-1000-8000-000000000000"]


def test_an_invalid_id_is_ignored(make, layer, override):
    def check(odd):
        made = make(layers=[{**layer, "unique_id": odd}], overrides=[{**override, "unique_id": odd}])

        assert odd not in (made["layers"][0]["unique_id"], made["overrides"][0]["unique_id"])

    assert list_offenders(check, ODD_IDS) == []


def test_the_id_of_an_override_of_another_schedule_is_not_used(ask, make, override, world):
    theirs = ask(
        "POST",
        f"/api/account/teams/{world.mallorys_team.unique_id}/schedules/",
        {"name": "x", "overrides": [{**override, "user": world.mallory.username}]},
        who="mallory",
    ).json["overrides"][0]

    mine = make(overrides=[{**override, "unique_id": theirs["unique_id"]}])["overrides"][0]

    assert mine["unique_id"] != theirs["unique_id"]
    assert ScheduleOverride.get(ScheduleOverride.unique_id == theirs["unique_id"]).user == world.mallory


def test_known_overrides_keep_their_creation_date(make, change, override, store):
    schedule = make(overrides=[override])
    born = ScheduleOverride.get().creation_date

    with time_machine.travel(born + timedelta(days=1)):
        changed = change(schedule, {"overrides": [{**schedule["overrides"][0], "name": "x"}, override]}).json

    override_kept = ScheduleOverride.select().where(
        ScheduleOverride.unique_id == changed["overrides"][0]["unique_id"]
    )
    assert override_kept.get().creation_date == born
    assert [one["name"] for one in changed["overrides"]] == ["x", "Override-2"]


@pytest.mark.parametrize(
    ("field", "count"), [("layers", 51), ("overrides", 2001), ("users", 101), ("restrictions", 101)]
)
def test_the_length_of_each_list_is_limited(ask, path, layer, override, field, count):
    restriction = {"duration": 60, "start_time_of_day": "9:00"}
    lists = {
        "layers": {"layers": [layer] * count},
        "overrides": {"overrides": [override] * count},
        "users": {"layers": [{**layer, "users": layer["users"][:1] * count}]},
        "restrictions": {"layers": [{**layer, "restrictions": [restriction] * count}]},
    }

    assert ask("POST", path, {"name": "x", **lists[field]}).status_code == 400


def test_the_maximum_number_of_overrides_is_accepted(make, change, override, ask, path):
    schedule = make(overrides=[override] * 2000)

    assert len(schedule["overrides"]) == 2000
    assert change(schedule, {"overrides": schedule["overrides"]}).json == schedule


def list_names(schedule_id):
    return [{"delay": 0, "targets": [{"target_type": 1, "target_id": schedule_id}] * 2}]


def test_connections_are_the_number_of_policies_that_name_the_schedule(ask, path, make, world):
    schedule, other = make(), make()
    policies = f"/api/account/teams/{world.team.unique_id}/escalation_policies/"
    for _ in range(2):
        assert (
            ask("POST", policies, {"name": "x", "rules": list_names(schedule["unique_id"])}).status_code
            == 201
        )

    assert [one["connections"] for one in ask("GET", path).json] == [2, 0]
    assert ask("GET", f"{path}{schedule['unique_id']}/").json["connections"] == 2
    assert ask("GET", f"{path}{other['unique_id']}/").json["connections"] == 0


def test_a_schedule_that_a_policy_names_can_be_deleted(ask, path, make, world):
    schedule = make()
    policy = f"/api/account/teams/{world.team.unique_id}/escalation_policies/{world.policy.unique_id}/"
    ask("PATCH", policy, {"rules": list_names(schedule["unique_id"])})

    assert ask("DELETE", f"{path}{schedule['unique_id']}/").status_code == 204

    left = ask("GET", policy).json
    assert left["rules"][0]["targets"][0]["target_id"] == schedule["unique_id"]
    # An override that is sent back is accepted together with other changes.
    assert ask("PUT", policy, {**left, "name": "Changed"}).json["name"] == "Changed"
    new_policy_path = f"/api/account/teams/{world.team.unique_id}/escalation_policies/"
    assert ask("POST", new_policy_path, left).status_code == 400


def test_both_paths_serve_the_same_schedules(ask, path, make):
    schedule = make()
    other = path.replace("/schedules/", "/schedule/")

    assert ask("GET", other).json == [schedule]
    assert ask("GET", f"{other}{schedule['unique_id']}/").json == schedule
    assert ask("POST", other, {"name": "Second"}).status_code == 201
    assert [one["name"] for one in ask("GET", path).json] == ["Nights", "Second"]


def test_a_longer_list_needs_no_more_queries(ask, path, make, layer, override, statements):
    def count():
        with statements() as seen:
            assert ask("GET", path).status_code == 200
        return len(seen)

    make(layers=[layer], overrides=[override])
    ask("GET", path)
    one = count()
    for _ in range(5):
        make(layers=[layer] * 3, overrides=[override] * 3)

    assert count() == one


def test_a_deletion_of_a_team_deletes_its_schedules(ask, make, override, world):
    make(overrides=[override])
    ask("DELETE", f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/")

    assert ask("DELETE", f"/api/account/teams/{world.team.unique_id}/").status_code == 204
    assert (Schedule.select().count(), ScheduleOverride.select().count()) == (0, 0)
