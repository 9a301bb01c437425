"""Changes of the configuration between two alerts of an entity that were treated differently."""

from datetime import timedelta

import pytest

from bench.servers.plans import list_scans
from models.changes.record import Actor, ChangedObject, Content, add_change
from models.domain.enums import IncidentStatus, Way
from models.reports import alert_trace
from models.store.ids import make_short_id, make_uuid
from models.store.store import store
from models.tables.changes import Change
from models.tables.events import Entity
from models.tables.incidents import Incident
from tests.support.alerts import accept
from workers.alerts import process_lane

MINUTE = timedelta(minutes=1)


def add(world, at, kind="service", object_id=None, name="Checkout", team=True):
    with store().write_transaction():
        changed = ChangedObject(
            kind, object_id or world.service.unique_id, name, 2, team=world.team.id if team else None
        )
        content = Content("changed", [{"field": "name", "before": "a", "after": "b"}])
        actor = Actor("Alice", Way.INTERFACE, world.alice)
        add_change(world.account.id, at, actor, changed, content, make_short_id())
        return Change.select().order_by(Change.id.desc()).first()


@pytest.fixture
def alert(world):
    """alert(at): an alert of the entity db1 that opens an incident of its own, and is processed."""

    def alert(at, entity_id="db1"):
        Incident.update(status=IncidentStatus.RESOLVED, resolved_date=at).execute()
        Entity.delete().execute()
        receipt = accept(world, at, message="Disk full", alert_type="critical", entity_id=entity_id)
        process_lane.run(world.service.id)
        return receipt

    return alert


def find_changed(receipt, **more):
    (alert,) = alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id), **more)["alerts"]
    return alert["changed_before"]


def test_a_change_between_two_alerts_is_named(world, now, alert):
    first = alert(now)
    add(world, now + MINUTE)
    second = alert(now + 2 * MINUTE)

    found = find_changed(second)

    assert found["previous_alert_at"] == first.received_at
    assert [each["what"] for each in found["changes"]] == ["Alice changed the service Checkout: name"]
    assert find_changed(first) is None


def test_a_change_before_the_first_or_after_the_second_is_not_named(world, now, alert):
    add(world, now - MINUTE)
    alert(now)
    second = alert(now + 2 * MINUTE)
    add(world, now + 3 * MINUTE)

    assert find_changed(second) is None


def test_alerts_that_were_treated_alike_name_nothing(world, now):
    receipts = []
    for minute in (0, 2, 4):
        receipts.append(
            accept(world, now + minute * MINUTE, message="Disk", alert_type="critical", entity_id="db1")
        )
        process_lane.run(world.service.id)
    add(world, now + 3 * MINUTE)

    assert find_changed(receipts[2]) is None


def test_only_the_newest_five_changes_that_can_matter_are_named(world, now, alert):
    alert(now)
    for second in range(7):
        add(world, now + timedelta(seconds=second + 1), "escalation policy", make_uuid(), f"P{second}")
    add(world, now + MINUTE, "tag", make_uuid())
    add(world, now + MINUTE, "service", make_uuid())
    add(world, now + MINUTE, "alert rule", make_uuid())
    second = alert(now + 2 * MINUTE)

    named = [each["what"] for each in find_changed(second)["changes"]]

    assert named == [f"Alice changed the escalation policy P{number}: name" for number in (6, 5, 4, 3, 2)]


def test_a_rule_of_the_router_can_matter_and_a_change_of_another_team_cannot(world, now, alert):
    alert(now)
    add(world, now + MINUTE, "global router rule", make_uuid(), "All", team=False)
    other = add(world, now + MINUTE, "schedule", make_uuid(), "Nights")
    Change.update(team=world.charlies_team).where(Change.id == other.id).execute()
    second = alert(now + 2 * MINUTE)

    named = [each["what"] for each in find_changed(second)["changes"]]

    assert named == ["Alice changed the global router rule All: name"]


def test_a_reader_sees_only_what_the_reader_may_read(world, now, alert):
    alert(now)
    add(world, now + MINUTE)
    second = alert(now + 2 * MINUTE)

    assert find_changed(second, readable=lambda changes: changes.where(Change.kind == "schedule")) is None


def test_another_entity_is_no_alert_before(world, now, alert):
    alert(now, "db2")
    add(world, now + MINUTE)

    assert find_changed(alert(now + 2 * MINUTE)) is None


def test_the_number_of_statements_does_not_depend_on_the_alerts(world, now, statements):
    def count(alerts, minute):
        """Send a body twice, resolve what the first one opened, and trace the second one."""
        body = ('{"alerts":[' + ",".join(f'{{"fingerprint":"{n}"}}' for n in range(alerts)) + "]}").encode()
        for place in (0, 2):
            at = now + (minute + place) * MINUTE
            receipt = accept(world, at, source="prometheus", body=body)
            process_lane.run(world.service.id)
            Entity.delete().execute()
            Incident.update(status=IncidentStatus.RESOLVED, resolved_date=at).execute()
            add(world, at + MINUTE)
            add(world, at + MINUTE, "alert rule", make_uuid())
        found = alert_trace.find_receipt(receipt.trace_id)
        with statements() as seen:
            trace = alert_trace.build_trace(found)
        assert all(each["changed_before"] for each in trace["alerts"])
        own = [each for each in seen if any(name in each[0] for name in ('"change"', '"receipt_id" !='))]
        assert len(own) == 2
        assert list_scans(own) == []
        return len(seen)

    assert count(1, 0) == count(40, 10)
