"""What a deletion deletes and what it keeps, and how it waits for a lane."""

import threading
from datetime import timedelta

import psycopg
import pytest

from models.domain.applications import GENERIC
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.store.peewee_internals import get_table_name
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentTag
from models.tables.services import DeletedIntegration, Integration, Service
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team, TeamMember
from tests.support.alerts import accept
from tests.support.polling import wait_until
from tests.support.stores import get_url
from workers.periodic import retention
from workers.periodic.retention import RetentionTimes

COUNT_BLOCKED_SESSIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


# Objects of a team: the table, and the column of the service that refers to it, or None.
TEAM_OBJECTS = {
    "sla": (Sla, "sla"),
    "priority": (Priority, "team_priority"),
    "task_templates": (TaskTemplate, "task_template"),
    "tags": (Tag, None),
    "roles": (IncidentRole, None),
    "escalation_policies": (EscalationPolicy, None),
}


@pytest.fixture
def get_path_and_row(world, now):
    """get_path_and_row(kind): the path and the row of an object that a lane of Alice's team may refer to."""
    team = f"/api/account/teams/{world.team.unique_id}/"

    def find_row(kind):
        if kind == "team":
            return team, world.team
        if kind == "service":
            return f"{team}services/{world.service.unique_id}/", world.service
        if kind == "shared policy":
            row = EscalationPolicy.get(EscalationPolicy.team == world.charlies_team)
            theirs = f"/api/account/teams/{world.charlies_team.unique_id}/"
            return f"{theirs}escalation_policies/{row.unique_id}/", row
        if kind == "integration":
            path = f"{team}services/{world.service.unique_id}/integrations/{world.integration.unique_id}/"
            return path, world.integration
        table, column = TEAM_OBJECTS[kind]
        name = "title" if table is IncidentRole else "name"
        row = table.create(unique_id=make_uuid(), team=world.team, creation_date=now, **{name: "x"})
        if column:
            Service.update({column: row}).execute()
        return f"{team}{kind}/{row.unique_id}/", row

    return find_row


@pytest.fixture
def incident(world, now):
    """An incident of Alice's service with an alert of its integration."""
    made = Incident.create(
        unique_id=make_short_id(), account=world.account, incident_number=1, incident_key=make_short_id(),
        service=world.service, team=world.team, title="Disk", status=1, urgency=1, creation_date=now,
        run_started_at=now, escalation_policy=world.policy,
    )  # fmt: skip
    Event.create(
        unique_id=make_short_id(), receipt=accept(world, now, message="m"), position=0, service=world.service,
        integration=world.integration, incident=made, message="m", alert_type=3, entity_id="disk",
        creation_date=now,
    )  # fmt: skip
    Entity.create(integration=world.integration, entity_id="disk", firing=True, incident=made)
    return made


@pytest.mark.parametrize("kind", ["sla", "priority", "task_templates"])
def test_a_deleted_object_is_removed_from_services_and_incidents(ask, get_path_and_row, incident, kind):
    path, row = get_path_and_row(kind)
    column = TEAM_OBJECTS[kind][1]
    if kind != "task_templates":
        Incident.update({column: row}).execute()

    assert ask("DELETE", path).status_code == 204
    assert getattr(Service.get(), f"{column}_id") is None
    shown = ask("GET", "/api/incidents/1/").json
    assert shown.get(column) is None
    assert shown["service_object"][column] is None


def test_a_deletion_of_a_tag_removes_it_from_incidents(ask, get_path_and_row, incident, now):
    path, row = get_path_and_row("tags")
    IncidentTag.create(unique_id=make_uuid(), incident=incident, team_tag=row, creation_date=now)

    assert ask("DELETE", path).status_code == 204
    assert ask("GET", "/api/incidents/1/").json["tags"] == []


def test_a_policy_that_a_service_uses_cannot_be_deleted(ask, get_path_and_row, incident, world):
    path, row = get_path_and_row("escalation_policies")
    Service.update(escalation_policy=row).execute()
    Incident.update(escalation_policy=row).execute()

    refused = ask("DELETE", path, scheme="Token")
    assert (refused.status_code, list(refused.json["errors"])) == (400, ["escalation_policy"])
    Service.update(escalation_policy=world.policy).execute()
    assert ask("DELETE", path).status_code == 204
    shown = ask("GET", "/api/incidents/1/").json
    assert (shown["escalation_policy"], shown["escalation_policy_object"]) == (None, None)


@pytest.mark.parametrize("kind", ["integration", "service"])
def test_the_alerts_of_a_deleted_integration_show_it_as_it_was(ask, get_path_and_row, incident, kind):
    Integration.update(summary="Of the old cluster").execute()
    before = ask("GET", "/api/incidents/1/alerts/").json

    assert ask("DELETE", get_path_and_row(kind)[0]).status_code == 204

    assert Integration.select().count() == 0
    assert ask("GET", "/api/incidents/1/alerts/").json == before
    assert before[0]["integration_object"]["unique_id"] == before[0]["integration"]
    assert (before[0]["message"], before[0]["incident"], Entity.select().count()) == ("m", 1, 0)


@pytest.mark.parametrize("kind", ["integration", "service"])
def test_the_trace_of_an_alert_names_its_deleted_integration(ask, get_path_and_row, incident, kind):
    trace_id = Receipt.get().trace_id
    Receipt.update(state=1).execute()
    before = ask("GET", f"/api/alert/status/{trace_id}/").json

    ask("DELETE", get_path_and_row(kind)[0])

    assert ask("GET", f"/api/alert/status/{trace_id}/").json == before
    (alert,) = ask("GET", f"/api/tocsin/alerts/{trace_id}/").json["alerts"]
    assert alert["integration"]["name"] == before["integration"]["name"] == "Probe"


