"""A replayed dead letter is processed as if it was just accepted, and no alert is stored twice."""

import json
from contextlib import contextmanager
from datetime import timedelta

import pytest

from models.domain.enums import WorkState
from models.domain.values import replace
from models.reports import alert_trace, dead_letters
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from models.tables.timers import Timer
from models.write import change_dead_letters
from pipeline import topology
from pipeline.stages import dedupe
from pipeline.stages.resent_alerts import EXPIRES_AFTER
from pipeline.topology import build_segments
from tests.support.alerts import accept
from tests.support.dead_letters import ERROR, add_dead_letter_alert, add_dead_letter_body
from tests.support.rules import accept_from_router, add_router, add_router_rule
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane, process_router


@pytest.fixture
def poisoned():
    """A context in which the decision on alerts with the message "poison" fails."""
    decide = dedupe.decide

    def fail_on_poison(alert, state, at):
        if alert.message == "poison":
            raise ZeroDivisionError
        return decide(alert, state, at)

    @contextmanager
    def poisoned():
        stages = tuple(
            replace(stage, decide=fail_on_poison) if stage.name == "dedupe" else stage
            for stage in topology.STAGES
        )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(topology, "STAGES", stages)
            patched.setattr(process_lane, "_segments", build_segments())
            yield patched

    return poisoned


def list_titles():
    return sorted(incident.title for incident in Incident.select())


def test_a_replayed_receipt_is_processed_as_if_accepted_now(world, now, store):
    set_policy(world, (0, world.alice), (5, world.bob))
    add_dead_letter_body(world, now, message="late")
    before = store.now()
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    process_lane.run(world.service.id)

    assert list_titles() == ["late"]
    assert Receipt.get().state == WorkState.DONE
    assert Incident.get().creation_date >= before
    assert Timer.get().due_at >= before


@pytest.mark.parametrize("queue_splits", [(), ("normalize",), ("rules",)], ids=str)
@pytest.mark.parametrize("stage", ["normalize", "route", "dedupe"])
def test_a_replayed_alert_continues_with_any_queue_split(world, now, monkeypatch, queue_splits, stage):
    monkeypatch.setattr(process_lane, "_segments", build_segments(queue_splits))
    alert = add_dead_letter_alert(world, now, message="late", stage=stage)
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    while process_lane.process_pending_lanes():
        pass

    assert list_titles() == ["late"]
    event = Event.get(Event.unique_id == alert.unique_id)
    assert (event.state, event.error) == (WorkState.DONE, None)
    assert any(step[0] == "replay" for step in event.reasons)
    assert event.reasons[-1][0] == "notify"


def test_a_replayed_alert_that_fails_is_a_dead_letter_again(world, now, poisoned):
    accept(world, now, message="poison", alert_type="critical")
    with poisoned():
        process_lane.run(world.service.id)
        change_dead_letters.replay(dead_letters.list_keys(), "Bob")
        process_lane.run(world.service.id)

        assert dead_letters.count() == 1
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    process_lane.run(world.service.id)

    assert list_titles() == ["Tocsin could not read an alert from Probe", "poison"]
    assert dead_letters.count() == 0


def test_one_alert_of_a_body_is_replayed_without_the_others(world, now, poisoned):
    receipt = accept(world, now, source="prometheus", body=build_group("first", "poison", "last"))
    with poisoned():
        process_lane.run(world.service.id)
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    process_lane.run(world.service.id)

    assert list_titles() == ["Tocsin could not read an alert from Probe", "first", "last", "poison"]
    assert Event.select().count() == 3
    assert alert_trace.build_trace(alert_trace.find_receipt(receipt.trace_id))["status"] == "completed"


def build_group(*names):
    alerts = [
        {"status": "firing", "labels": {"alertname": name}, "fingerprint": name, "startsAt": ""}
        for name in names
    ]
    return json.dumps({"version": "4", "alerts": alerts}).encode()


def test_a_replayed_receipt_adds_only_alerts_that_are_not_stored(world, now, poisoned):
    """The failing alert could not be stored as a dead letter, so the whole receipt became one."""
    accept(world, now, source="prometheus", body=build_group("first", "poison", "last"))
    with poisoned() as patched:
        patched.setattr(process_lane, "_insert_dead_letter", fail)
        process_lane.run(world.service.id)
    assert dead_letters.load_all(dead_letters.list_keys())[0].position is None
    message_expected = "Tocsin could not read an alert from Probe"
    assert list_titles() == [message_expected, "first", "last"]
    Incident.update(status=3).where(Incident.title == message_expected).execute()

    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    process_lane.run(world.service.id)

    assert list_titles() == [message_expected, "first", "last", "poison"]
    assert Event.select().count() == 3
    assert (dead_letters.count(), Receipt.get().state) == (0, WorkState.DONE)


def fail(*_):
    raise ZeroDivisionError


def build_push(now, lasts):
    labels = {"alertname": "Disk full", "severity": "critical"}
    alert = {"labels": labels, "startsAt": now.isoformat(), "endsAt": (now + lasts).isoformat()}
    return json.dumps([alert]).encode()


@pytest.mark.parametrize("by_router", [False, True], ids=["integration", "router"])
@pytest.mark.parametrize(("minutes", "titles"), [(4, ["Disk full"]), (-4, [])], ids=["fired", "ended"])
def test_a_replayed_push_ended_if_it_had_ended_when_it_was_received(
    world, now, store, by_router, minutes, titles
):
    body = build_push(now, timedelta(minutes=minutes))
    if by_router:
        router = add_router(world)
        add_router_rule(router, world.integration)
        receipt = accept_from_router(router, now, source="alertmanager", body=body)
    else:
        receipt = accept(world, now, source="alertmanager", body=body)
    Receipt.update(state=WorkState.DEAD_LETTER, error=ERROR).where(Receipt.id == receipt.id).execute()
    replayed_at = store.now()
    change_dead_letters.replay(dead_letters.list_keys(), "Bob")
    if by_router:
        process_router.run(router.id)
    process_lane.run(world.service.id, "rules" if by_router else "normalize")
    process_lane.run(world.service.id)

    assert list_titles() == titles
    expires_at = Entity.get().expires_at
    assert expires_at is None if minutes < 0 else expires_at >= replayed_at + EXPIRES_AFTER
