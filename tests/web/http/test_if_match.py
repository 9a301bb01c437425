"""If-Match by RFC 9110, two editors at once, and what raises a number."""

import threading
from typing import Any

import pytest
from flask import g

from models.domain.applications import HEARTBEAT
from models.store.store import connection
from models.tables.services import Integration
from models.tables.teams import Tag
from web.http.auth import Viewer
from web.http.errors import BadRequest, NumberDiffers
from web.http.writing import Mode, Writing, parse_if_match
from web.teams.labels import TAGS
from workers.alerts import process_lane

ALERT = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (None, None),
        ("*", None),
        (" * ", None),
        ('"3"', {3}),
        ('"3","4"', {3, 4}),
        ('"3" , "4"', {3, 4}),
        (', "3",,\t"4" ,', {3, 4}),
        ('W/"3"', set()),
        ('W/"3", "4"', {4}),
        ('"a,b", "3"', {3}),
        ('"03", "+3", "3.0"', set()),
        ('""', set()),
        (f'"{"9" * 30}"', set()),
        ('"\xe9"', set()),
    ],
)
def test_the_numbers_of_an_if_match_are_its_strong_tags(text, numbers):
    assert parse_if_match(text) == (None if numbers is None else frozenset(numbers))


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "3", '"3', '3"', '"3" "4"', '*, "3"', '"3", *', 'w/"3"', 'W/ "3"', '"3";', "**", '"3 "'],
)
def test_a_malformed_if_match_is_refused(text):
    with pytest.raises(BadRequest) as caught:
        parse_if_match(text)

    assert list(caught.value.fields) == ["If-Match"]


def test_a_long_if_match_is_read_in_one_pass():
    blanks = " " * 60_000

    with pytest.raises(BadRequest):
        parse_if_match(f"{blanks}x")
    assert parse_if_match(f'{"," * 60_000}"3"') == {3}


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/"


def test_a_malformed_if_match_changes_nothing(ask, path):
    refused = ask("PATCH", path, {"name": "New"}, headers={"If-Match": "1"})

    assert refused.status_code == 400
    assert set(refused.json["errors"]) == {"If-Match"}
    assert ask("GET", path).headers["ETag"] == '"1"'


def test_errors_of_the_path_and_the_permission_come_before_the_number(ask, path):
    old = {"If-Match": '"9"'}

    assert ask("PATCH", path, {"name": "New"}, who="charlie", headers=old).status_code == 403
    assert ask("PATCH", path, {"name": "New"}, who="mallory", headers=old).status_code == 404
    assert ask("PATCH", path, {"name": 300 * "x"}, headers=old).status_code == 400


