"""Opsgenie's Alert API: a key reads and changes the alerts of its own integration, if it is allowed to."""

from datetime import UTC, datetime, timedelta

import pytest

from bench.servers.plans import collect_statements
from models.domain.applications import GENERIC
from models.store.ids import make_uuid
from models.tables.events import Entity
from models.tables.incidents import Incident, IncidentLog, IncidentTag
from models.tables.services import Integration, SourceSetup
from models.tables.teams import Priority, Tag
from tests.support.web.places import held_elsewhere
from web.http.limits import places
from workers.alerts import process_lane

ALERT = {"message": "Disk full on db1", "alias": "db1/disk", "description": "/var at 97 %", "priority": "P1"}
ALIAS = "/v2/alerts/db1/disk"
SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def allow(integration, allowed=True):
    SourceSetup.insert(
        integration=integration, has_alert_access=allowed, updated_at=integration.creation_date
    ).execute()


@pytest.fixture
def send(ask, world):
    """send(method, path, body): the answer to a request with the key, after its alert was processed."""

    def send(method, path, body=None, integration=world.integration):
        headers = {"Authorization": f"GenieKey {integration.integration_key}"}
        answer = ask(method, path, body, who=None, headers=headers)
        process_lane.run(world.service.id)
        return answer

    return send


@pytest.fixture
def alert(send, world):
    """An open alert of an integration whose key may read and change alerts."""
    allow(world.integration)
    send("POST", "/v2/alerts", ALERT)
    return Incident.get()


@pytest.fixture
def other(world):
    """Another integration of the service, whose key may read and change its alerts."""
    row = Integration.create(
        unique_id=make_uuid(),
        service=world.service,
        application=GENERIC,
        name="Other",
        integration_key=make_uuid(),
        created_by=world.alice,
        creation_date=world.service.creation_date,
    )
    allow(row)
    return row


OPERATIONS = [
    ("GET", "/v2/alerts", None),
    ("GET", ALIAS, None),
    ("DELETE", ALIAS, None),
    ("POST", f"{ALIAS}/tags", {"tags": ["db"]}),
    ("PUT", f"{ALIAS}/priority", {"priority": "P2"}),
    ("POST", f"{ALIAS}/snooze", {"endTime": SOON}),
]


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS)
def test_a_key_that_may_only_send_alerts_is_refused(send, method, path, body):
    send("POST", "/v2/alerts", ALERT)

    answer = send(method, path, body)

    assert (answer.status_code, "may only send alerts" in answer.json["message"]) == (403, True)
    assert Incident.get().status == 1


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS)
def test_an_unknown_key_is_refused(ask, alert, method, path, body):
    headers = {"Authorization": f"GenieKey {make_uuid()}"}

    assert ask(method, path, body, who=None, headers=headers).status_code == 401
    assert ask(method, path, body).status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS[1:])
def test_a_key_neither_sees_nor_changes_alerts_of_another_integration(
    send, other, alert, world, method, path, body
):
    Tag.create(unique_id=make_uuid(), team=world.team, name="db", creation_date=alert.creation_date)
    Priority.create(unique_id=make_uuid(), team=world.team, name="P2", creation_date=alert.creation_date)

    answer = send(method, path, body, other)

    # A deletion resolves what has this alias in the own integration: nothing.
    assert answer.status_code == (202 if method == "DELETE" else 404)
    assert [(row.status, row.team_priority_id, row.snoozed_till) for row in Incident.select()] == [
        (1, None, None)
    ]
    assert not IncidentTag.select().exists()
    assert send("GET", "/v2/alerts", None, other).json["data"] == []


def test_an_alert_is_shown_by_its_alias(send, alert):
    shown = send("GET", f"{ALIAS}?identifierType=alias").json["data"]

    assert {name: shown[name] for name in ("id", "alias", "message", "description", "status", "tags")} == {
        "id": "db1/disk",
        "alias": "db1/disk",
        "message": "Disk full on db1",
        "description": "/var at 97 %",
        "status": "open",
        "tags": [],
    }
    assert (shown["acknowledged"], shown["snoozed"]) == (False, False)


def test_alerts_are_listed_by_their_status(send, alert):
    send("POST", "/v2/alerts", {**ALERT, "alias": "db2"})
    send("POST", f"{ALIAS}/close")

    def list_ids(query=""):
        return [one["id"] for one in send("GET", f"/v2/alerts{query}").json["data"]]

    assert list_ids() == ["db2", "db1/disk"]
    assert list_ids("?query=status:open") == ["db2"]
    assert list_ids("?query=status=closed") == ["db1/disk"]
    assert list_ids("?limit=1&offset=1") == ["db1/disk"]


