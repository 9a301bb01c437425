"""Incidents and alerts under /api/tocsin/ have the trace_id with which a person asks why."""

import pytest

from models.tables.events import Receipt
from models.tables.incidents import Incident
from tests.support.alerts import accept
from workers.alerts import process_lane


@pytest.fixture
def receipts(world, now):
    """Return two receipts of alerts about one entity: the first one opened the incident."""
    found = [
        accept(world, now, message=f"Disk {word}", alert_type="critical", entity_id="db1")
        for word in ("full", "fuller")
    ]
    process_lane.run(world.service.id)
    return found


def test_incidents_have_the_trace_id_of_the_alert_that_opened_them(ask, receipts):
    (listed,) = ask("GET", "/api/tocsin/incidents/").json["results"]

    assert listed["trace_id"] == receipts[0].trace_id
    assert ask("GET", "/api/tocsin/incidents/1/").json == listed
    assert ask("GET", f"/api/tocsin/alerts/{listed['trace_id']}/").status_code == 200


def test_the_list_has_the_filter_and_the_pages_of_the_contract(ask, receipts):
    assert ask("GET", "/api/tocsin/incidents/?status=3").json["results"] == []
    assert ask("GET", "/api/tocsin/incidents/?status=-1&page_size=1").json["count"] == 1


def test_alerts_of_an_incident_and_of_an_integration_have_their_trace_ids(ask, receipts, world):
    of_incident = ask("GET", "/api/tocsin/incidents/1/alerts/").json["results"]
    path = f"/api/tocsin/integrations/{world.integration.unique_id}/alerts/"
    of_integration = ask("GET", path).json["results"]

    assert [alert["trace_id"] for alert in of_incident] == [receipt.trace_id for receipt in receipts]
    assert of_integration == of_incident[::-1]


def test_an_incident_without_a_stored_alert_has_none(ask, receipts):
    Receipt.delete().execute()

    assert ask("GET", "/api/tocsin/incidents/1/").json["trace_id"] is None
    assert ask("GET", "/api/tocsin/incidents/1/alerts/").json["results"] == []
    assert {each["trace_id"] for each in ask("GET", "/api/tocsin/incidents/1/timeline/").json["results"]} == {
        None
    }


@pytest.mark.parametrize(("who", "status"), [("charlie", 403), ("mallory", 404), (None, 401)])
def test_others_see_neither(ask, receipts, world, who, status):
    integration = world.integration.unique_id
    for path in ("incidents/1/", "incidents/1/alerts/", f"integrations/{integration}/alerts/"):
        assert ask("GET", f"/api/tocsin/{path}", who=who).status_code == status
    assert Incident.select().count() == 1
