"""Due timers, against a real store, at any moment."""

from datetime import timedelta

import pytest

from models import founding
from models.enums import WorkState
from models.events import Event, Receipt
from models.ids import new_uuid
from models.incidents import Incident, IncidentLog
from models.notices import Notice
from models.schedules import Schedule
from models.services import Service
from models.teams import EscalationPolicy
from models.timers import Timer
from tests.alerts import accept
from workers import audit, retention, road, timers

MINUTE = timedelta(minutes=1)


def set_policy(world, *steps, **columns):
    """Steps as (minutes, user or schedule, ...)."""
    rules = [
        {
            "unique_id": new_uuid(),
            "delay": delay,
            "position": position,
            "targets": [_target(named, place) for place, named in enumerate(targets)],
        }
        for position, (delay, *targets) in enumerate(steps, start=1)
    ]
    EscalationPolicy.update(rules=rules, **columns).where(EscalationPolicy.id == world.policy.id).execute()


def _target(named, place):
    if isinstance(named, Schedule):
        return {"target_type": 1, "target_id": named.unique_id, "position": place}
    return {"target_type": 2, "target_id": named.username, "position": place}


def open_one(world, now, entity="db1"):
    accept(world, now, message="Disk full", alert_type="critical", entity_id=entity, trace=0)
    road.run(world.service.id)
    return Incident.get()


def told():
    return [(n.user.first_name, n.not_before) for n in Notice.select().order_by(Notice.id)]


