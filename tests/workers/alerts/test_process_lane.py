"""A worker processes the lane of a service, with a real database."""

import json
import os
import sqlite3
import threading
from contextlib import contextmanager
from datetime import timedelta

import peewee
import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import Store, connection, db
from models.tables.events import Entity, Event, Receipt, list_reasons
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from models.tables.teams import Priority
from models.tables.timers import Timer
from models.tables.users import NotificationRule
from pipeline.incidents import dead_letter_incident
from pipeline.stages import dedupe
from pipeline.topology import build_segments
from tests.support.alerts import accept, list_rows
from tests.support.large_groups import build_body
from tests.support.polling import PATIENCE_S
from tests.support.rules import accept_from_router, add_router, add_router_rule
from tests.support.scenarios.segments import build_segments_with
from tests.support.scenarios.sla import sla
from tests.support.stores import SERVER
from workers.alerts import lane_actors, process_lane, process_router
from workers.alerts.batches import BatchSize
from workers.broker import broker
from workers.lane_turns import Linger

FAILED = make_reason("alert_failed", error="ZeroDivisionError", stage="normalize")


def run_lane(world):
    return process_lane.run(world.service.id)


def test_a_critical_alert_opens_an_incident_with_a_notification(world, now):
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    run_lane(world)

    incident = Incident.get()
    assert (incident.title, incident.incident_number, incident.status) == ("Disk full", 1, 1)
    assert incident.assigned_to == world.alice
    notification = Notification.get()
    assert notification.user == world.alice
    assert notification.contact.value == "alice@example.org"
    step = make_reason("step", number=1, policy="Default Escalation Policy")
    assert notification.reason == make_reason("named_by_step", step=step)
    assert Message.get().next_attempt_at == now


def test_a_second_alert_of_the_entity_notifies_nobody(world, now):
    for _ in range(2):
        accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
        run_lane(world)

    assert Incident.select().count() == 1
    assert Notification.select().count() == 1
    first, second = Event.select().order_by(Event.id)
    assert first.incident_created
    assert not second.incident_created
    assert second.incident == first.incident
    assert list_reasons(second)[-1] == ("dedupe", make_reason("entity_has_incident"))


def test_a_resolved_alert_cancels_pending_notifications(world, now):
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    accept(world, now, message="Disk full", alert_type="resolved", entity_id="db1")
    run_lane(world)

    assert Incident.get().status == 3
    assert Notification.get().outcome == make_reason("resolved", by="an alert (resolved)")
    assert not Entity.get().firing
    assert not Timer.select().where(Timer.done_at.is_null()).exists()


def test_after_a_resolve_the_next_alert_opens_another_incident(world, now):
    for kind in ("critical", "resolved", "critical"):
        accept(world, now, message="Disk full", alert_type=kind, entity_id="db1")
    run_lane(world)

    assert [i.status for i in Incident.select().order_by(Incident.id)] == [3, 1]


def test_an_acknowledged_alert_acknowledges_the_incident(world, now):
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    accept(world, now, message="Disk full", alert_type="acknowledged", entity_id="db1")
    run_lane(world)

    assert Incident.get().status == 2
    assert [log.what for log in IncidentLog.select().order_by(IncidentLog.id)] == [
        "opened", "escalated", "acknowledged",
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_a_level_that_is_not_covered_opens_no_incident(world, now, level):
    accept(world, now, message="Meh", alert_type=level)
    run_lane(world)

    assert not Incident.select().exists()
    (stage, reason) = list_reasons(Event.get())[-1]
    assert stage == "incident"
    assert reason == make_reason(
        "level_opens_nothing", level=level, integration="Probe", levels=("critical",)
    )


SEQUENCE = [
    ("critical", "a"), ("critical", "b"), ("warning", "a"), ("resolved", "a"), ("critical", "a"),
    ("acknowledged", "b"), ("critical", "b"), ("resolved", "b"), ("critical", "c"), ("info", "d"),
    ("resolved", "nobody"), ("acknowledged", "c"), ("resolved", "c"), ("critical", "c"), ("critical", "e"),
    ("resolved", "a"), ("critical", "a"), ("error", "a"), ("acknowledged", "a"), ("resolved", "e"),
]  # fmt: skip


@pytest.fixture(scope="module")
def outcomes() -> dict[object, object]:
    return {}


@pytest.mark.parametrize(
    "queue_splits", [(), ("normalize",), ("rules",), ("normalize", "route", "rules")], ids=str
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_batches_of_any_size_give_the_same_rows_with_any_queue_split(
    world, now, size, queue_splits, outcomes, monkeypatch
):
    monkeypatch.setattr(process_lane, "_segments", build_segments(queue_splits))
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=size))
    for number, (kind, entity) in enumerate(SEQUENCE):
        accept(world, now, message=f"m{number}", alert_type=kind, entity_id=entity, trace=number)
    while process_lane.process_pending_lanes():
        pass

    found = list_rows(Event, Incident, Entity, Notification, Timer, IncidentLog)
    assert found == outcomes.setdefault("first", found)
    assert not Receipt.select().where(Receipt.state == WorkState.PENDING).exists()


