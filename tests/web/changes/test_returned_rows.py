"""A deletion that is undone gives the rows of before, with all that the database deleted or emptied."""

import pytest

from models.changes.removed_rows import REFERRING, RETURNING
from models.store.peewee_internals import get_referred, get_table_name, list_references
from models.tables.changes import Change
from models.tables.teams import IncidentRole
from tests.support.changes.configuration import compare_rows, read_configuration
from tests.support.changes.random_writes import keep_restored
from tests.support.changes.requests import add_samples
from tests.support.contract.samples import samples
from tests.support.stores import TABLES

__all__ = ["samples"]

TEAM = "/api/account/teams/{team_id}/"
INTEGRATION = f"{TEAM}services/{{service_id}}/integrations/{{integration_id}}/"
# One object of each kind that comes back. The samples have an object of each kind below and beside them.
DELETED = (
    f"{TEAM}tags/{{tag_id}}/",
    f"{TEAM}priority/{{priority_id}}/",
    f"{TEAM}sla/{{sla_id}}/",
    f"{TEAM}roles/{{incident_role_id}}/",
    f"{TEAM}task_templates/{{task_template_id}}/",
    f"{TEAM}task_templates/{{task_template_id}}/tasks/{{task_id}}/",
    f"{TEAM}schedules/{{schedule_id}}/",
    f"{TEAM}maintenance/{{maintenance_id}}/",
    f"{TEAM}members/{{member_id}}/",
    f"{TEAM}services/{{service_id}}/",
    f"{TEAM}services/{{service_id}}/alert-grouping-policies/{{grouping_policy_id}}/",
    f"{TEAM}services/{{service_id}}/integrations/{{outbound_id}}/",
    f"{TEAM}services/{{service_id}}/integrations/{{source_id}}/",
    f"{TEAM}services/{{service_id}}/integrations/{{heartbeat_id}}/",
    INTEGRATION,
    f"{INTEGRATION}transformers/{{transformers_id}}/",
    f"{INTEGRATION}outgoingrules/{{outgoing_rule_id}}/".replace("/api/", "/api/v2/"),
    "/api/v2/account/events/router/{router_id}/",
    "/api/v2/account/events/router/{router_id}/rulesets/{ruleset_id}/",
    "/api/account/customroles/{custom_role_id}/",
    "/api/account/users/{username}/contacts/{contact_id}/",
    "/api/account/users/{username}/contacts/{webhook_id}/",
    "/api/account/users/{username}/notification_rules/{notification_rule_id}/",
    "/api/account/users/{username}/forwarding_rules/{forwarding_rule_id}/",
    "/api/tocsin/stakeholders/{stakeholder_id}/",
    "/api/tocsin/applications/{application_id}/",
)


@pytest.fixture
def all_kinds(ask, samples, world):
    """Samples whose objects refer to each other, and have parts."""
    add_samples(ask, samples, world)
    ids = samples.ids
    webhook = f"/api/tocsin/users/{ids['username']}/contacts/{ids['webhook_id']}/secret/"
    role = {"custom_role": ids["custom_role_id"]}
    service = f"{TEAM}services/{{service_id}}/".format(**ids)
    source = f"/api/tocsin/integrations/{ids['source_id']}/source/"
    heartbeat = f"/api/tocsin/integrations/{ids['heartbeat_id']}/heartbeat/"
    for method, path, body in (
        ("POST", webhook, None),
        ("POST", f"/api/account/users/{ids['username']}/customroles/", role),
        ("PATCH", service, {"task_template": ids["task_template_id"]}),
        ("PUT", source, {"secret": "a secret", "default_alert_type": "warning"}),
        ("PUT", heartbeat, {"every": 600, "grace": 60}),
    ):
        assert ask(method, path, body).status_code in (200, 201), path
    return samples


