"""Positions have a bound, so that there is always a next one: for all tables with a position."""

import pytest

from models.store.peewee_internals import get_fields, get_table_name
from models.tables.routers import RouterRule
from models.tables.rules import AlertRule
from models.tables.tasks import TemplateTask
from tests.support import stores
from web.http.fields import MAX_INTEGER
from web.rules import alert_rules, routers
from web.teams import task_templates

# The resources of these tables. The position of an event is that of an alert in its body.
RESOURCES = {
    AlertRule: alert_rules.ALERT_RULES,
    RouterRule: routers.RULES,
    TemplateTask: task_templates.TEMPLATE_TASKS,
}


def test_each_table_with_positions_has_a_bound():
    tables = {table for table in stores.TABLES if "position" in get_fields(table)}

    assert {get_table_name(table) for table in tables - set(RESOURCES)} == {"event"}
    assert all(0 < resource.max_rows < MAX_INTEGER for resource in RESOURCES.values())


@pytest.fixture(params=["alert rule", "task", "router rule"])
def collection(ask, world, request) -> tuple[str, dict[str, object]]:
    """The path of ordered rows, and the body of a new one."""
    team = f"/api/account/teams/{world.team.unique_id}"
    if request.param == "alert rule":
        service = f"{team}/services/{world.service.unique_id}"
        return f"{service}/integrations/{world.integration.unique_id}/transformers/", {}
    if request.param == "task":
        template = ask("POST", f"{team}/task_templates/", {"name": "Disk"}).json["unique_id"]
        return f"{team}/task_templates/{template}/tasks/", {"title": "Look"}
    router = ask("POST", "/api/v2/account/events/router/", {"name": "All"}).json["unique_id"]
    return f"/api/v2/account/events/router/{router}/rulesets/", {}


@pytest.mark.parametrize("position", [MAX_INTEGER, str(MAX_INTEGER), float(MAX_INTEGER)])
def test_a_row_can_be_added_after_the_largest_position(ask, collection, position):
    path, body = collection

    statuses = [ask("POST", path, {**body, "position": position}).status_code for _ in range(3)]
    added = [ask("POST", path, body) for _ in range(3)]

    assert statuses + [each.status_code for each in added] == [201] * 6
    ids = [row["unique_id"] for row in ask("GET", path).json]
    assert ids[-3:] == [each.json["unique_id"] for each in added]


def test_a_row_can_be_added_after_another_was_moved_to_the_largest_position(ask, collection):
    path, body = collection
    rows = [ask("POST", path, body).json["unique_id"] for _ in range(3)]

    if "rulesets" in path:
        moved = ask("PUT", path, {"rule": rows[0], "position": MAX_INTEGER})
    else:
        moved = ask("PATCH", f"{path}{rows[0]}/", {"position": MAX_INTEGER})
    added = ask("POST", path, body)

    assert (moved.status_code, added.status_code) == (200, 201)
    order = [row["unique_id"] for row in ask("GET", path).json]
    assert order == [*rows[1:], rows[0], added.json["unique_id"]]