def test_a_dead_letter_is_reported_and_does_not_stop_others(world, now, monkeypatch):
    def fail_on_poison(alert, state, at):
        if alert.message == "poison":
            raise ZeroDivisionError
        return dedupe_decide(alert, state, at)

    dedupe_decide = dedupe.decide
    monkeypatch.setattr(process_lane, "_segments", build_segments_with(fail_on_poison))
    for message in ("first", "poison", "last"):
        accept(world, now, message=message, alert_type="critical", entity_id=message)
    run_lane(world)

    titles = sorted(incident.title for incident in Incident.select())
    assert titles == ["Tocsin could not read an alert from Probe", "first", "last"]
    event = Event.get(Event.state == WorkState.DEAD_LETTER)
    assert (event.message, event.error) == ("poison", FAILED)
    assert Notification.select().count() == 3


def test_after_a_failed_batch_only_some_alerts_are_processed_one_by_one(world, now, store, monkeypatch):
    """Each needs a transaction: all of a large batch would occupy the thread for many seconds."""

    def fail(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(process_lane, "_run_transaction", fail)
    monkeypatch.setattr(store, "write_batch", 2)
    for number in range(3):
        accept(world, now, message="m", alert_type="critical", entity_id=f"db{number}")

    assert process_lane._process_batch(world.service.id, process_lane.get_segment("normalize")) == 2
    assert Event.select().count() == 2


def test_an_incident_about_a_dead_letter_has_the_values_of_its_service(world, now, monkeypatch):
    def fail(alert, state, at):
        raise ZeroDivisionError

    gold = sla(world, acknowledge=15)
    priority = Priority.create(unique_id=make_uuid(), team=world.team, name="P1", creation_date=now)
    Service.update(sla=gold, team_priority=priority).execute()
    provisioning.bump_version(world.account.id)
    monkeypatch.setattr(process_lane, "_segments", build_segments_with(fail))
    accept(world, now, message="poison", alert_type="critical")
    run_lane(world)

    incident = Incident.get()
    assert (incident.sla, incident.team_priority) == (gold, priority)
    assert incident.context_window_end == incident.creation_date
    assert Timer.select().where(Timer.kind == "sla_breach").count() == 1


@pytest.mark.parametrize("broken", ["open_for_dead_letter", "build_segment_event"])
def test_a_dead_letter_that_cannot_be_reported_does_not_stop_others(world, now, monkeypatch, broken):
    real = {
        "open_for_dead_letter": dead_letter_incident.open_for_dead_letter,
        "build_segment_event": process_lane.build_segment_event,
    }[broken]
    owner = {"open_for_dead_letter": dead_letter_incident, "build_segment_event": process_lane}[broken]

    def fail_on_poison(what, *rest):
        if (what.message if hasattr(what, "message") else what.alert.message) != "good":
            raise ZeroDivisionError
        return real(what, *rest)

    def decide(alert, state, at):
        if alert.message == "poison":
            raise ZeroDivisionError
        return dedupe_decide(alert, state, at)

    dedupe_decide = dedupe.decide
    monkeypatch.setattr(process_lane, "_segments", build_segments_with(decide))
    monkeypatch.setattr(owner, broken, fail_on_poison)
    for message in ("poison", "good"):
        accept(world, now, message=message, alert_type="critical", entity_id=message)
    run_lane(world)

    assert "good" in [incident.title for incident in Incident.select()]
    errors = [row.error for table in (Receipt, Event) for row in table.select() if row.error]
    assert errors == [FAILED]


def test_a_lane_that_fails_does_not_stop_others(world, now, monkeypatch):
    first = provisioning.create_service(world.team, "First", world.policy, world.alice, now)
    second_integration = provisioning.create_integration(first, "Webhook", GENERIC, world.alice, now)
    for where in (replace(world, service=first, integration=second_integration), world):
        accept(where, now, message=where.service.name, alert_type="critical")
    load_pending_receipts, failed = process_lane.load_pending_receipts, []

    def fail_on_first(row, limit):
        if not failed or failed == [row]:
            failed[:] = [row]
            raise peewee.OperationalError("a lane's own trouble")
        return load_pending_receipts(row, limit)

    monkeypatch.setattr(process_lane, "load_pending_receipts", fail_on_first)
    process_lane.process_pending_lanes()

    assert Incident.select().count() == 1


def test_a_database_error_makes_no_dead_letter(world, now, monkeypatch):
    accept(world, now, message="Disk full", alert_type="critical")
    with monkeypatch.context() as patched:
        patched.setattr(process_lane, "run_stages", build_failing(peewee.OperationalError("disk I/O error")))
        with pytest.raises(peewee.OperationalError):
            run_lane(world)
    run_lane(world)

    assert Receipt.get().state == WorkState.DONE
    assert Incident.select().count() == 1


def build_failing(error):
    def fail(*_):
        raise error

    return fail


def test_statements_do_not_grow_with_the_batch(world, now, statements):
    def count(alerts):
        for number in range(alerts):
            accept(world, now, message="m", alert_type="critical", entity_id=f"{alerts}-{number}")
        with statements() as seen:
            process_lane._run_transaction(world.service.id, process_lane.get_segment("normalize"), 1000)
        return len(seen)

    first = count(2)
    assert count(300) == count(1) < first, "the first batch reads the configuration"


def test_a_pending_alert_of_a_deleted_service_becomes_a_dead_letter(world, now):
    accept(world, now, message="late", alert_type="critical")
    world.service.delete_instance()
    process_lane.process_pending_lanes()

    assert Receipt.get().error == make_reason("owner_deleted", owner="service or router")


@pytest.mark.parametrize("queue_splits", [(), ("rules",)], ids=str)
def test_alerts_of_a_deleted_integration_are_reported(world, now, queue_splits, monkeypatch):
    monkeypatch.setattr(process_lane, "_segments", build_segments(queue_splits))
    accept(world, now, message="late", alert_type="critical")
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    if queue_splits:
        process_lane.run(world.service.id)
    accept(replace(world, integration=other), now, message="good", alert_type="critical")
    world.integration.delete_instance()
    while process_lane.process_pending_lanes():
        pass

    titles = sorted(incident.title for incident in Incident.select())
    assert titles == ["Tocsin could not process alerts of a deleted integration", "good"]
    assert Notification.select().count() == 2, "there is one notification for each incident"
    errors = [row.error for table in (Receipt, Event) for row in table.select() if row.error]
    assert errors == [make_reason("owner_deleted", owner="integration")]


def test_a_body_with_fifty_alerts_leads_to_one_message_per_person(world, now):
    alerts = [
        {"status": "firing", "labels": {"alertname": f"A{n}"}, "fingerprint": f"{n:016x}"} for n in range(50)
    ]
    body = json.dumps({"version": "4", "alerts": alerts}).encode()
    accept(
        world,
        now,
        source="prometheus",
        body=body,
    )
    run_lane(world)

    assert Incident.select().count() == 50
    assert Notification.select().count() == 50
    assert Message.select().count() == 1


@pytest.mark.parametrize(("age", "messages"), [(6, 2), (60, 1)])
def test_a_later_alert_does_not_postpone_a_delayed_notification(world, store, age, messages):
    """One batch takes two alerts that were accepted 5 minutes apart, `age` minutes after the first."""
    NotificationRule.update(start_delay=10).execute()
    came = store.now() - timedelta(minutes=age)
    for later in (0, 5):
        accept(world, came + timedelta(minutes=later), message="m", alert_type="critical")
    run_lane(world)

    minutes_to_delivery = [
        (message.next_attempt_at - came) // timedelta(minutes=1) for message in Message.select()
    ]
    assert minutes_to_delivery == ([10, 15] if messages == 2 else [15])


def test_a_body_with_more_alerts_than_statement_parameters_is_processed(world, now):
    """Use the smaller limit of the two databases."""
    size = 33_000
    group = json.dumps({"alerts": [{"fingerprint": f"{n}", "status": "resolved"} for n in range(size)]})
    accept(world, now, source="prometheus", body=group.encode())
    if not SERVER:
        process_lane.db.connection().setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
    run_lane(world)

    assert Event.select().count() == size
    assert Receipt.get().state == WorkState.DONE


def test_a_batch_is_bounded_by_alerts_not_by_receipts(world, now, monkeypatch):
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=3))
    for number in range(3):
        body = json.dumps({"alerts": [{"fingerprint": f"{number}-{n}"} for n in range(2)]}).encode()
        accept(world, now, source="prometheus", body=body)

    assert process_lane._process_batch(world.service.id, process_lane.get_segment("normalize")) == 2
    assert Receipt.select().where(Receipt.state == WorkState.DONE).count() == 1