def test_each_deletion_that_is_undone_gives_the_rows_of_before(ask, all_kinds):
    before, offenders = keep_restored(read_configuration()), []
    for template in DELETED:
        assert ask("DELETE", template.format(**all_kinds.ids)).status_code == 204, template
        assert compare_rows(before, keep_restored(read_configuration())) != [], template
        last = Change.select().where(Change.kind != "").order_by(Change.id.desc()).first()

        answer = ask("POST", f"/api/tocsin/changes/{last.unique_id}/undo/")

        after = keep_restored(read_configuration())
        if answer.status_code != 200 or before != after:
            offenders.append((template, answer.text, compare_rows(before, after)))
            before = after
    assert offenders == []


# Tables whose rows do not come back with the rows to which they refer, by the reason.
GONE = {
    "messages and what is waiting for an answer": {
        "message", "notification", "outbound_delivery", "stakeholder_mail", "contact_code", "contact_link",
    },
    "incidents, alerts and what people wrote about them": {
        "incident", "incident_tag", "incident_assignment", "incident_task",
        "incident_responder", "receipt", "event", "entity",
    },
    "requests for a swap, which end with their shifts": {"shift_swap"},
    "the browser of a contact, which is a link to a person": {"push_subscription"},
}  # fmt: skip


def test_each_table_that_refers_to_a_row_that_comes_back_does_so_too_or_is_named():
    returning = {get_table_name(table) for table in RETURNING}
    referring = {
        get_table_name(table)
        for table in TABLES
        if {get_table_name(get_referred(each)) for each in list_references(table)} & returning
    }

    named = {name for names in GONE.values() for name in names}
    assert sorted(referring - REFERRING.keys() - named) == []
    assert sorted(named - referring) == []


def test_a_role_that_comes_back_gives_its_rights_again_and_is_in_the_audit_list(ask, all_kinds, world):
    role = all_kinds.ids["custom_role_id"]
    ask("DELETE", f"/api/account/customroles/{role}/")
    last = Change.select().where(Change.kind != "").order_by(Change.id.desc()).first()
    entries = Change.select().where(Change.action == "custom_role_changed")
    before = entries.count()

    assert ask("POST", f"/api/tocsin/changes/{last.unique_id}/undo/", who="bob").status_code == 403
    assert ask("POST", f"/api/tocsin/changes/{last.unique_id}/undo/").status_code == 200

    path = f"/api/account/users/{world.bob.username}/customroles/"
    assert ask("GET", path).json["custom_role"] == role
    assert entries.count() == before + 1


def test_what_was_deleted_before_its_owner_comes_back_after_it(ask, all_kinds):
    """The owner has another row number then."""
    before, changes = keep_restored(read_configuration()), []
    for template in (f"{INTEGRATION}transformers/{{transformers_id}}/", f"{TEAM}services/{{service_id}}/"):
        ask("DELETE", template.format(**all_kinds.ids))
        changes.append(Change.select().where(Change.kind != "").order_by(Change.id.desc()).first())

    for change in reversed(changes):
        assert ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/").status_code == 200
    assert compare_rows(before, keep_restored(read_configuration())) == []


def test_a_reference_never_becomes_one_to_another_object_with_the_same_row_number(ask, all_kinds):
    ids = all_kinds.ids
    templates, roles = f"{TEAM}task_templates/".format(**ids), f"{TEAM}roles/".format(**ids)
    ask("DELETE", f"{templates}{ids['task_template_id']}/")
    change = Change.select().where(Change.kind != "").order_by(Change.id.desc()).first()
    number = IncidentRole.get(IncidentRole.unique_id == ids["incident_role_id"]).id
    ask("DELETE", f"{roles}{ids['incident_role_id']}/")
    other = ask("POST", roles, all_kinds.bodies["role"]).json["unique_id"]
    IncidentRole.update(id=number).where(IncidentRole.unique_id == other).execute()

    assert ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/").status_code == 200
    assert ask("GET", f"{templates}{ids['task_template_id']}/tasks/").json[0]["role"] == ""