def test_a_list_waits_for_a_place_of_its_account(send, alert, monkeypatch):
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    with held_elsewhere(places.places, "other", "third"):
        received = [send("GET", path) for path in ("/v2/alerts", ALIAS)]

    assert [answer.status_code for answer in received] == [503, 200]
    assert received[0].headers["Retry-After"] == "1"


def test_a_list_loads_the_incidents_of_its_page_only(send, alert, world):
    send("POST", "/v2/alerts", {**ALERT, "alias": "db2"})

    with collect_statements() as statements:
        shown = send("GET", "/v2/alerts?limit=1&offset=1").json["data"]

    joined = [values for text, values in statements if 'JOIN "incident"' in text]
    assert [one["id"] for one in shown] == ["db1/disk"]
    assert joined == [[world.integration.id, Entity.get(Entity.entity_id == "db1/disk").id]]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("limit=101", "limit must be a number from 1 to 100"),
        ("limit=x", "limit must be a number from 1 to 100"),
        ("offset=20001", "offset must be a number from 0 to 20,000"),
        ("query=message:x", "query must be status:open or status:closed"),
    ],
)
def test_a_list_has_at_most_100_alerts(send, alert, query, why):
    answer = send("GET", f"/v2/alerts?{query}")

    assert (answer.status_code, answer.json["message"]) == (422, why)


def test_a_deleted_alert_is_resolved_and_stays(send, alert):
    answer = send("DELETE", f"{ALIAS}?identifierType=alias")

    assert (answer.status_code, Incident.get().status, Entity.get().firing) == (202, 3, False)
    assert send("GET", ALIAS).json["data"]["status"] == "closed"


def test_tags_of_the_team_are_added_once(send, alert, world):
    Tag.create(unique_id=make_uuid(), team=world.team, name="Db", creation_date=alert.creation_date)

    codes = [send("POST", f"{ALIAS}/tags", {"tags": ["db", "db"]}).status_code for _ in range(2)]

    assert codes == [202, 202]
    assert send("GET", ALIAS).json["data"]["tags"] == ["Db"]
    assert IncidentLog.select().where(IncidentLog.what == "tagged").count() == 1


def test_a_priority_of_the_team_is_set(send, alert, world):
    row = Priority.create(
        unique_id=make_uuid(), team=world.team, name="P2", creation_date=alert.creation_date
    )

    assert send("PUT", f"{ALIAS}/priority", {"priority": "p2"}).status_code == 202
    assert Incident.get().team_priority_id == row.id


def test_an_acknowledged_alert_is_snoozed(send, alert):
    early = send("POST", f"{ALIAS}/snooze", {"endTime": SOON})
    send("POST", f"{ALIAS}/acknowledge")
    answer = send("POST", f"{ALIAS}/snooze", {"endTime": SOON})

    assert (early.status_code, answer.status_code) == (422, 202)
    assert Incident.get().snoozed_till.isoformat() == SOON


@pytest.mark.parametrize(
    ("path", "method", "body", "why"),
    [
        ("tags", "POST", {}, "tags must have 1 to 20 names"),
        ("tags", "POST", {"tags": ["x"]}, "tags the team has none with the name x"),
        ("tags", "POST", {"tags": 5}, "body is no object with fields of the right types"),
        ("priority", "PUT", {"priority": "P9"}, "priority must be one of P1, P2, P3, P4, P5"),
        ("priority", "PUT", {"priority": "P4"}, "priority the team has none with the name P4"),
        ("snooze", "POST", {"endTime": "soon"}, "endTime must be a time of the next 30 days"),
    ],
)
def test_a_wrong_change_is_refused_with_its_reason(send, alert, path, method, body, why):
    answer = send(method, f"{ALIAS}/{path}", body)

    assert (answer.status_code, answer.json["message"]) == (422, why)


def test_a_closed_alert_cannot_be_changed(send, alert):
    send("POST", f"{ALIAS}/close")

    answer = send("POST", f"{ALIAS}/snooze", {"endTime": SOON})

    assert answer.status_code == 422


def test_a_new_integration_for_opsgenie_may_and_its_setting_can_be_changed(ask, world):
    path = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/integrations/"
    made = ask("POST", path, {"name": "New", "application": "bf43cf1b-4357-4905-9be9-843cfd8a1c56"}).json
    source = f"/api/tocsin/integrations/{made['unique_id']}/source/"

    assert ask("GET", source).json["has_alert_access"] is True
    assert ask("PUT", source, {"has_alert_access": False}).json["has_alert_access"] is False


def test_an_integration_of_another_kind_has_no_such_setting(ask, world):
    source = f"/api/tocsin/integrations/{world.integration.unique_id}/source/"

    assert ask("PUT", source, {"has_alert_access": True}).status_code == 400