def test_an_integration_without_alerts_leaves_nothing(ask, get_path_and_row):
    assert ask("DELETE", get_path_and_row("integration")[0]).status_code == 204

    assert not DeletedIntegration.select().exists()


def test_the_key_of_a_deleted_integration_is_hidden_like_before(ask, get_path_and_row, incident, world):
    Team.update(account_permissions=["incident_read"]).where(Team.id == world.team.id).execute()
    before = ask("GET", "/api/incidents/1/alerts/", who="charlie").json

    ask("DELETE", get_path_and_row("service")[0])

    assert ask("GET", "/api/incidents/1/alerts/", who="charlie").json == before
    assert before[0]["integration_object"]["integration_key"] is None


def test_more_alerts_of_deleted_integrations_need_no_more_queries(
    ask, get_path_and_row, incident, world, now, statements
):
    def count():
        with statements() as seen:
            assert ask("GET", "/api/incidents/1/alerts/").status_code == 200
        return len(seen)

    receipt = Receipt.get()
    for number in range(3):
        made = provisioning.create_integration(world.service, f"Probe {number}", GENERIC, world.alice, now)
        Event.create(
            unique_id=make_short_id(), receipt=receipt, position=number + 1, service=world.service,
            integration=made, incident=incident, message="m", alert_type=3, entity_id="disk",
            creation_date=now,
        )  # fmt: skip
    count()
    before = count()
    ask("DELETE", get_path_and_row("service")[0])

    assert count() == before
    assert DeletedIntegration.select().count() == 4


def test_a_copy_of_a_deleted_integration_is_deleted_with_its_last_alert(ask, get_path_and_row, incident, now):
    ask("DELETE", get_path_and_row("integration")[0])
    times = RetentionTimes(timedelta(days=30), None, None)

    def clean_up():
        retention.clean_up(now + timedelta(days=400), times, rest=lambda _: None)
        return DeletedIntegration.select().count()

    Receipt.update(state=1).execute()
    assert clean_up() == 1
    Incident.update(status=3, resolved_date=now).execute()
    assert clean_up() == 0


def test_a_deleted_team_leaves_no_copies(ask, get_path_and_row, incident):
    ask("DELETE", get_path_and_row("integration")[0])
    assert ask("DELETE", get_path_and_row("team")[0]).status_code == 204

    assert not DeletedIntegration.select().exists()
    assert Event.get().known_integration is None


def test_a_deletion_of_a_service_deletes_its_integrations_and_keeps_its_incidents(
    ask, get_path_and_row, incident, world
):
    assert ask("DELETE", get_path_and_row("service")[0]).status_code == 204

    assert Integration.select().count() == 0
    shown = ask("GET", "/api/incidents/1/").json
    assert (shown["service"], shown["service_object"], shown["title"]) == (None, None, "Disk")
    assert ask("PATCH", "/api/incidents/1/", {"status": 3}).json["status"] == 3
    assert [one["incident_number"] for one in ask("GET", "/api/incidents/").json["results"]] == [1]


def test_a_deletion_of_a_team_deletes_all_its_objects(ask, get_path_and_row, incident, world):
    for kind in TEAM_OBJECTS:
        get_path_and_row(kind)

    assert ask("DELETE", get_path_and_row("team")[0]).status_code == 204
    tables = [table for table, _ in TEAM_OBJECTS.values()]
    for table in (Service, Incident, TeamMember, *tables):
        assert not table.select().where(table.team == world.team.id).exists(), table
    assert (Integration.select().count(), Receipt.select().count()) == (0, 1)


def test_a_team_with_a_policy_in_use_by_another_team_cannot_be_deleted(ask, world):
    EscalationPolicy.update(global_ep=True).execute()
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.charlies_team)
    Service.update(escalation_policy=theirs).execute()

    refused = ask("DELETE", f"/api/account/teams/{world.charlies_team.unique_id}/", scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["team"])
    assert Team.select().where(Team.id == world.charlies_team.id).exists()


@pytest.mark.parametrize("kind", ["team", "service", "integration", "shared policy", *TEAM_OBJECTS])
def test_a_deletion_waits_for_the_lane_that_refers_to_the_object(
    world, now, store, home, ask, get_path_and_row, kind
):
    """The lane does not wait for the deletion: else both would wait, and the database would abort one."""
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    receipt = accept(world, now, message="m")
    path, row = get_path_and_row(kind)
    statuses = []

    with (
        psycopg.connect(get_url(home)) as lane_connection,
        psycopg.connect(get_url(home), autocommit=True) as observer,
    ):
        lane_connection.execute("select id from service where id = %s for no key update", (world.service.id,))
        lane_connection.execute("update receipt set state = 1 where id = %s", (receipt.id,))
        deletion = threading.Thread(target=lambda: statuses.append(ask("DELETE", path).status_code))
        deletion.start()
        wait_until(lambda: observer.execute(COUNT_BLOCKED_SESSIONS).fetchone() == (1,))
        lane_connection.execute("set local lock_timeout = '500ms'")
        lane_connection.execute(
            f"select id from {get_table_name(row)} where id = %s for key share", (row.id,)
        )
        lane_connection.commit()
        deletion.join()

    assert statuses == [204]
