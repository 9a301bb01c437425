"""The tasks of an incident."""

from datetime import timedelta

import pytest

from models.store.ids import make_uuid
from models.tables.incidents import Incident, IncidentTask
from models.tables.services import Service
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import IncidentRole
from tests.support.offenders import list_offenders
from web.http.fields import parse_moment
from web.incidents.tasks import INCIDENT_TASKS

TASKS = "/api/tocsin/incidents/1/tasks/"
NO_SUCH_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def create_incident(ask, world):
    """create_incident(): a new incident, created through the interface."""

    def made(**more):
        body = {"title": "Disk full", "service": world.service.unique_id, **more}
        assert ask("POST", "/api/incidents/", body).status_code == 201
        return Incident.select().order_by(Incident.id.desc()).get()

    return made


@pytest.fixture
def task(ask, create_incident):
    """task({...}): the answer to a new task of the incident."""
    create_incident()

    def made(body, **more):
        return ask("POST", TASKS, {"title": "Call the provider", **body}, **more)

    return made


@pytest.fixture
def read_task_log(ask):
    """read_task_log(): the entries about tasks in the timeline of the incident."""

    def read_log():
        entries = ask("GET", "/api/tocsin/incidents/1/timeline/?page_size=100").json["results"]
        return [(each["what"], each["reason"]) for each in entries if each["what"].startswith("task")]

    return read_log


def test_a_task_with_only_a_title_has_defaults(task):
    made = task({})

    assert made.status_code == 201
    assert {name: made.json[name] for name in made.json if name not in ("unique_id", "creation_date")} == {
        "title": "Call the provider",
        "description": "",
        "status": 0,
        "due_at": None,
        "assigned_to": None,
        "role": None,
    }


def test_a_task_is_done_and_the_timeline_shows_it(ask, world, task, read_task_log):
    role = IncidentRole.get(IncidentRole.team == world.team)
    made = task(
        {
            "description": "Their number\nis in the book",
            "due_at": "2026-03-04T13:00:00Z",
            "assigned_to": world.bob.username,
            "role": role.unique_id,
        }
    ).json
    path = f"{TASKS}{made['unique_id']}/"

    for status in (1, 2, 2):
        assert ask("PATCH", path, {"status": status}, who="bob").json["status"] == status
    cleared = ask("PUT", path, {"title": "Done", "assigned_to": "", "role": "", "due_at": ""}).json

    assert made["due_at"] == "2026-03-04T13:00:00Z"
    assert (made["assigned_to"], made["role"]) == (world.bob.username, role.unique_id)
    assert ask("GET", path).json == cleared == ask("GET", TASKS).json[0]
    assert (cleared["assigned_to"], cleared["role"], cleared["due_at"]) == (None, None, None)
    assert (cleared["status"], cleared["description"]) == (2, "Their number\nis in the book")
    assert ask("DELETE", path).status_code == 204
    assert ask("GET", path).status_code == 404
    assert read_task_log() == [
        ("task_added", "Task Call the provider added by Alice."),
        ("task_changed", "Task Call the provider changed by Bob: status in progress."),
        ("task_changed", "Task Call the provider changed by Bob: status done."),
        ("task_changed", "Task Call the provider changed by Alice: assigned_to, due_at, role, title."),
        ("task_removed", "Task Done removed by Alice."),
    ]


WRONG_TASKS = [
    ("title", {"title": ""}), ("title", {"title": " \u200b"}), ("title", {"title": None}),
    ("status", {"status": 3}), ("status", {"status": -1}), ("due_at", {"due_at": "soon"}),
    ("assigned_to", {"assigned_to": "bob"}), ("role", {"role": NO_SUCH_ID}), ("role", {"role": []}),
]  # fmt: skip


def test_an_invalid_task_is_refused(task):
    def check(case):
        field, wrong = case
        refused = task(wrong, scheme="Token")

        assert (refused.status_code, set(refused.json["errors"])) == (400, {field})
        assert not IncidentTask.select().exists()

    assert list_offenders(check, WRONG_TASKS) == []


def test_the_number_of_tasks_of_an_incident_is_limited(task, monkeypatch):
    monkeypatch.setattr(INCIDENT_TASKS, "max_rows", 1)
    assert task({}).status_code == 201

    assert task({}).status_code == 400


def test_a_task_is_found_only_under_its_incident(ask, task, create_incident):
    made = task({}).json
    create_incident()

    assert ask("GET", f"/api/tocsin/incidents/2/tasks/{made['unique_id']}/").status_code == 404


@pytest.fixture
def template(world, now):
    """The task template of the service, with three tasks."""
    made = TaskTemplate.create(unique_id=make_uuid(), team=world.team, name="Outage", creation_date=now)
    role = IncidentRole.get(IncidentRole.team == world.team)
    template_tasks = (("Look", 15, role), ("Inform everybody", 0, None), ("Some day", -1, None))
    for position, (title, minutes, who) in enumerate(template_tasks, start=1):
        TemplateTask.create(
            unique_id=make_uuid(), task_template=made, title=title, description="d", due_in=minutes, role=who,
            position=position, creation_date=now,
        )  # fmt: skip
    Service.update(task_template=made).where(Service.id == world.service.id).execute()
    return made


@pytest.mark.parametrize("due_immediately", [0, 1])
@pytest.mark.parametrize("status", [1, 3])
def test_an_incident_has_the_tasks_of_the_template_of_its_service(
    ask, create_incident, template, read_task_log, due_immediately, status
):
    TaskTemplate.update(due_immediately=due_immediately).execute()
    created = create_incident(status=status).creation_date
    tasks = ask("GET", TASKS).json

    assert [(task["title"], task["description"], task["status"]) for task in tasks] == [
        ("Look", "d", 0),
        ("Inform everybody", "d", 0),
        ("Some day", "d", 0),
    ]
    due_after = [task["due_at"] and parse_moment(task["due_at"]) - created for task in tasks]
    assert due_after == [timedelta(minutes=15), timedelta(0), timedelta(0) if due_immediately else None]
    assert tasks[0]["role"] == IncidentRole.get_by_id(TemplateTask.get().role_id).unique_id
    assert read_task_log() == [("tasks_added", "Tasks of template Outage added.")]


def test_each_incident_has_its_own_tasks(ask, create_incident, template):
    for _ in range(2):
        create_incident()
    first, second = (ask("GET", f"/api/tocsin/incidents/{number}/tasks/").json for number in (1, 2))

    assert len(first) == len(second) == 3
    assert {each["unique_id"] for each in first}.isdisjoint(each["unique_id"] for each in second)


def test_a_deleted_template_keeps_existing_tasks_and_adds_no_more(ask, create_incident, template):
    create_incident()
    template.delete_instance(recursive=False)
    create_incident()

    assert len(ask("GET", TASKS).json) == 3
    assert ask("GET", "/api/tocsin/incidents/2/tasks/").json == []