def test_a_create_ignores_the_condition(ask):
    made = ask("POST", "/api/account/teams/", {"name": "New"}, headers={"If-Match": '"9"'})

    assert (made.status_code, made.headers["ETag"]) == (201, '"1"')


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_of_two_editors_at_once_exactly_one_wins(app, ask, world, method):
    roles = f"/api/account/teams/{world.team.unique_id}/roles/"
    made = ask("POST", roles, {"title": "Scribe"})
    path = f"{roles}{made.json['unique_id']}/"
    start, responses = threading.Barrier(4), []

    def edit(title: str) -> None:
        headers = {"Authorization": f"Bearer {world.tokens['alice']}", "If-Match": made.headers["ETag"]}
        body: dict[str, Any] = {} if method == "DELETE" else {"json": {"title": title}}
        start.wait()
        answer = app.test_client().open(path, method=method, headers=headers, **body)
        responses.append((answer.status_code, answer.json))

    threads = [threading.Thread(target=edit, args=(f"Editor {place}",)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    statuses = sorted(status for status, _ in responses)
    if method == "DELETE":
        # The others find the object at first or not any more.
        assert statuses[0] == 204
        assert set(statuses[1:]) == {404}
        return
    assert statuses == [200, 412, 412, 412]
    (won,) = [body for status, body in responses if status == 200]
    shown = ask("GET", path)
    assert (shown.json["title"], shown.headers["ETag"]) == (won["title"], '"2"')
    refused = [body for status, body in responses if status == 412]
    assert all(body["current"]["title"] == won["title"] and body["number"] == 2 for body in refused)


@pytest.mark.parametrize(("condition", "number"), [({"If-Match": '"1"'}, 2), ({}, 5)])
def test_editors_of_team_permissions_at_once_raise_the_number_once_each(
    app, ask, world, path, condition, number
):
    start, statuses = threading.Barrier(4), []

    def edit() -> None:
        headers = {"Authorization": f"Bearer {world.tokens['alice']}", **condition}
        start.wait()
        body = {"account_permissions": ["team_read"]}
        answer = app.test_client().put(f"{path}permissions/", json=body, headers=headers)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=edit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == ([200, 412, 412, 412] if condition else [200, 200, 200, 200])
    assert ask("GET", path).headers["ETag"] == f'"{number}"'


def test_team_permissions_share_the_number_of_their_team(ask, world, path):
    changed = ask("PUT", f"{path}permissions/", {"account_permissions": ["team_read"]})
    assert changed.headers["ETag"] == '"2"'
    assert ask("GET", path).headers["ETag"] == '"2"'

    refused = ask("PATCH", path, {"name": "New"}, headers={"If-Match": '"1"'})

    assert refused.status_code == 412
    assert refused.json["current"]["account_permissions"] == ["team_read"]


def test_an_override_shares_the_number_of_its_schedule(ask, world, path):
    made = ask("POST", f"{path}schedules/", {"name": "Nights"}).json["unique_id"]
    body = {"user": world.bob.username, "start_time": "2026-03-06", "end_time": "2026-03-07"}

    added = ask("POST", f"{path.replace('/api/', '/api/v2/')}schedules/{made}/overrides/", body)

    assert (added.status_code, added.headers["ETag"]) == (201, '"2"')
    lost = ask("PATCH", f"{path}schedules/{made}/", {"overrides": []}, headers={"If-Match": '"1"'})
    assert lost.status_code == 412
    assert len(lost.json["current"]["overrides"]) == 1


def test_the_order_of_rules_raises_the_number_of_the_integration(ask, world, path):
    integration = f"{path}services/{world.service.unique_id}/integrations/{world.integration.unique_id}/"
    rules = f"{integration}transformers/"

    def read_number(of: str) -> str:
        return ask("GET", of).headers["ETag"]

    first, second = (ask("POST", rules, {"actions": []}).json["unique_id"] for _ in range(2))
    assert read_number(integration) == '"3"'

    ask("PATCH", f"{rules}{first}/", {"stop": True, "position": 1})
    assert (read_number(integration), read_number(f"{rules}{first}/")) == ('"3"', '"2"')

    ask("PATCH", f"{rules}{first}/", {"position": 3})
    assert (read_number(integration), read_number(f"{rules}{first}/")) == ('"4"', '"3"')
    assert read_number(f"{rules}{second}/") == '"1"'

    ask("DELETE", f"{rules}{second}/")
    assert read_number(integration) == '"5"'


def test_a_moved_router_rule_raises_the_number_of_the_rule_and_of_the_router(ask):
    routers = "/api/v2/account/events/router/"
    router = f"{routers}{ask('POST', routers, {'name': 'All'}).json['unique_id']}/"
    rules = f"{router}rulesets/"
    first, second = (ask("POST", rules, {"name": name}).json["unique_id"] for name in ("a", "b"))
    assert ask("GET", router).headers["ETag"] == '"3"'

    refused = ask("PUT", rules, {"rule": second, "position": 1}, headers={"If-Match": '"1"'})
    assert (refused.status_code, refused.json["current"]["name"]) == (412, "All")

    moved = ask("PUT", rules, {"rule": second, "position": 1}, headers={"If-Match": '"3"'})

    assert [each["unique_id"] for each in moved.json] == [second, first]
    assert "ETag" not in moved.headers
    assert ask("GET", router).headers["ETag"] == '"4"'
    assert ask("GET", f"{rules}{second}/").headers["ETag"] == '"2"'


def test_the_removal_of_a_member_raises_the_number_of_what_named_the_member(ask, world, path):
    step = {"delay": 0, "targets": [{"target_type": 2, "target_id": world.bob.username}]}
    policy = ask("POST", f"{path}escalation_policies/", {"name": "Days", "rules": [step]})
    other = ask("POST", f"{path}escalation_policies/", {"name": "Nights", "rules": []})

    removed = ask("POST", "/api/account/deleteuser/", {"username": world.bob.username})

    assert removed.status_code == 204
    for made, tag in ((policy, '"2"'), (other, '"1"')):
        found = ask("GET", f"{path}escalation_policies/{made.json['unique_id']}/")
        assert found.headers["ETag"] == tag


def test_callers_without_a_request_write_with_the_same_checks(app, world):
    """Later pages, documents and undo call the same functions, with a number of their own."""
    with app.app_context(), connection():
        g.viewer = Viewer(world.alice, world.account, "tag_write")
        team = TAGS.get_parent(team_id=world.team.unique_id)
        row = TAGS.add(team, {"name": "disk"}, Writing(Mode.CREATE))

        with pytest.raises(BadRequest):
            TAGS.load({"color": 7 * "long text" * 20}, Writing(Mode.PATCH))
        values = TAGS.load({"color": "red"}, Writing(Mode.PATCH))
        with pytest.raises(NumberDiffers) as caught:
            TAGS.write(team, row, values, Writing(Mode.PATCH, expected=frozenset({2})))
        changed = TAGS.write(team, row, values, Writing(Mode.PATCH, expected=frozenset({1})))
        with pytest.raises(NumberDiffers):
            TAGS.delete(team, row, Writing(Mode.DELETE, expected=frozenset({1})))
        TAGS.delete(team, row, Writing(Mode.DELETE, expected=frozenset({2})))

    assert caught.value.members["number"] == 1
    assert (changed.color, changed.number) == ("red", 2)
    assert not Tag.select().exists()


def test_what_workers_write_raises_no_number(ask, world):
    """A ping and the next turn of a round robin."""
    services = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/"
    policies = f"/api/account/teams/{world.team.unique_id}/escalation_policies/{world.policy.unique_id}/"
    people = [{"target_type": 2, "target_id": each.username} for each in (world.alice, world.bob)]
    turns = {"rules": [{"delay": 0, "targets": people}], "assignment_settings": {"assignee_strategy": 2}}
    policy = ask("PATCH", policies, turns).headers["ETag"]
    made = ask("POST", f"{services}integrations/", {"name": "Backup", "application": HEARTBEAT}).json
    heartbeat = f"/api/tocsin/integrations/{made['unique_id']}/heartbeat/"
    integration = ask("PUT", heartbeat, {"every": 900}).headers["ETag"]
    Integration.update(expected_at=None).where(Integration.unique_id == made["unique_id"]).execute()

    ask("POST", made["webhook_url"].removeprefix("https://tocsin.example.org"), who=None, data=b"")
    ask("POST", f"/api/events/{world.integration.integration_key}/", ALERT, who=None)
    process_lane.run(world.service.id)

    assert ask("GET", policies).json["assignment_settings"]["assignment_index"] == 1
    assert ask("GET", heartbeat).json["expected_at"] is not None
    assert (ask("GET", policies).headers["ETag"], policy) == ('"2"', '"2"')
    assert (ask("GET", heartbeat).headers["ETag"], integration) == ('"2"', '"2"')
