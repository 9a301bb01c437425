"""A trace names what changed between an alert and the one before it, as far as its reader may read it."""

from datetime import timedelta

from models.domain.enums import IncidentStatus, WorkState
from models.reports import alert_trace
from models.tables.changes import Change
from models.tables.events import Entity
from models.tables.incidents import Incident
from tests.support.alerts import accept
from tocsin.commands.alerts import why
from workers.alerts import process_lane

TEAM = "/api/account/teams"


def test_a_trace_names_only_changes_that_the_reader_may_read(ask, world, now):
    """A member reads the change of the service, and an admin also that of the router."""
    first = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    ask("PATCH", f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/", {"name": "Kiosk"})
    ask("POST", "/api/v2/account/events/router/", {"name": "Front door", "description": "All"})
    Change.update(at=now + timedelta(minutes=1)).execute()
    Incident.update(status=IncidentStatus.RESOLVED, resolved_date=now).execute()
    Entity.delete().execute()
    second = accept(
        world, now + timedelta(minutes=2), message="Disk full", alert_type="critical", entity_id="db1"
    )
    process_lane.run(world.service.id)

    def read(who, receipt):
        (alert,) = ask("GET", f"/api/tocsin/alerts/{receipt.trace_id}/", who=who).json["alerts"]
        return [each["what"] for each in (alert["changed_before"] or {"changes": []})["changes"]]

    of_service = "Alice changed the service Kiosk: name"
    assert read("alice", second) == ["Alice created the global router Front door", of_service]
    assert read("bob", second) == [of_service]
    assert read("bob", first) == []


def test_the_page_of_a_trace_and_the_command_name_the_change(sign_in, ask, world, now):
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    ask("PATCH", f"{TEAM}/{world.team.unique_id}/services/{world.service.unique_id}/", {"name": "Kiosk"})
    Change.update(at=now + timedelta(minutes=1)).execute()
    Incident.update(status=IncidentStatus.RESOLVED, resolved_date=now).execute()
    Entity.delete().execute()
    second = accept(
        world, now + timedelta(minutes=2), message="Disk full", alert_type="critical", entity_id="db1"
    )
    process_lane.run(world.service.id)

    page = sign_in("bob").get(f"/why/{second.trace_id}/").text
    trace = alert_trace.build_trace(alert_trace.find_receipt(second.trace_id))
    lines = "\n".join(why.format_lines(trace, WorkState.DONE))

    for text in (page, lines):
        assert "etween this alert and the one before it" in text
        assert "Alice changed the service Kiosk: name" in text
    assert f"/changes/?object={world.service.unique_id}" in page
