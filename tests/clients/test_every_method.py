"""Call each method of the published Python client against a running instance.

Its models accept exactly the keys that they know: an answer with an extra or missing key fails here.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

import pytest
from zenduty import apiV2
from zenduty.apiV2.accounts.members import AccountMemberClient
from zenduty.apiV2.accounts.roles import AccountRoleClient
from zenduty.apiV2.client import ZendutyClientRequestMethod
from zenduty.apiV2.events import EventClient
from zenduty.apiV2.events.router import RouterClient
from zenduty.apiV2.incidents import notes as incident_notes
from zenduty.apiV2.incidents.models import Incident
from zenduty.apiV2.teams.escalation_policies.models import AssignmentSettings, Rule
from zenduty.apiV2.teams.escalation_policies.rules import RuleBuilder
from zenduty.apiV2.teams.escalation_policies.targets import TargetBuilder
from zenduty.apiV2.teams.schedules.layers import LayersBuilder
from zenduty.apiV2.teams.schedules.models import Layer, Override, Restriction
from zenduty.apiV2.teams.schedules.overrides import OverrideBuilder
from zenduty.apiV2.teams.services.integrations.models import IntegrationAlert

from models.domain.applications import GENERIC, PROMETHEUS
from tests.support.clients.recording import list_classes, list_methods, record_calls
from tests.support.clients.team import ClientTeam, get_refusal
from tests.support.polling import wait_until

NOT_FOUND = (404, "Not Found.")
MONDAY = datetime(2026, 3, 2, 9)  # noqa: DTZ001 - as most users of the client have it: without a zone
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)


def use_account_members(client_team: ClientTeam) -> None:
    members = AccountMemberClient(client_team.client)
    dora = members.invite(
        client_team.team.unique_id, f"{client_team.team.unique_id}@example.org", "Dora", "Doe", 3
    )
    assert (dora.user.first_name, dora.role, dora.is_verified) == ("Dora", 3, False)

    changed = members.update_account_member(dora, first_name="Dorothy", role=2)
    assert (changed.user.first_name, changed.user.last_name, changed.role) == ("Dorothy", "Doe", 2)
    assert members.get_account_member(dora.user.username).user.first_name == "Dorothy"
    assert dora.user.username in [member.user.username for member in members.get_all_members()]

    members.delete_account_member(dora)
    assert get_refusal(members.get_account_member, dora.user.username) == NOT_FOUND


def use_account_roles(client_team: ClientTeam) -> None:
    roles = AccountRoleClient(client_team.client)
    made = roles.create_account_role(
        str(client_team.team.unique_id), "May look", ["sla_read", "service_read"]
    )
    assert (made.description, made.permissions) == ("May look", ["sla_read", "service_read"])

    changed = roles.update_account_role(made, ["sla_read"], description="May look at promises")
    assert (changed.name, changed.description) == (made.name, "May look at promises")
    assert roles.get_account_role(made.unique_id).permissions == ["sla_read"]
    assert made.unique_id in [role.unique_id for role in roles.list_account_roles()]

    roles.delete_account_role(made)
    assert get_refusal(roles.get_account_role, made.unique_id) == NOT_FOUND


def teams(client_team: ClientTeam) -> None:
    made = client_team.teams.create_team("Payments")
    assert (made.name, [member.role for member in made.members]) == ("Payments", [1])
    assert [role.title for role in made.roles] == ["Incident Commander"]
    assert client_team.teams.update_team(made, "Money").name == "Money"
    assert client_team.teams.find_team_by_id(made.unique_id).name == "Money"
    assert made.unique_id in [team.unique_id for team in client_team.teams.list_teams()]

    dora = client_team.colleague("dora").user
    member = client_team.teams.add_team_member(made, dora.username)
    assert (member.user.email, member.role) == (dora.email, 2)
    assert client_team.teams.update_team_member(made, member.unique_id, 1).role == 1
    assert client_team.teams.find_team_member(made, member.unique_id).role == 1
    assert len(client_team.teams.list_team_members(made)) == 2
    client_team.teams.delete_team_member(made, member.unique_id)
    assert get_refusal(client_team.teams.find_team_member, made, member.unique_id) == NOT_FOUND

    assert client_team.teams.update_team_permissions(made, ["sla_read"]) == ["sla_read"]
    assert client_team.teams.fetch_team_permissions(made) == ["sla_read"]

    (oncall,) = client_team.teams.get_all_oncall(made)
    assert (oncall.team.name, oncall.escalation_policy.name) == ("Money", "Default Escalation Policy")
    assert [user.username for user in oncall.users] == [made.owner]

    for name in list_methods(type(client_team.teams)):
        if name.endswith("_client"):
            assert getattr(client_team.teams, name)(made)._team is made

    client_team.teams.delete_team(made)
    assert get_refusal(client_team.teams.find_team_by_id, made.unique_id) == NOT_FOUND


def use_layers(client_team: ClientTeam) -> list[dict]:
    office_hours = Restriction(8 * 3600, 7, "09:00:00", str(UUID(int=1, version=4)))
    times, zone, owner = (MONDAY, MONDAY + 52 * WEEK), "Europe/Berlin", client_team.owner
    builder = LayersBuilder().add_layer("Days", [owner], [office_hours], *times, DAY, 1, zone)
    return builder.add_layer("Weeks", [owner, owner], [], *times, WEEK, 0, zone).build()


def overrides(client_team: ClientTeam) -> list[dict]:
    at = MONDAY + WEEK
    return OverrideBuilder().add_override("Dentist", client_team.owner, at, at + HOUR).build()


def schedules(client_team: ClientTeam) -> None:
    client = client_team.teams.get_schedule_client(client_team.team)
    made = client.create_schedule(
        "Primary", "Europe/Berlin", "Who is first", "First", use_layers(client_team), overrides(client_team)
    )
    assert (made.name, made.time_zone, made.connections) == ("Primary", "Europe/Berlin", 0)
    days, weeks = (Layer(**layer) for layer in made.layers)
    assert (days.name, days.shift_length, days.restriction_type) == ("Days", 86_400, 1)
    assert (days.restrictions[0]["start_time_of_day"], days.restrictions[0]["duration"]) == (
        "09:00:00",
        28_800,
    )
    assert [turn["position"] for turn in weeks.users] == [1, 2]
    assert [Override(**override).user for override in made.overrides] == [client_team.owner]

    renamed = client.update_schedule(made, "Secondary")
    assert (renamed.name, renamed.description) == ("Secondary", "Who is first")
    assert [layer["unique_id"] for layer in renamed.layers] == [layer["unique_id"] for layer in made.layers]
    assert [one["unique_id"] for one in renamed.overrides] == [one["unique_id"] for one in made.overrides]
    assert client.update_schedule(renamed, "Secondary", overrides=[]).overrides == []
    assert client.get_schedule_by_id(made.unique_id).name == "Secondary"
    assert [schedule.unique_id for schedule in client.get_all_schedules()] == [made.unique_id]

    client.delete_schedule(made)
    assert get_refusal(client.get_schedule_by_id, made.unique_id) == NOT_FOUND


def rules(client_team: ClientTeam) -> list[dict]:
    """The builder sends a delay in seconds as a float; all other clients send minutes."""
    targets = TargetBuilder().add_target(2, client_team.owner).build()
    builder = RuleBuilder().add_rule(timedelta(0), 1, targets)
    return builder.add_rule(timedelta(seconds=5), 2, targets).build()


def policies(client_team: ClientTeam) -> None:
    client = client_team.teams.get_escalation_policy_client(client_team.team)
    made = client.create_esp("Nights", rules(client_team), "Who is notified", "At night")
    assert (made.name, made.repeat_policy, made.move_to_next, made.global_ep) == ("Nights", 0, True, False)
    assert [(rule.delay, rule.position) for rule in (Rule(**rule) for rule in made.rules)] == [(0, 1), (5, 2)]
    assert made.rules[0]["targets"] == [{"target_type": 2, "target_id": client_team.owner, "position": 0}]
    settings = {key: made.assignment_settings[key] for key in AssignmentSettings.__annotations__}
    assert AssignmentSettings(**settings).assignee_strategy == 1

    changed = client.update_esp(made, "Days", rules(client_team)[:1])
    assert (changed.name, changed.description, len(changed.rules)) == ("Days", made.description, 1)
    assert client.get_esp_by_id(made.unique_id).name == "Days"
    assert [policy.unique_id for policy in client.get_all_policies()] == [
        client_team.policy.unique_id,
        made.unique_id,
    ]

    client.delete_esp(made)
    assert get_refusal(client.get_esp_by_id, made.unique_id) == NOT_FOUND


def services(client_team: ClientTeam) -> None:
    client = client_team.teams.get_service_client(client_team.team)
    ids = client_team.policy.unique_id, client_team.sla.unique_id, client_team.priority.unique_id
    made = client.create_service("Search", *ids, summary="Finds things", collation=1, collation_time=5)
    assert (made.escalation_policy, made.sla, made.team_priority) == ids
    assert (made.created_by, made.status, made.collation_time) == (client_team.owner, 1, 5)

    changed = client.update_service(made, "Find", *ids, status=2)
    assert (changed.name, changed.summary, changed.status, changed.collation) == (
        "Find",
        "Finds things",
        2,
        0,
    )
    assert client.get_service_by_id(made.unique_id).name == "Find"
    assert [service.unique_id for service in client.get_all_services()] == [made.unique_id]
    assert client.get_integration_client(made).get_all_integrations() == []

    client.delete_service(made)
    assert get_refusal(client.get_service_by_id, made.unique_id) == NOT_FOUND


def integrations(client_team: ClientTeam) -> None:
    client = client_team.teams.get_service_client(client_team.team).get_integration_client(
        client_team.service
    )
    made = client.create_intg("Probe", "Looks at disks", GENERIC, create_incidents_for=2)
    assert (made.name, str(made.application), made.create_incidents_for) == ("Probe", GENERIC, 2)
    assert str(made.integration_key) in made.webhook_url

    changed = client.update_intg(made, "Metrics", PROMETHEUS, default_urgency=0)
    assert (changed.name, str(changed.application), changed.default_urgency) == ("Metrics", PROMETHEUS, 0)
    assert client.get_intg_by_id(made.unique_id).name == "Metrics"
    assert [one.unique_id for one in client.get_all_integrations()] == [made.unique_id]

    client_team.open_by_alert("Disk full")
    (alert,) = client.get_intg_alerts_iter(client_team.integration)
    assert IntegrationAlert(**alert).message == "Disk full"
    assert client.get_intg_alerts_iter(made, page=1) == []

    client.delete_intg(made)
    assert get_refusal(client.get_intg_by_id, made.unique_id) == NOT_FOUND


def priorities(client_team: ClientTeam) -> None:
    client = client_team.teams.get_priority_client(client_team.team)
    made = client.create_priority("P1", "All is down", "red")
    assert (made.name, made.description, made.color) == ("P1", "All is down", "red")

    assert client.update_priority(made, "P0").description == "All is down"
    read = client.get_priority_by_id(made.unique_id)
    assert (read.name, read.team) == ("P0", str(client_team.team.unique_id))
    assert [priority.unique_id for priority in client.get_all_priorities()] == [made.unique_id]

    client.delete_priority(made)
    assert get_refusal(client.get_priority_by_id, made.unique_id) == NOT_FOUND


def tags(client_team: ClientTeam) -> None:
    client = client_team.teams.get_tag_client(client_team.team)
    made = client.create_tag("database", "red")

    changed = client.update_tag(made, "db", "blue")
    assert (changed.name, changed.color) == ("db", "blue")
    read = client.get_tag_by_id(made.unique_id)
    assert (read.name, read.team) == ("db", client_team.team.unique_id)
    assert [tag.unique_id for tag in client.get_all_tags()] == [made.unique_id]

    client.delete_tag(made)
    assert get_refusal(client.get_tag_by_id, made.unique_id) == NOT_FOUND


def slas(client_team: ClientTeam) -> None:
    """The methods replace `escalations` with an empty list."""
    client = client_team.teams.get_sla_client(client_team.team)
    made = client.create_sla("Gold", [{"time": 1}], acknowledge_time=60, resolve_time=3600)
    assert (made.acknowledge_time, made.resolve_time, made.escalations) == (60, 3600, [])

    changed = client.update_sla(made, "Silver", [], is_active=False)
    assert (changed.name, changed.is_active, changed.acknowledge_time) == ("Silver", False, 60)
    assert client.get_sla_by_id(made.unique_id).name == "Silver"
    assert [sla.unique_id for sla in client.get_all_slas()] == [made.unique_id]

    client.delete_sla(made)
    assert get_refusal(client.get_sla_by_id, made.unique_id) == NOT_FOUND


def incident_roles(client_team: ClientTeam) -> None:
    client = client_team.teams.get_incident_role_client(client_team.team)
    made = client.create_incident_role("Scribe", "Writes it all down", 2)
    assert (made.title, made.description, made.rank) == ("Scribe", "Writes it all down", 2)

    changed = client.update_incident_role(made, "Clerk")
    assert (changed.title, changed.description, changed.rank) == ("Clerk", "Writes it all down", 2)
    assert client.get_incident_role_by_id(made.unique_id).title == "Clerk"
    assert [role.title for role in client.get_all_roles()] == ["Incident Commander", "Clerk"]

    client.delete_incident_role(made)
    assert get_refusal(client.get_incident_role_by_id, made.unique_id) == NOT_FOUND


def task_templates(client_team: ClientTeam) -> None:
    client = client_team.teams.get_task_template_client(client_team.team)
    made = client.create_task_template("Afterwards", "What is left to do", 1)
    assert (made.team, made.summary, made.due_immediately) == (
        client_team.team.unique_id,
        "What is left to do",
        1,
    )

    changed = client.update_task_template(made, "Later")
    assert (changed.name, changed.summary, changed.due_immediately) == ("Later", "What is left to do", 0)
    assert client.get_task_template_by_id(made.unique_id).name == "Later"
    assert [template.unique_id for template in client.get_all_task_template()] == [made.unique_id]

    client.delete_task_template(made)
    assert get_refusal(client.get_task_template_by_id, made.unique_id) == NOT_FOUND


def maintenance(client_team: ClientTeam) -> None:
    """Times must be texts: this client cannot serialize them."""
    client = client_team.teams.get_maintenance_client(client_team.team)
    times = MONDAY.isoformat(), (MONDAY + HOUR).isoformat()
    services = [client_team.service.unique_id]
    made = client.create_team_maintenance("Patches", *times, services, "Europe/Berlin", 7, MONDAY + 4 * WEEK)
    assert [one.service for one in made.services] == services
    assert (made.end_time - made.start_time, made.repeat_interval) == (HOUR, 7)
    assert made.repeat_until.replace(tzinfo=None) == MONDAY + 4 * WEEK

    changed = client.update_maintenance(made, "Updates", *times, services)
    assert (changed.name, changed.time_zone, changed.repeat_interval) == ("Updates", "UTC", 0)
    assert client.get_maintenance_by_id(made.unique_id).name == "Updates"
    assert [window.unique_id for window in client.get_all_maintenance()] == [made.unique_id]

    client.delete_maintenance(made)
    assert get_refusal(client.get_maintenance_by_id, made.unique_id) == NOT_FOUND


def postmortems(client_team: ClientTeam) -> None:
    client = client_team.teams.get_postmortem_client(client_team.team)
    incident = client_team.incident
    made = client.create_postmortem(
        client_team.owner, [incident.unique_id], "What happened", "Draft", "<p>The disk was full.</p>"
    )
    assert [one.incident.incident_number for one in made.incidents] == [incident.incident_number]
    assert (made.author, made.title, made.status) == (client_team.owner, "What happened", "Draft")
    shown = client_team.incidents.get_incident_by_unique_id_or_incident_number(incident.unique_id).postmortems
    assert shown == [{"unique_id": str(made.unique_id), "title": "What happened"}]

    changed = client.update_postmortem(made, client_team.owner, [incident.unique_id], status="Done")
    assert (changed.title, changed.status) == ("What happened", "Done")
    assert client.get_postmortem_by_id(made.unique_id).status == "Done"
    assert [one.unique_id for one in client.get_all_postmortem()] == [made.unique_id]

    client.delete_postmortem(made)
    assert get_refusal(client.get_postmortem_by_id, made.unique_id) == NOT_FOUND


def incidents(client_team: ClientTeam) -> None:
    client = client_team.incidents
    made = client.create_incident("Disk full", client_team.service.unique_id)
    assert (made.status, made.urgency, made.service) == (1, 1, client_team.service.unique_id)
    assert (made.sla_object.name, made.team_priority_object.name) == ("Gold", "P1")
    assert (made.assigned_to, made.service_object.team_name) == (client_team.owner, client_team.team.name)

    for reference in (made.incident_number, made.unique_id):
        assert client.get_incident_by_unique_id_or_incident_number(reference).unique_id == made.unique_id
    changed = client.update_incident(made.incident_number, made.service, status=2)
    assert (changed.title, changed.status) == ("Disk full", 2)
    resolved = client.update_incident(made.unique_id, made.service, title="Disk was full", status=3)
    assert (resolved.title, resolved.status) == ("Disk was full", 3)

    opened = Incident(**client_team.open_by_alert("Disk full again"))
    mine = {"service_ids": [str(client_team.service.unique_id)], "status": 0}
    pages = [client.get_all_incidents(page=page, page_size=1, **mine) for page in (1, 2)]
    assert [Incident(**one).unique_id for (one,) in pages] == [made.unique_id, opened.unique_id]
    (alert,) = client.get_alerts_for_incident(opened.incident_number)
    assert (alert.incident, alert.message) == (opened.incident_number, "Disk full again")

    assert client.get_note_client(made).get_all_incident_notes() == []
    assert client.get_tags_client(made).get_all_tags() == []


def use_incident_notes(client_team: ClientTeam) -> None:
    client = client_team.incidents.get_note_client(client_team.incident)
    made = client.create_incident_note("Looking at it")
    assert (made.incident, made.user) == (client_team.incident.incident_number, client_team.owner)

    assert client.update_incident_note(made, "Found it").note == "Found it"
    assert client.get_incident_note_by_id(made.unique_id).note == "Found it"
    assert [note.unique_id for note in client.get_all_incident_notes()] == [made.unique_id]

    client.delete_incident_note(made)
    assert get_refusal(client.get_incident_note_by_id, made.unique_id) == NOT_FOUND


def use_incident_tags(client_team: ClientTeam) -> None:
    client = client_team.incidents.get_tags_client(client_team.incident)
    tag = client_team.teams.get_tag_client(client_team.team).create_tag("database", "red")
    made = client.create_tag(tag.unique_id)
    assert (made.team_tag, made.tag_id, made.name, made.color) == (
        tag.unique_id,
        tag.unique_id,
        "database",
        "red",
    )

    assert client.get_tag_by_id(made.unique_id).incident == client_team.incident.incident_number
    assert [one.unique_id for one in client.get_all_tags()] == [made.unique_id]

    client.delete_tag(made)
    assert get_refusal(client.get_tag_by_id, made.unique_id) == NOT_FOUND


def events(client_team: ClientTeam) -> None:
    client = EventClient(client_team.client)
    key = client_team.integration.integration_key
    event = client.create_event(
        "97 % of /var", "Disk full", "critical", key, 7, {"host": "db1"}, ["http://x.org"]
    )
    assert (event.message, event.summary, event.entity_id) == ("Disk full", "97 % of /var", "7")
    assert (event.alert_type, event.urls[0]["link_url"]) == ("3", "http://x.org")
    assert event.integration_object.name == "Probe"
    wait_until(
        lambda: client_team.incidents.get_all_incidents(service_ids=[str(client_team.service.unique_id)])
    )

    assert isinstance(client.get_router_client(), RouterClient)


def routers(client_team: ClientTeam) -> None:
    client = RouterClient(client_team.client)
    made = client.create_router("Front door", "For all tools")
    assert (made.account, made.is_enabled, len(made.account_identifier)) == (
        client_team.team.account,
        True,
        5,
    )

    changed = client.update_router(made, "Back door", "For some")
    assert (changed.name, changed.description) == ("Back door", "For some")
    assert client.get_router_by_id(made.unique_id).name == "Back door"
    assert made.unique_id in [router.unique_id for router in client.get_all_routers()]

    client.delete_router(made)
    assert get_refusal(client.get_router_by_id, made.unique_id) == NOT_FOUND


def requests(client_team: ClientTeam) -> None:
    """The client sends a body with a GET too."""
    get = ZendutyClientRequestMethod.GET
    assert client_team.client.execute(get, "/api/account/members/", {"page": 1})
    assert get_refusal(client_team.client.execute, get, "/api/nowhere/") == NOT_FOUND
    client_team.client._headers = {"Authorization": "Token nobody's"}
    assert get_refusal(client_team.client.execute, get, "/api/account/members/") == (401, "Invalid token.")


SCENARIOS: dict[str, Callable[[ClientTeam], object]] = {
    "AccountMemberClient": use_account_members,
    "AccountRoleClient": use_account_roles,
    "EscalationPolicyClient": policies,
    "EventClient": events,
    "IncidentClient": incidents,
    "IncidentNoteClient": use_incident_notes,
    "IncidentRoleClient": incident_roles,
    "IncidentTagClient": use_incident_tags,
    "IntegrationClient": integrations,
    "LayersBuilder": use_layers,
    "OverrideBuilder": overrides,
    "PostmortemClient": postmortems,
    "PriorityClient": priorities,
    "RouterClient": routers,
    "RuleBuilder": rules,
    "SLAClient": slas,
    "ScheduleClient": schedules,
    "ServiceClient": services,
    "TagClient": tags,
    "TargetBuilder": rules,
    "TaskTemplateClient": task_templates,
    "TeamMaintenanceClient": maintenance,
    "TeamsClient": teams,
    "ZendutyClient": requests,
}


@pytest.mark.parametrize("client_class", list_classes(apiV2), ids=lambda client_class: client_class.__name__)
def test_every_method_works(client_team, client_class, monkeypatch):
    returned = record_calls(client_class, monkeypatch)

    SCENARIOS[client_class.__name__](client_team)

    assert returned == list_methods(client_class)


def test_alerts_of_a_deleted_service_are_read(client_team):
    """The client builds the integration of each alert, and raises on null."""
    opened = Incident(**client_team.open_by_alert("Disk full"))
    integration = client_team.integration
    (before,) = client_team.incidents.get_alerts_for_incident(opened.incident_number)

    client_team.teams.get_service_client(client_team.team).delete_service(client_team.service)

    (after,) = client_team.incidents.get_alerts_for_incident(opened.incident_number)
    assert (after.integration, after.integration_object.name) == (str(integration.unique_id), "Probe")
    assert vars(after.integration_object) == vars(before.integration_object)


def test_notes_are_read_page_by_page(client_team):
    """The client has an iterator that no method returns. It requests the path of `next`."""
    client = client_team.incidents.get_note_client(client_team.incident)
    for number in range(25):
        client.create_incident_note(f"Note {number}")
    path = f"/api/incidents/{client_team.incident.incident_number}/note/"
    first = client_team.client.execute(ZendutyClientRequestMethod.GET, path)

    iterator = vars(incident_notes)["__IncidentNoteItr__"]
    every = iterator(client_team.client, first["results"], first["next"])

    assert [note.note for note in islice(every, 99)] == [f"Note {number}" for number in range(25)]
