"""Scenarios with maintenance: alerts notify nobody until its end, and then if they are still firing."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from models.domain.applications import GENERIC
from models.domain.reasons import make_reason
from models.people import provisioning
from models.tables.accounts import bump_version
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident, IncidentNote
from models.tables.services import Maintenance, MaintenanceService
from pipeline.topology import build_segments
from tests.support.alerts import accept
from tests.support.rules import RuleAction, accept_from_router, action, add_router, add_router_rule, add_rule
from tests.support.scenarios.maintenance import (
    DISK,
    HOUR,
    MINUTE,
    NEW,
    deferred_alert,
    get_stage_reasons,
    set_service,
    use_segments,
)
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane, process_router
from workers.periodic import release_maintenance

A = RuleAction
BERLIN = ZoneInfo("Europe/Berlin")
UNTIL_ONE = "Maintenance window Deploy is in force until 2026-03-04 13:00:00 UTC."

RELEASED = "The maintenance ended and the alert is still firing. The alert was released at 2026-03-04 {} UTC."
RELEASED_AT_ONE = RELEASED.format("13:00:00")


def change(row, **columns):
    Maintenance.update(columns).where(Maintenance.id == row.id).execute()
    bump_version(row.team.account_id)


def test_an_alert_that_is_still_firing_notifies_at_the_end_of_maintenance(timeline, window, now):
    window()
    trace_id = timeline.alert("Disk full on db1")
    assert Event.get().suppressed
    assert not Incident.select().exists()

    timeline.after(minutes=59, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]
    incident, event = timeline.incident(), Event.get()
    assert (incident.creation_date, event.creation_date) == (now + HOUR, now)
    assert (event.incident, event.incident_created, event.suppressed) == (incident, True, False)
    assert get_stage_reasons(trace_id) == [
        ("dedupe", UNTIL_ONE),
        ("maintenance_end", RELEASED_AT_ONE),
        ("dedupe", NEW),
        ("incident", "The alert opens an incident."),
        ("notify", "Notified now: Alice."),
    ]


def test_an_alert_resolved_within_the_window_notifies_nobody(timeline, window):
    window()
    timeline.alert("Disk full on db1")
    timeline.after(minutes=30)
    timeline.alert("fine", "resolved")
    timeline.after(hours=24)

    assert timeline.mails() == []
    assert not Incident.select().exists()
    assert deferred_alert() == []


def test_the_last_alert_of_an_entity_is_released(timeline, window):
    window()
    timeline.alert("Disk at 90%", entity="db1")
    timeline.after(minutes=1)
    timeline.alert("Disk full on db1", entity="db1")
    timeline.after(minutes=1)
    timeline.alert("by the way", "info", entity="db1")
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
    assert Incident.select().count() == 1


@pytest.mark.parametrize("level", ["info", "warning", "error", "acknowledged"])
def test_an_alert_that_would_notify_nobody_is_not_deferred(timeline, window, level):
    window()
    timeline.alert("Disk full on db1", level)
    timeline.after(hours=1)

    assert deferred_alert() == []
    assert not Incident.select().exists()


def test_an_alert_older_than_the_last_resolve_is_not_deferred(timeline, window, now):
    window()
    body = '[{"labels": {"alertname": "Disk"}, "status": "%s", "startsAt": "%s", "endsAt": "%s"}]'
    early, late = (now - 10 * MINUTE).isoformat(), (now - 5 * MINUTE).isoformat()
    for status in ("resolved", "firing"):
        alerts = body % (status, early, late if status == "resolved" else "0001-01-01T00:00:00Z")
        accept(
            timeline.world, timeline.now, source="prometheus", exactly=True,
            body=('{"version": "4", "alerts": ' + alerts + "}").encode(),
        )  # fmt: skip
    timeline.after(hours=2)

    assert [str(list_reasons(event)[-1][1]) for event in Event.select().order_by(Event.id)] == [
        "The entity has no open incident that the alert could resolve.",
        UNTIL_ONE,
    ]
    assert timeline.mails() == []
    assert not Incident.select().exists()


def test_an_open_incident_keeps_escalating_during_maintenance(timeline, world, window, now):
    set_policy(world, (0, world.alice), (90, world.bob))
    timeline.alert("Disk full on db1")
    window(now + MINUTE, now + HOUR)
    timeline.after(minutes=2)
    timeline.alert("Disk full on db1")
    timeline.after(hours=2)

    assert [person for person, _ in timeline.mails()] == ["alice", "bob"]
    second = Event.select().order_by(Event.id.desc()).get()
    (_, why) = list_reasons(second)[-1]
    assert (second.incident.incident_number, why) == (1, make_reason("entity_has_incident"))


def test_acknowledgements_and_resolves_of_an_open_incident_apply_during_maintenance(timeline, window, now):
    timeline.alert("Disk full on db1")
    window()
    timeline.alert("on it", "acknowledged")
    assert timeline.incident().status == 2

    timeline.alert("fine", "resolved")
    assert timeline.incident().status == 3


@pytest.mark.parametrize(
    "end",
    [
        lambda world, row, now: change(row, end_time=now + 10 * MINUTE),
        lambda world, row, now: change(row, start_time=now + 5 * HOUR, end_time=now + 6 * HOUR),
        lambda world, row, now: MaintenanceService.delete().execute(),
        lambda world, row, now: row.delete_instance(recursive=True),
    ],
    ids=["shortened", "moved", "service taken out", "deleted"],
)
def test_a_window_edited_while_in_force_ends_at_its_new_end(timeline, world, window, now, end):
    row = window()
    timeline.alert("Disk full on db1")
    timeline.after(minutes=10)
    assert timeline.mails() == []

    end(world, row, now)
    bump_version(world.account.id)
    timeline.after(seconds=1)

    assert timeline.mails() == [("alice", DISK)]


def test_an_extended_window_defers_until_its_new_end(timeline, window, now):
    row = window()
    timeline.alert("Disk full on db1")
    change(row, end_time=now + 2 * HOUR)
    timeline.after(hours=1, minutes=59, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]


def test_a_window_with_a_start_in_the_past_applies_from_its_creation(timeline, window, now):
    timeline.alert("Disk full on db1")
    window(now - 24 * HOUR, now + HOUR)
    timeline.alert("Disk full on db2", entity="db2")
    assert timeline.mails() == [("alice", DISK)]

    timeline.after(hours=1)
    assert timeline.mails() == [("alice", "[Checkout] #2 Disk full on db2 (critical)")]


@pytest.mark.parametrize(
    ("day", "length_minutes"),
    [
        (datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN), 60),
        # The clock skips half an hour of it, or half an hour occurs twice.
        (datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN), 60),
        (datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN), 180),
        (datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN), 60),
    ],
    ids=["winter", "clocks go forward", "clocks go back", "winter again"],
)
def test_a_nightly_window_keeps_its_local_hours_over_clock_changes(timeline, window, day, length_minutes):
    """From half past one until half past three in local time."""
    started = datetime(2026, 3, 1, 1, 30, tzinfo=BERLIN)
    window(
        started.astimezone(UTC), started.astimezone(UTC) + 2 * HOUR, repeat_interval=1, time_zone=BERLIN.key
    )
    timeline.now = day.astimezone(UTC)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=length_minutes - 1, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]


def test_two_overlapping_windows_defer_until_the_later_end(timeline, window, now):
    window()
    window(now + 30 * MINUTE, now + 2 * HOUR, name="Move")
    trace_id = timeline.alert("Disk full on db1")
    timeline.after(hours=1, minutes=59, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]
    assert [stage for stage, _ in get_stage_reasons(trace_id)].count("maintenance_end") == 1


def test_a_released_alert_is_deferred_again_by_a_window_that_began_before_its_processing(
    timeline, window, now
):
    window()
    window(now + HOUR + MINUTE, now + 2 * HOUR, name="Move")
    trace_id = timeline.alert("Disk full on db1")
    timeline.now += HOUR
    assert release_maintenance.release_deferred(timeline.now) == 1

    # The worker processes the lane only when the next window is in force.
    timeline.now += 3 * MINUTE
    process_lane.run(timeline.world.service.id, now=timeline.now)
    assert len(deferred_alert()) == 1
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
    assert [reason for _, reason in get_stage_reasons(trace_id)][:4] == [
        UNTIL_ONE,
        RELEASED_AT_ONE,
        "Maintenance window Move is in force until 2026-03-04 14:00:00 UTC.",
        RELEASED.format("14:00:00"),
    ]


def test_each_service_releases_alerts_at_the_end_of_its_own_windows(timeline, world, window, now):
    search = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
    search_integration = provisioning.create_integration(search, "Door", GENERIC, world.alice, now)
    window(services=[world.service, search])
    window(now, now + 2 * HOUR, services=[search], name="Reindex")
    timeline.alert("Disk full on db1")
    receipt = accept(world, timeline.now, message="No index", alert_type="critical", entity_id="db1")
    Receipt.update(service=search, integration=search_integration).where(Receipt.id == receipt.id).execute()

    timeline.after(hours=1)
    assert timeline.mails() == [("alice", DISK)]
    timeline.after(hours=1)
    assert timeline.mails() == [("alice", "[Search] #2 No index (critical)")]


def test_deferred_alerts_of_a_service_with_collation_become_one_incident(timeline, world, window):
    set_service(world, collation=1, collation_time=10)
    window()
    for host in ("db1", "db2", "db3"):
        timeline.alert(f"Disk full on {host}", entity=host)
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
    assert Event.select().where(Event.incident == timeline.incident()).count() == 3
    timeline.alert("Disk full on db4", entity="db4")
    assert Incident.select().count() == 1


def test_an_alert_from_a_router_is_deferred_too(timeline, world, window):
    router = add_router(world)
    add_router_rule(router, world.integration)
    window()
    body = {"message": "Disk full on db1", "alert_type": "critical", "entity_id": "db1"}
    accept_from_router(router, timeline.now, exactly=True, body=body)
    process_router.run(router.id)
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]


def test_rules_apply_once_to_a_deferred_alert(timeline, world, window):
    add_rule(world, action(A.CHANGE_MESSAGE, "Oh: {{message}}"), action(A.ADD_NOTE, "by a rule"))
    bump_version(world.account.id)
    window()
    timeline.alert("Disk full on db1")
    timeline.after(hours=1)

    assert timeline.incident().title == "Oh: Disk full on db1"
    assert IncidentNote.select().count() == 1


def test_the_maintenance_setting_of_a_service_acts_like_a_window_without_an_end(timeline, world):
    set_service(world, under_maintenance=True)
    trace_id = timeline.alert("Disk full on db1")
    timeline.after(hours=100)
    assert timeline.mails() == []
    assert get_stage_reasons(trace_id) == [("dedupe", "Service Checkout is under maintenance.")]

    set_service(world, under_maintenance=False)
    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]


def test_a_new_alert_before_the_release_notifies_and_nothing_is_sent_twice(timeline, world, window, now):
    window()
    timeline.alert("Disk full", entity="db1")
    timeline.now += HOUR
    receipt = accept(world, timeline.now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id, now=receipt.received_at)
    assert deferred_alert() == []
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
    assert Incident.select().count() == 1


def test_an_alert_received_within_and_processed_after_the_window_notifies(timeline, world, window, now):
    window()
    accept(world, now, message="Disk full on db1", alert_type="critical", entity_id="db1", exactly=True)
    timeline.now += HOUR + 10 * MINUTE
    timeline.after(seconds=1)

    assert timeline.mails() == [("alice", DISK)]


def test_an_alert_received_before_and_processed_within_the_window_is_deferred(timeline, world, window, now):
    window(now + MINUTE, now + HOUR)
    accept(world, now, message="Disk full on db1", alert_type="critical", entity_id="db1", exactly=True)
    timeline.now += 10 * MINUTE
    timeline.after(minutes=49, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]


@pytest.mark.parametrize("by", ["its own key", "a router"])
def test_a_pending_resolve_is_processed_before_the_release(timeline, world, window, now, by):
    """Tocsin was down at the end of the window; a pending alert may resolve the entity."""
    router = add_router(world)
    add_router_rule(router, world.integration)
    window()
    timeline.alert("Disk full on db1")
    fine = {"message": "fine", "alert_type": "resolved", "entity_id": "db1"}
    if by == "a router":
        accept_from_router(router, now + 30 * MINUTE, exactly=True, body=fine)
    else:
        accept(world, now + 30 * MINUTE, exactly=True, **fine)
    timeline.now += 2 * HOUR
    assert release_maintenance.release_deferred(timeline.now) == 0

    process_router.run(router.id)
    timeline.after(seconds=1)
    assert timeline.mails() == []
    assert deferred_alert() == []


def test_repeated_releases_release_an_alert_once(timeline, world, window):
    window()
    timeline.alert("Disk full on db1")
    timeline.now += HOUR

    assert [release_maintenance.release_deferred(timeline.now) for _ in range(3)] == [1, 0, 0]
    timeline.after(seconds=1)
    assert [release_maintenance.release_deferred(timeline.now) for _ in range(2)] == [0, 0]
    assert timeline.mails() == [("alice", DISK)]


def test_many_deferred_alerts_are_released_in_batches(timeline, world, window, monkeypatch):
    monkeypatch.setattr(release_maintenance, "BATCH_SIZE", 3)
    window()
    for number in range(10):
        accept(world, timeline.now, message="m", alert_type="critical", entity_id=f"db{number}", exactly=True)
    timeline.after(hours=1)

    assert Incident.select().count() == 10
    assert deferred_alert() == []


@pytest.mark.parametrize("splits", [("rules",), ("normalize", "route", "rules")], ids=str)
def test_a_deferred_alert_is_released_with_any_queue_split(timeline, window, monkeypatch, splits):
    use_segments(timeline, monkeypatch, build_segments(splits))
    window()
    timeline.alert("Disk full on db1")
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
