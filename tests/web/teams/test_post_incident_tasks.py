"""Post-incident tasks of a team."""

import pytest

from models.tables.accounts import ConfigVersion, User
from models.tables.tasks import PostIncidentTask


@pytest.fixture
def tasks(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/post_incident_tasks/"


def test_a_task_with_only_required_fields_has_defaults(ask, tasks, world):
    made = ask("POST", tasks, {"title": "Buy a disk"}).json

    expected = {
        "description": "", "team": world.team.unique_id, "status": 0, "due_in_time": None, "assigned_to": "",
        "assigned_to_obj": None,
    }  # fmt: skip
    assert {name: made[name] for name in expected} == expected


def test_a_task_is_created_changed_and_deleted(ask, tasks, world):
    body = {"title": "Buy a disk", "assigned_to": world.bob.username, "due_in_time": "2026-12-01T09:00:00Z"}
    made = ask("POST", tasks, body).json
    one = f"{tasks}{made['unique_id']}/"

    assert made["due_in_time"] == "2026-12-01T09:00:00Z"
    person = {"first_name": "Bob", "last_name": "", "username": world.bob.username}
    assert (made["assigned_to"], made["assigned_to_obj"]) == (world.bob.username, person)
    assert ask("PATCH", one, {"status": "2"}).json == {**made, "status": 2}
    unassigned = ask("PUT", one, {"title": "x", "assigned_to": "", "due_in_time": ""}).json
    assert unassigned == {
        **made, "title": "x", "status": 2, "assigned_to": "", "assigned_to_obj": None, "due_in_time": None,
    }  # fmt: skip
    assert ask("GET", one).json == unassigned
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_tasks_are_listed_page_by_page_newest_last(ask, tasks):
    for number in range(12):
        ask("POST", tasks, {"title": str(number)})

    first = ask("GET", tasks).json
    second = ask("GET", f"{tasks}?page=2").json

    assert (first["count"], first["previous"], second["next"]) == (12, None, None)
    assert first["next"] == f"https://tocsin.example.org{tasks}?page=2&page_size=10"
    assert [task["title"] for task in first["results"] + second["results"]] == [*map(str, range(12))]
    assert len(ask("GET", f"{tasks}?page_size=100").json["results"]) == 12
    assert ask("GET", f"{tasks}?page=3").status_code == 404


def test_a_team_without_tasks_has_an_empty_page(ask, tasks):
    assert ask("GET", tasks).json == {"count": 0, "next": None, "previous": None, "results": []}


def test_the_assignee_must_be_a_member_of_the_account(ask, tasks, world, now):
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()

    for who in (world.mallory, world.charlie):
        refused = ask("POST", tasks, {"title": "x", "assigned_to": who.username}, scheme="Token")
        assert (refused.status_code, list(refused.json["errors"])) == (400, ["assigned_to"])


@pytest.mark.parametrize(
    "wrong",
    [{"title": ""}, {"status": 3}, {"status": None}, {"due_in_time": "soon"}, {"due_in_time": 5}],
    ids=str,
)
def test_an_invalid_task_is_refused(ask, tasks, wrong):
    assert ask("POST", tasks, {"title": "x", **wrong}).status_code == 400
    assert PostIncidentTask.select().count() == 0


def test_a_task_does_not_raise_the_version_of_the_configuration(ask, tasks):
    before = [row.version for row in ConfigVersion.select()]

    ask("POST", tasks, {"title": "x"})

    assert [row.version for row in ConfigVersion.select()] == before
