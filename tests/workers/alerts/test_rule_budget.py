"""Costly rules hold a lane only for a moment; their alerts go on, and one incident reports skipped rules."""

import itertools

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.people import provisioning
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from tests.support.alerts import accept, list_rows
from tests.support.rules import (
    RuleAction,
    accept_from_router,
    action,
    add_router,
    add_router_rule,
    add_rule,
    var,
)
from workers.alerts import batches, process_lane, process_router, taken_work

A = RuleAction
COSTLY_TEMPLATE = "{{payload.list[*].x}}" * 200
LIST = {"list": [0] * 100_000}
LONG_TEXT = {"text": "ax" * 100_000}
COSTLY_PATTERN = {"matches": [var("payload.text"), "[ax]*a[ax]{190}b"]}


def send(world, now, entity, level="critical", payload=LIST):
    return accept(world, now, message="Disk full", alert_type=level, entity_id=entity, payload=payload)


def run_lane(world, now):
    """Process the lane batch by batch. Return how many receipts each batch took."""
    taken = []
    while process_lane.run(
        world.service.id, is_enough=lambda count: taken.append(count) or True, now=now
    ).more:
        pass
    return taken


@pytest.fixture
def decide_for_seconds(world, monkeypatch):
    """Return a function that sets the time for the decisions of a batch. Each alert takes one second."""
    monkeypatch.setattr(batches, "thread_time", itertools.count().__next__)
    # Much more time passes than the thread uses.
    monkeypatch.setattr(batches, "monotonic", itertools.count(step=1000).__next__)
    return lambda seconds: monkeypatch.setattr(batches, "get_max_decision_s", lambda: seconds)


def list_titles():
    return [incident.title for incident in Incident.select().order_by(Incident.id)]


def test_an_alert_with_skipped_rules_goes_on_and_its_trace_says_so(world, now):
    add_rule(world, action(A.CHANGE_SUMMARY, COSTLY_TEMPLATE), action(A.ADD_NOTE, "seen"))
    send(world, now, "db1")
    process_lane.run(world.service.id, now=now)

    event = Event.get()
    assert event.incident.title == "Disk full"
    assert [code for stage, reason in event.reasons if stage == "rules" for code in _list_codes(reason)] == [
        "alert_rules_matched",
        "rules_skipped",
    ]
    assert [one["note"]["code"] for one in event.rules[0]["actions"]] == ["steps_exceeded"] * 2


def _list_codes(reason):
    return [reason["code"], *(each["code"] for each in reason["more"])]


def test_skipped_rules_notify_once_until_their_incident_is_resolved(world, now):
    add_rule(world, action(A.CHANGE_SUMMARY, COSTLY_TEMPLATE))
    for number in range(6):
        send(world, now, f"db{number}", level="warning")
        process_lane.run(world.service.id, now=now)

    assert list_titles() == [f"Tocsin skipped alert rules of {world.integration.name}"]
    assert Notification.select().count() == 1
    assert "The rules of an alert" in Incident.get().summary


def test_a_batch_ends_after_the_time_for_decisions_and_the_next_one_continues(world, now, decide_for_seconds):
    decide_for_seconds(2.5)
    for number in range(4):
        send(world, now, f"db{number}", level="warning")

    assert run_lane(world, now) == [3, 1]
    assert {event.state for event in Event.select()} == {WorkState.DONE}
    assert [event.entity_id for event in Event.select().order_by(Event.id)] == [f"db{n}" for n in range(4)]


def test_alerts_that_a_batch_leaves_are_not_parsed_for_each_batch(
    world, now, monkeypatch, decide_for_seconds
):
    decide_for_seconds(0.5)
    for number in range(12):
        send(world, now, f"db{number}", level="warning")
    parsed = count_parsed(monkeypatch)

    assert run_lane(world, now) == [1] * 12
    # All of them in the first batch, then two in each of the others.
    assert len(parsed) <= 12 + 2 * 11


def count_parsed(monkeypatch):
    """Return a list that gets the receipt of each body that is parsed from now on."""
    parsed, parse = [], taken_work.parse_alerts

    def parse_alerts(trace_id, receipt, *arguments, **options):
        parsed.append(receipt)
        return parse(trace_id, receipt, *arguments, **options)

    monkeypatch.setattr(taken_work, "parse_alerts", parse_alerts)
    return parsed


def test_costly_rules_give_the_same_rows_in_batches_of_one(world, now, monkeypatch):
    add_rule(world, action(A.CHANGE_SUMMARY, "{{payload.list[*].x}}" * 2), action(A.ADD_NOTE, "{{message}}"))
    for number in range(4):
        send(world, now, f"db{number}", level="warning")
    process_lane.run(world.service.id, now=now)
    in_one_batch = list_rows(Event, Incident)
    Event.delete().execute()
    Receipt.update(state=WorkState.PENDING).execute()

    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.0)
    assert run_lane(world, now) == [1, 1, 1, 1]
    assert list_rows(Event, Incident) == in_one_batch


def test_after_a_queue_split_the_rest_of_the_alerts_stays_pending(world, now, decide_for_seconds):
    decide_for_seconds(0.5)
    process_lane.configure(["normalize"])
    try:
        add_rule(world, action(A.CHANGE_SUMMARY, COSTLY_TEMPLATE))
        for number in range(3):
            send(world, now, f"db{number}", level="warning")
        process_lane.run(world.service.id, "normalize", now=now)
        taken = []
        process_lane.run(
            world.service.id, "route", is_enough=lambda count: taken.append(count) or True, now=now
        )

        states = [event.state for event in Event.select().order_by(Event.receipt)]
        assert (taken, states) == ([1], [WorkState.DONE, WorkState.PENDING, WorkState.PENDING])
        process_lane.process_pending_lanes()
        assert {event.state for event in Event.select()} == {WorkState.DONE}
    finally:
        process_lane.configure(())


def test_a_router_ends_a_batch_after_the_time_for_decisions(world, now, decide_for_seconds):
    decide_for_seconds(1.5)
    router = add_router(world)
    add_router_rule(router, world.integration)
    for number in range(5):
        accept_from_router(router, now, message="m", alert_type="critical", entity_id=f"db{number}")

    assert list(iter(lambda: process_router._process_batch(router.id), 0)) == [2, 2, 1]
    assert Event.select().count() == 5


def test_skipped_rules_of_a_router_notify_once_and_its_other_rules_route(world, now):
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    router = add_router(world)
    add_router_rule(router, world.integration, when=COSTLY_PATTERN)
    add_router_rule(router, other)
    for number in range(3):
        accept_from_router(
            router, now, message="Disk full", alert_type="warning", entity_id=f"db{number}", **LONG_TEXT
        )
    while process_router.process_pending_routers() or process_lane.process_pending_lanes():
        pass

    assert {event.integration for event in Event.select()} == {other}
    assert Event.select().count() == 3
    assert list_titles() == [f"Tocsin skipped alert rules of {router.name}"]
    assert Notification.select().count() == 1