def test_the_next_step_is_taken_when_it_is_due_and_not_before(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    timers.run_due(now + 4 * MINUTE)
    assert [name for name, _ in told()] == ["Alice"]

    timers.run_due(now + 5 * MINUTE)

    assert told() == [("Alice", now), ("Bob", now + 5 * MINUTE)]


def test_acknowledging_stops_the_chain(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    accept(world, now, message="on it", alert_type="acknowledged", entity_id="db1")
    road.run(world.service.id)
    timers.run_due(now + 60 * MINUTE)

    assert [name for name, _ in told()] == ["Alice"]
    assert Timer.get().outcome == "acknowledged by alert acknowledged"


def test_after_a_stop_all_overdue_steps_are_taken_in_order_one_notice_a_person(world, now):
    set_policy(world, (0, world.alice), (5, world.bob), (10, world.bob, world.charlie), repeat_policy=1)
    open_one(world, now)
    timers.run_due(now + 24 * 60 * MINUTE)

    names = [name for name, _ in told()]
    assert names == ["Alice", "Bob", "Charlie", "Alice"]
    assert not Timer.select().where(Timer.done_at.is_null()).exists()


def test_the_chain_is_repeated_as_often_as_the_policy_says(world, now):
    set_policy(world, (0, world.alice), (5, world.bob), repeat_policy=1)
    open_one(world, now)
    for minute in range(1, 60):
        timers.run_due(now + minute * MINUTE)

    assert [(name, at - now) for name, at in told()] == [
        ("Alice", 0 * MINUTE), ("Bob", 5 * MINUTE), ("Alice", 10 * MINUTE), ("Bob", 15 * MINUTE),
    ]  # fmt: skip


def test_a_step_with_nobody_in_it_hands_on_at_once_when_the_policy_moves_on(world, now):
    set_policy(world, (0,), (30, world.bob), move_to_next=True)
    open_one(world, now)

    assert told() == [("Bob", now)]


def test_a_step_with_nobody_in_it_waits_when_the_policy_does_not_move_on(world, now):
    set_policy(world, (0,), (30, world.bob), move_to_next=False)
    open_one(world, now)
    assert told() == []

    timers.run_due(now + 30 * MINUTE)

    assert told() == [("Bob", now + 30 * MINUTE)]


def test_a_chain_that_reaches_nobody_tells_the_managers(world, now):
    set_policy(world, (0,), (5,))
    open_one(world, now)

    assert Notice.get().user == world.alice
    assert "reaches nobody: the team's managers told" in Notice.get().reason


@pytest.mark.parametrize(("enabled", "status"), [(True, 1), (False, 2)])
def test_an_acknowledgement_runs_out_only_where_the_service_says_so(world, now, enabled, status):
    Service.update(acknowledgement_timeout_enabled=enabled, acknowledgement_timeout=900).execute()
    open_one(world, now)
    accept(world, now, message="on it", alert_type="acknowledged", entity_id="db1", trace=1)
    road.run(world.service.id)
    timers.run_due(now + 14 * MINUTE)
    assert Incident.get().status == 2

    timers.run_due(now + 16 * MINUTE)

    assert Incident.get().status == status
    assert Notice.select().count() == (2 if enabled else 1)


def test_an_old_incident_resolves_itself_where_the_service_says_so(world, now):
    Service.update(auto_resolve_timeout=600).execute()
    open_one(world, now)
    timers.run_due(now + 11 * MINUTE)

    assert Incident.get().status == 3
    assert IncidentLog.select().order_by(IncidentLog.id.desc()).get().reason == "open for 600 s"


def test_a_shortened_policy_is_found_by_the_audit(world, now):
    set_policy(world, (0, world.alice), (50, world.bob))
    open_one(world, now)
    set_policy(world, (0, world.alice), (5, world.bob))
    audit.audit(now + MINUTE)
    timers.run_due(now + 5 * MINUTE)

    assert [name for name, _ in told()] == ["Alice", "Bob"]


def test_a_service_that_cannot_be_audited_stops_no_other(world, now, monkeypatch):
    open_one(world, now)
    other = founding.new_service(world.team, "Other", world.policy, world.alice, now)
    Incident.insert(
        **{
            **Incident.select().dicts().get(),
            "id": 99,
            "unique_id": "other",
            "incident_number": 2,
            "service": other,
        }
    ).execute()
    looked_at = []

    def fails_on_the_first(incident, *_):
        looked_at.append(incident.service)
        if len(looked_at) == 1:
            raise ZeroDivisionError
        return ()

    monkeypatch.setattr(audit, "wanted", fails_on_the_first)
    audit.audit(now)

    assert sorted(looked_at) == [world.service.id, other.id]


def test_firing_twice_tells_once(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    for _ in range(3):
        timers.run_due(now + 6 * MINUTE)

    assert len(told()) == 2


def test_a_timer_whose_decision_fails_stops_no_other(world, now, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    accept(world, now, message="other", alert_type="critical", entity_id="db2")
    road.run(world.service.id)
    first = Incident.select().order_by(Incident.id).get()
    real = timers.due.decide

    def fails_on_first(kind, found, *rest):
        if found.incident.row == first.id:
            raise ZeroDivisionError
        return real(kind, found, *rest)

    monkeypatch.setattr(timers.due, "decide", fails_on_first)
    timers.run_due(now + 6 * MINUTE)

    assert [name for name, _ in told()] == ["Alice", "Alice", "Bob"]


def test_receipts_are_forgotten_after_30_days_but_not_those_of_an_open_incident(world, now):
    for kind in ("critical", "info", "critical", "resolved"):
        entity = "open" if kind == "critical" and not Receipt.select().exists() else "closed"
        accept(world, now, message="m", alert_type=kind, entity_id=entity)
    road.run(world.service.id)
    accept(world, now + timedelta(days=20), message="young", alert_type="info")
    accept(world, now, message="waiting", alert_type="info")

    assert retention.clean_up(now + timedelta(days=29)) == 0
    assert retention.clean_up(now + timedelta(days=31)) == 3
    assert Event.get().incident.status == 1
    assert Receipt.select().count() == 3


def test_an_alert_that_was_set_aside_is_never_forgotten(world, now):
    accept(world, now, message="m", alert_type="info")
    road.run(world.service.id)
    Event.update(state=WorkState.ASIDE).execute()

    assert retention.clean_up(now + timedelta(days=31)) == 0


def test_a_policy_that_is_emptied_before_its_first_step_still_tells_somebody_once(world, now):
    set_policy(world, (10, world.bob))
    open_one(world, now)
    assert told() == []
    set_policy(world)
    for minute in (1, 6, 11):
        audit.audit(now + minute * MINUTE)
        timers.run_due(now + minute * MINUTE)

    assert told() == [("Alice", now + MINUTE)]
