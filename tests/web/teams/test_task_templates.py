"""Task templates, and the tasks in them."""

import pytest

from models.tables.services import Service
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import IncidentRole
from web.teams.task_templates import MAX_TASKS


@pytest.fixture
def templates(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/task_templates/"


@pytest.fixture
def template(ask, templates) -> dict:
    return ask("POST", templates, {"name": "Outage"}).json


@pytest.fixture
def tasks(templates, template) -> str:
    return f"{templates}{template['unique_id']}/tasks/"


def test_a_template_is_created_changed_and_deleted(ask, templates, template, world):
    one = f"{templates}{template['unique_id']}/"

    assert (template["summary"], template["due_immediately"], "team" in template) == ("", 0, False)
    assert ask("GET", one).json == {**template, "team": world.team.unique_id}
    assert ask("PATCH", one, {"due_immediately": "1"}).json["due_immediately"] == 1
    assert ask("PUT", one, {"name": "Breach"}).json["due_immediately"] == 1
    assert ask("PUT", one, {"summary": "x"}).status_code == 400
    assert [each["name"] for each in ask("GET", templates).json] == ["Breach"]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


@pytest.mark.parametrize("wrong", [{"name": ""}, {"due_immediately": 2}, {"due_immediately": None}], ids=str)
def test_an_invalid_template_is_refused(ask, templates, wrong):
    assert ask("POST", templates, {"name": "Outage", **wrong}).status_code == 400


def test_a_service_can_use_a_template_of_its_team(ask, world, template):
    service = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/"
    theirs = f"/api/account/teams/{world.charlies_team.unique_id}/task_templates/"
    foreign = ask("POST", theirs, {"name": "x"}, who="charlie").json["unique_id"]

    refused = ask("PATCH", service, {"task_template": foreign}, scheme="Token")
    assert (refused.status_code, list(refused.json["errors"])) == (400, ["task_template"])
    changed = ask("PATCH", service, {"task_template": template["unique_id"].upper()})
    assert changed.json["task_template"] == template["unique_id"]
    assert ask("PATCH", service, {"name": "x"}).json["task_template"] == template["unique_id"]
    assert ask("PATCH", service, {"task_template": ""}).json["task_template"] is None


def test_a_deletion_of_a_template_removes_it_from_services(ask, templates, template):
    Service.update(task_template=TaskTemplate.get()).execute()

    assert ask("DELETE", f"{templates}{template['unique_id']}/").status_code == 204
    assert Service.get().task_template_id is None


def test_a_task_with_only_required_fields_has_defaults(ask, tasks, template):
    made = ask("POST", tasks, {"title": "Look"}).json

    expected = {
        "task_template": template["unique_id"], "title": "Look", "description": "", "due_in": -1, "role": "",
        "position": 1,
    }  # fmt: skip
    assert {name: made[name] for name in expected} == expected


def test_a_task_is_created_changed_and_deleted(ask, tasks, world):
    role = IncidentRole.get(IncidentRole.team == world.team).unique_id
    made = ask("POST", tasks, {"title": "Look", "due_in": "10080", "role": role}).json
    one = f"{tasks}{made['unique_id']}/"

    assert (made["due_in"], made["role"]) == (10_080, role)
    assert ask("PUT", one, {"title": "Look again"}).json == {**made, "title": "Look again"}
    assert ask("PATCH", one, {"role": "", "due_in": 0}).json == {
        **made, "title": "Look again", "role": "", "due_in": 0,
    }  # fmt: skip
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", tasks).json == []


def test_tasks_keep_their_order_and_a_new_task_is_the_last(ask, tasks):
    for title, position in (("a", None), ("b", 0), ("c", 1), ("d", "")):
        assert ask("POST", tasks, {"title": title, "position": position}).status_code == 201

    listed = [(task["title"], task["position"]) for task in ask("GET", tasks).json]

    assert listed == [("a", 1), ("c", 1), ("b", 2), ("d", 3)]


def test_a_deletion_of_a_role_removes_it_from_tasks(ask, tasks, world):
    role = IncidentRole.get(IncidentRole.team == world.team).unique_id
    ask("POST", tasks, {"title": "Look", "role": role})

    assert ask("DELETE", f"/api/account/teams/{world.team.unique_id}/roles/{role}/").status_code == 204
    assert ask("GET", tasks).json[0]["role"] == ""


def test_the_role_of_a_task_must_belong_to_the_team(ask, tasks, world):
    foreign = IncidentRole.get(IncidentRole.team == world.charlies_team).unique_id

    for role in (foreign, "x", world.team.unique_id):
        refused = ask("POST", tasks, {"title": "Look", "role": role}, scheme="Token")
        assert (refused.status_code, list(refused.json["errors"])) == (400, ["role"])


@pytest.mark.parametrize(
    "wrong", [{"title": ""}, {"due_in": -2}, {"due_in": 10_081}, {"due_in": None}, {"position": -1}], ids=str
)
def test_an_invalid_task_is_refused(ask, tasks, wrong):
    assert ask("POST", tasks, {"title": "Look", **wrong}).status_code == 400


def test_the_number_of_tasks_of_a_template_is_limited(ask, tasks, now):
    template = TaskTemplate.get()
    TemplateTask.insert_many(
        {"unique_id": str(n), "task_template": template, "title": "x", "position": n, "creation_date": now}
        for n in range(MAX_TASKS)
    ).execute()

    assert ask("POST", tasks, {"title": "One too many"}).status_code == 400


def test_a_task_is_found_only_under_its_template(ask, templates, tasks):
    one = ask("POST", tasks, {"title": "Look"}).json["unique_id"]
    other = ask("POST", templates, {"name": "Breach"}).json["unique_id"]

    assert ask("GET", f"{templates}{other}/tasks/{one}/").status_code == 404
    assert ask("GET", f"{templates}{other}/tasks/").json == []


def test_a_task_can_be_added_after_the_largest_position(ask, tasks):
    first = ask("POST", tasks, {"title": "a", "position": 2**31 - 1}).json
    second = ask("POST", tasks, {"title": "b"})

    assert (first["position"], second.status_code) == (MAX_TASKS, 201)
    assert [(task["title"], task["position"]) for task in ask("GET", tasks).json] == [("a", 1), ("b", 2)]