def test_routed_alerts_are_processed_in_one_batch(world, now, monkeypatch):
    """Their pending events are replaced by new ones with the same IDs, so that the old ones must go first."""
    monkeypatch.setattr(process_lane, "_split", lambda items: [[item] for item in items])
    monkeypatch.setattr(process_lane, "_process_one_by_one", None)
    router = add_router(world)
    add_router_rule(router, world.integration)
    for number in range(3):
        accept_from_router(router, now, message="Disk full", entity_id=f"db{number}", alert_type="critical")
    process_router.run(router.id)

    assert process_lane.run(world.service.id).taken == 3
    assert [event.state for event in Event.select()] == [WorkState.DONE] * 3


def test_a_lane_with_few_receipts_of_many_alerts_does_not_linger(world, now, monkeypatch):
    """Its batches are full already. To wait for more alerts would only delay them."""
    delays = []
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=1000))
    monkeypatch.setattr(broker, "enqueue", lambda message, delay=None: delays.append(delay))
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    monkeypatch.setattr(lane_actors, "_large_lanes", {world.service.id})
    for _ in range(2):
        accept(world, now, source="prometheus", body=build_body(60))
        lane_actors.normalize(world.service.id)

    assert Event.select().count() == 120
    assert not any(delays)


def test_the_batch_size_counts_alerts_and_the_time_of_the_lock(world, now, monkeypatch):
    """The time that a batch waits for the lock of the database does not count."""
    clock, measured = [0.0], []
    write_transaction = Store.write_transaction

    @contextmanager
    def advance_clock(self):
        clock[0] += 10
        with write_transaction(self):
            yield

    monkeypatch.setattr(Store, "write_transaction", advance_clock)
    monkeypatch.setattr(process_lane, "thread_time", lambda: clock[0])
    monkeypatch.setattr(BatchSize, "adjust", lambda _, count, seconds: measured.append((count, seconds)))
    body = json.dumps({"alerts": [{"fingerprint": f"{number}"} for number in range(3)]}).encode()
    accept(world, now, source="prometheus", body=body)
    run_lane(world)

    assert measured == [(3, 0.0)]


@pytest.mark.skipif(not os.environ.get("TEST_DATABASE_URL"), reason="on SQLite a lane locks all others")
def test_a_lane_that_opens_incidents_delays_no_other_lane_of_its_account(world, now, store):
    """The numbers of incidents are counted in the row of the account."""
    service = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
    integration = provisioning.create_integration(service, "Search", GENERIC, world.alice, now)
    other = replace(world, service=service, integration=integration)
    for place in (world, other):
        accept(place, now, message="Disk full", alert_type="critical", entity_id="db1")
    holds, leave = threading.Event(), threading.Event()

    def hold():
        with connection(), store.write_transaction():
            run_lane(world)
            holds.set()
            leave.wait(PATIENCE_S)
        db.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(PATIENCE_S)
    db.execute_sql("SET lock_timeout = '1s'")
    run_lane(other)
    db.execute_sql("SET lock_timeout = DEFAULT")
    numbers = [row.incident_number for row in Incident.select()]
    leave.set()
    holder.join()

    assert numbers == [2]
    assert sorted(row.incident_number for row in Incident.select()) == [1, 2]
