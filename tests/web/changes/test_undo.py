"""A change of the configuration is recorded, and can be undone by the operations themselves."""

from models.tables.changes import Change
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service
from tests.support.web.histories import read_history

TEAM = "/api/account/teams"


def undo(ask, change, **more):
    return ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/", **more)


def find_last():
    return Change.select().order_by(Change.id.desc()).first()


def test_a_change_is_recorded_with_who_what_and_how(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    assert ask("PATCH", path, {"name": "Kiosk"}, who="bob").status_code == 403
    assert ask("PATCH", path, {"name": "Kiosk"}).status_code == 200

    (change,) = Change.select()
    service = Service.get_by_id(world.service.id)
    assert (change.action, change.kind, change.object_id) == ("changed", "service", service.unique_id)
    assert (change.actor, change.author_id, change.way) == ("Alice", world.alice.id, "interface")
    assert (change.name, change.number, change.team_id) == ("Kiosk", service.number, world.team.id)
    assert change.fields == [{"field": "name", "before": world.service.name, "after": "Kiosk"}]


def test_a_change_that_changes_nothing_is_not_recorded(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    assert ask("PATCH", path, {"name": world.service.name}).status_code == 200
    assert not Change.select().exists()


def test_an_undo_writes_the_values_of_before(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk", "summary": "Till"})

    answer = undo(ask, find_last())

    assert (answer.status_code, answer.json["left"]) == (200, [])
    service = Service.get_by_id(world.service.id)
    assert (service.name, service.summary, service.number) == (world.service.name, "", 3)
    last = find_last()
    first = Change.select().order_by(Change.id).first()
    assert (last.action, last.undoes, last.batch) == ("changed", first.unique_id, answer.json["batch"])
    assert first.undone_by == last.batch


def test_what_somebody_changed_since_is_left_and_named(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk", "summary": "Till"})
    change = find_last()
    ask("PATCH", path, {"summary": "Tills"})

    answer = undo(ask, change)

    assert [(left["name"], left["field"]) for left in answer.json["left"]] == [("Kiosk", "summary")]
    service = Service.get_by_id(world.service.id)
    assert (service.name, service.summary) == (world.service.name, "Tills")


def test_an_undo_happens_once_and_never_over_all_later_work(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk"})
    first = find_last()
    ask("PATCH", path, {"name": "Till"})

    assert undo(ask, first).status_code == 409
    assert "name" in undo(ask, first).json["detail"]
    assert undo(ask, find_last()).status_code == 200
    again = undo(ask, Change.get(Change.undone_by.is_null(False)))
    assert (again.status_code, "undone already" in again.json["detail"]) == (409, True)
    assert Service.get_by_id(world.service.id).name == "Kiosk"


def test_an_undo_of_an_undo_does_it_again(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk"})
    undo(ask, find_last())
    assert undo(ask, find_last()).status_code == 200
    assert Service.get_by_id(world.service.id).name == "Kiosk"


def test_who_may_not_write_the_object_cannot_undo(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk"})
    change = find_last()

    assert undo(ask, change, who="bob").status_code == 403
    assert undo(ask, change, who="mallory").status_code == 404
    assert Service.get_by_id(world.service.id).name == "Kiosk"


def test_what_was_created_is_deleted_if_nobody_has_changed_it(ask, world):
    tags = f"{TEAM}/{world.team.unique_id}/tags/"
    made = ask("POST", tags, {"name": "db", "color": "#112233"}).json
    create = find_last()
    ask("PATCH", f"{tags}{made['unique_id']}/", {"name": "database"})

    refused = undo(ask, create)
    assert (refused.status_code, "name" in refused.json["detail"]) == (409, True)
    assert undo(ask, find_last()).status_code == 200
    assert undo(ask, create).status_code == 200
    assert ask("GET", f"{tags}{made['unique_id']}/").status_code == 404


def test_a_deleted_service_comes_back_with_its_integrations_and_their_keys(ask, world):
    team = f"{TEAM}/{world.team.unique_id}/services/"
    path = f"{team}{world.service.unique_id}/"
    key = world.integration.integration_key
    rules = f"{path}integrations/{world.integration.unique_id}/transformers/"
    rule = {"conditions": [], "actions": [], "rule_type": 1, "rule_json": '{"==": [1, 1]}'}
    assert ask("POST", rules, rule).status_code == 201
    before = read_history(ask, [path, f"{path}integrations/", rules])
    assert ask("DELETE", path).status_code == 204
    change = find_last()
    assert key not in (change.removed + str(change.fields))
    assert not Integration.select().where(Integration.integration_key == key).exists()

    answer = undo(ask, change)

    assert answer.status_code == 200, answer.json
    assert read_history(ask, [path, f"{path}integrations/", rules]) == before
    assert Integration.get(Integration.integration_key == key).service.unique_id == world.service.unique_id
    assert AlertRule.get().integration.integration_key == key
    accepted = ask("POST", f"/api/events/{key}/", {"message": "Disk full"}, who=None)
    assert accepted.status_code == 201


def test_references_to_what_comes_back_are_set_where_they_are_still_empty(ask, world):
    slas = f"{TEAM}/{world.team.unique_id}/sla/"
    first = ask("POST", slas, {"name": "Gold", "acknowledge_time": 300, "escalations": []}).json["unique_id"]
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    assert ask("PATCH", path, {"sla": first}).status_code == 200
    ask("DELETE", f"{slas}{first}/")
    assert ask("GET", path).json["sla"] is None

    assert undo(ask, find_last()).status_code == 200
    assert ask("GET", path).json["sla"] == first


def test_an_undo_that_would_break_a_reference_is_refused(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    policies = f"{TEAM}/{world.team.unique_id}/escalation_policies/"
    old = ask("GET", path).json["escalation_policy"]
    other = ask("POST", policies, {"name": "Night", "rules": []}).json["unique_id"]
    assert ask("PATCH", path, {"escalation_policy": other}).status_code == 200
    change = find_last()
    assert ask("DELETE", f"{policies}{old}/").status_code == 204

    refused = undo(ask, change)

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["escalation_policy"])
    assert ask("GET", path).json["escalation_policy"] == other


def test_parts_of_an_object_are_undone_too(ask, world):
    path = f"/api/tocsin/users/{world.bob.username}/messages/"
    assert ask("PATCH", path, {"recovery_mails": False}, who="bob").status_code == 200
    change = find_last()
    assert change.fields == [{"field": "messages.recovery_mails", "before": True, "after": False}]

    assert undo(ask, change, who="bob").status_code == 200
    assert ask("GET", path, who="bob").json["recovery_mails"] is True


def test_a_renewed_key_is_recorded_without_its_value_and_never_undone(ask, world):
    key = world.integration.integration_key
    body = {"integration_unique_id": world.integration.unique_id}
    new = ask("POST", "/api/account/regenerate_integration_key/", body).json["integration_key"]

    change = find_last()
    assert change.fields == [{"field": "integration_key", "secret": True}]
    assert undo(ask, change).status_code == 409
    assert {key, new} & {Integration.get().integration_key} == {new}


def test_a_refused_writer_sees_what_was_changed_meanwhile_and_by_whom(ask, world):
    path = f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/"
    ask("PATCH", path, {"name": "Kiosk"})
    ask("PATCH", path, {"name": "Till", "summary": "Kasse"})

    refused = ask("PATCH", path, {"description": "mine"}, headers={"If-Match": '"1"'})

    assert refused.status_code == 412
    changed = [(each["field"], each["by"]) for each in refused.json["changed"]]
    assert sorted(changed) == [("name", "Alice"), ("summary", "Alice")]
    later = ask("PATCH", path, {"description": "mine"}, headers={"If-Match": '"2"'}).json["changed"]
    assert len(later) == 2


def test_a_deletion_can_be_seen_before_it_is_made(ask, world):
    path = f"/api/tocsin/objects/{world.service.unique_id}/deletion/"

    shown = ask("GET", path).json
    assert (shown["name"], shown["can_undo"], shown["why_not"]) == (world.service.name, True, "")
    assert {"kind": "integration", "count": 1} in shown["removed"]
    assert ask("GET", path, who="bob").status_code == 403
    assert ask("GET", path, who="mallory").status_code == 404
    team = ask("GET", f"/api/tocsin/objects/{world.team.unique_id}/deletion/").json
    assert (team["can_undo"], team["why_not"]) == (False, "A deleted team does not come back.")


def test_the_deletion_of_what_does_not_exist_is_not_found(ask):
    assert ask("GET", "/api/tocsin/objects/00000000-0000-4000-8000-000000000000/deletion/").status_code == 404


def test_a_creation_can_be_undone_after_a_deletion_was(ask):
    path = "/api/tocsin/stakeholders/"
    made = ask("POST", path, {"email": "press@example.org", "name": "Press"}).json["unique_id"]
    create = find_last()
    ask("DELETE", f"{path}{made}/")
    assert undo(ask, find_last()).status_code == 200

    assert undo(ask, create).status_code == 200
    assert ask("GET", f"{path}{made}/").status_code == 404
