"""What a simulation returns for given facts."""

from datetime import timedelta

import pytest

from models.domain.effects import EntityState, NotificationState
from models.domain.enums import AlertType, IncidentStatus, NotificationKind, ServiceStatus
from models.domain.facts import ForwardingFacts, WindowFacts
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.incidents.timer_table import get_expected_timers
from pipeline.lane_state import LaneState
from pipeline.rules.rulesets import RuleSet
from pipeline.simulation.engine import MAX_SIMULATED_EVENTS, SimulatedKind
from pipeline.simulation.simulate import simulate
from tests.support.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, alert, build_config, incident, lane
from tests.support.rules import RuleAction, action, rule_facts
from tests.support.schedules.facts import layer, schedule

HOURS = timedelta(hours=2)
NAMES = {person.row: person.name for person in (ALICE, BOB, CHARLIE)}


def run_simulation(facts, *alerts, duration=HOURS, rules=(), next_targets=None, **options):
    ruleset = RuleSet(rules, options.get("should_stop", lambda: False))
    state = LaneState(facts, rulesets={7: ruleset} if rules else {}, next_targets=next_targets)
    return simulate(state, alerts or [alert()], NOON, duration, **options)


def list_notified(found):
    """Return who is notified, and after how many minutes."""
    return [
        (NAMES[each.notification.user], (each.at - NOON) / MINUTE)
        for each in found.simulated_events
        if each.kind is SimulatedKind.NOTIFIED
    ]


def list_events(found):
    return [f"{(each.at - NOON) // MINUTE} {each.kind}: {each.why}" for each in found.simulated_events]


def test_a_simulation_runs_the_pipeline_and_then_all_timers():
    found = run_simulation(lane(build_config((0, "alice"), (5, "bob"))))

    assert list_events(found) == [
        "0 pipeline: Notified now: Alice.",
        "0 opened: Opened by an alert of level critical from integration Probe.",
        "0 log: Escalation step 1 of policy Default notifies Alice.",
        "0 notified: Named by step 1 of policy Default.",
        "5 timer: Steps taken: 1.",
        "5 log: Escalation step 2 of policy Default notifies Bob.",
        "5 notified: Named by step 2 of policy Default.",
        "10 notified: Named by step 2 of policy Default.",
    ]
    assert (found.continues_at, found.is_truncated) == (None, False)
    (left,) = found.incidents
    assert (left.status, left.assigned_to, left.next_step) == (IncidentStatus.TRIGGERED, ALICE.row, 2)
    (event,) = found.events
    assert [stage for stage, _ in event.reasons] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip


def test_a_simulation_ends_after_its_duration_and_returns_the_next_time():
    config = build_config((0, "alice"), (5, "bob"), repeat=9)

    found = run_simulation(lane(config), duration=5 * MINUTE)

    assert list_notified(found) == [("Alice", 0), ("Bob", 5)]
    assert found.continues_at == NOON + 10 * MINUTE


def test_a_simulation_without_duration_has_only_immediate_events():
    assert list_notified(
        run_simulation(lane(build_config((0, "alice"), (5, "bob"))), duration=timedelta(0))
    ) == [("Alice", 0)]


def test_auto_resolve_cancels_pending_notifications():
    found = run_simulation(lane(build_config((0, "bob")), auto_resolve_s=240))

    assert list_notified(found) == [("Bob", 0)]
    assert list_events(found)[-2:] == [
        "4 timer: The timer resolved the incident.",
        "4 log: Closed by the auto-resolve time of the service: it was open for 4 min.",
    ]
    assert found.incidents[0].status is IncidentStatus.RESOLVED
    assert found.continues_at is None


def test_an_alert_without_incident_notifies_nobody_and_the_reason_says_why():
    disabled = run_simulation(lane(status=ServiceStatus.DISABLED))
    info = run_simulation(lane(), alert(AlertType.INFO))
    suppressed = run_simulation(lane(), rules=[rule_facts(action(RuleAction.SUPPRESS))])

    assert list_events(disabled) == [
        "0 pipeline: Service Checkout is disabled: the alert is stored and opens no incident."
    ]
    assert list_events(info) == [
        "0 pipeline: Info alerts open no incident here. Integration Probe opens incidents only for critical."
    ]
    assert list_events(suppressed) == [
        "0 pipeline: The alert is suppressed: it is stored and opens no incident."
    ]
    assert suppressed.events[0].rules[0]["matches"] is True
    assert disabled.incidents == ()


def test_a_rule_delays_the_first_notification():
    delay = rule_facts(action(RuleAction.DELAY_NOTIFICATIONS, "90"))

    found = run_simulation(lane(build_config((0, "alice"), (5, "alice"))), rules=[delay])

    assert list_notified(found) == [("Alice", 1.5), ("Alice", 6.5)]


def test_shifts_and_forwarding_apply_at_the_time_of_each_step():
    turns = schedule(layer("alice bob", "2026-03-03 12:05"))
    forwarded_person = replace(ALICE, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),))
    config = build_config((0, turns), (4, turns), (5, turns), people=(forwarded_person, BOB, CHARLIE))

    found = run_simulation(lane(config), duration=5 * MINUTE)

    assert list_notified(found) == [("Charlie", 0), ("Alice", 4), ("Bob", 5)]
    assert make_reason("forwarded_from", person="Alice") in found.simulated_events[3].why.more


def test_a_round_robin_policy_notifies_its_next_target():
    config = build_config((0, "alice", "bob"), round_robin=True, assignee_only=True)

    assert list_notified(run_simulation(lane(config), next_targets={1: 0})) == [("Alice", 0)]
    assert list_notified(run_simulation(lane(config), next_targets={1: 1}))[0] == ("Bob", 0)


def test_managers_are_notified_if_nobody_is_on_call():
    found = run_simulation(lane(build_config((0,), managers=("alice",))))

    assert list_notified(found) == [("Alice", 0)]
    why = make_reason("policy_reaches_nobody", policy="Default").add(make_reason("managers_notified"))
    assert found.simulated_events[-1].why == why


def test_alerts_of_one_body_are_simulated_in_one_run():
    found = run_simulation(
        lane(build_config((0, "alice"))), alert(), alert(entity_id="db2", number=1), alert(number=2)
    )

    assert list_notified(found) == [("Alice", 0), ("Alice", 0)]
    assert [event.incident_created for event in found.events] == [True, True, False]
    assert len(found.incidents) == 2


def test_the_number_of_simulated_events_is_limited():
    found = run_simulation(lane(build_config((0, "alice"), repeat=100_000)), duration=timedelta(days=31))

    assert len(found.simulated_events) == MAX_SIMULATED_EVENTS
    assert found.is_truncated


def stop_after(calls):
    """Return a `should_stop` that returns true after this number of calls."""
    left = iter([False] * calls)
    return lambda: next(left, True)


def test_a_simulation_can_stop_between_alerts_and_keeps_the_earlier_events():
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(3)]

    found = run_simulation(lane(build_config((0, "alice"), (5, "bob"))), *alerts, should_stop=stop_after(2))

    assert found.is_truncated
    assert [event.entity_id for event in found.events] == ["db0", "db1"]
    assert list_notified(found) == [("Alice", 0), ("Alice", 0)]


def test_a_simulation_can_stop_between_timers():
    found = run_simulation(
        lane(build_config((0, "alice"), (5, "bob"), (9, "alice"))), should_stop=stop_after(5)
    )

    assert found.is_truncated
    assert list_notified(found) == [("Alice", 0), ("Bob", 5)]


def test_a_simulation_that_stops_between_rules_leaves_out_the_unfinished_alert():
    rules = [rule_facts(action(RuleAction.CHANGE_MESSAGE, "Seen"))] * 3

    found = run_simulation(
        lane(), alert(), alert(entity_id="db2", number=1), rules=rules, should_stop=stop_after(6)
    )

    assert found.is_truncated
    assert [(event.entity_id, event.message) for event in found.events] == [("db1", "Seen")]


def test_immediate_notifications_are_complete_even_if_events_are_truncated():
    config = build_config(*[(0, "alice")] * 50, (0, "bob"))
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(50)]

    found = run_simulation(lane(config), *alerts)

    assert len(found.simulated_events) == MAX_SIMULATED_EVENTS
    assert found.is_truncated
    assert {NAMES[person]: first for person, first in found.first_notified.items()} == {
        "Alice": NOON,
        "Bob": NOON,
    }


def test_a_truncated_simulation_says_so_even_without_later_events():
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(100)]

    found = run_simulation(lane(build_config(*[(0, "alice")] * 8)), *alerts)

    assert (len(found.simulated_events), found.continues_at, found.is_truncated) == (
        MAX_SIMULATED_EVENTS,
        None,
        True,
    )


@pytest.fixture
def firing_incident():
    """An incident that opened an hour ago: Alice was notified, and Bob will be, 20 minutes after noon."""
    opened_at = NOON - timedelta(hours=1)
    open_incident = incident(
        creation_date=opened_at, run_started_at=opened_at, next_step=1, paged_someone=True
    )
    facts = lane(build_config((0, "alice"), (80, "bob")))
    entity = EntityState(7, "db1").with_incident(open_incident.unique_id)
    return LaneState(facts, [entity], [open_incident], {open_incident.unique_id: 1})


def test_an_alert_of_a_firing_entity_joins_its_incident_which_continues(firing_incident):
    found = simulate(firing_incident, [alert()], NOON, HOURS)

    assert list_events(found)[0] == ("0 pipeline: The alert belongs to the open incident of its entity.")
    assert list_notified(found) == [("Bob", 20), ("Bob", 25)]
    assert [left.unique_id for left in found.incidents] == ["incident-1"]


def test_events_before_the_alert_take_effect_but_are_not_returned(firing_incident):
    later = NOON + 30 * MINUTE

    found = simulate(firing_incident, [alert(at=later)], later, HOURS, since=NOON)

    assert list_notified(found) == []
    assert found.incidents[0].next_step == 2


def test_pending_notifications_are_sent_too(firing_incident):
    when = NOON + 3 * MINUTE
    pending_notification = NotificationState(
        "k",
        "incident-1",
        1,
        100,
        1,
        10,
        NotificationKind.ESCALATION,
        make_reason("asked_to_help", by="Bob"),
        when,
        "b",
    )

    found = simulate(firing_incident, [alert()], NOON, HOURS, pending=[pending_notification])

    assert list_notified(found) == [("Alice", 3), ("Bob", 20), ("Bob", 25)]


def test_events_of_unrelated_incidents_are_not_returned(firing_incident):
    other = simulate(firing_incident, [alert(AlertType.INFO, entity_id="db2")], NOON, HOURS)

    assert list_events(other) == [
        "0 pipeline: Info alerts open no incident here. Integration Probe opens incidents only for critical."
    ]
    assert (other.first_notified, other.incidents, other.continues_at) == ({}, (), None)


def test_incidents_merged_into_the_alerts_incident_are_returned_too():
    parent, child = incident(), incident(unique_id="child", row=2, parent=1)
    entity = EntityState(7, "db1").with_incident(parent.unique_id)
    state = LaneState(lane(), [entity], [child, parent], {parent.unique_id: 1})

    found = simulate(state, [alert(AlertType.RESOLVED)], NOON, HOURS)

    assert [(each.unique_id, each.status) for each in found.incidents] == [
        ("incident-1", IncidentStatus.RESOLVED),
        ("child", IncidentStatus.RESOLVED),
    ]


def test_timers_due_at_the_same_time_fire_in_the_order_of_creation():
    facts = lane(build_config((0, "alice"), (60, "bob")), auto_resolve_s=3600)
    open_incident = incident(next_step=1, paged_someone=True)
    keys = [
        (open_incident.unique_id, timer.key)
        for timer in get_expected_timers(open_incident, facts.service, facts.config)
    ]

    def list_fired(timer_order):
        state = LaneState(
            facts,
            [EntityState(7, "db1").with_incident(open_incident.unique_id)],
            [open_incident],
            {open_incident.unique_id: 1},
        )
        found = simulate(state, [alert()], NOON, HOURS, timer_order=timer_order)
        return [each.what for each in found.simulated_events if each.kind is SimulatedKind.TIMER]

    assert [list_fired(keys), list_fired(keys[::-1])] == [["escalate", "auto_resolve"], ["auto_resolve"]]


def test_entities_that_were_not_loaded_are_returned_as_missing():
    fresh = rule_facts(action(RuleAction.CHANGE_ENTITY_ID, "db2"))
    state = LaneState(lane(), rulesets={7: RuleSet([fresh])}, loaded_keys={(7, "db1")})

    assert simulate(state, [alert()], NOON, HOURS).missing == {(7, "db2")}


def build_window(start, end, **more):
    return WindowFacts("window-1", "Deploy", NOON + start * MINUTE, NOON + end * MINUTE, **more)


def test_a_deferred_alert_notifies_people_after_maintenance():
    rule = rule_facts(action(RuleAction.CHANGE_MESSAGE, "Seen: {{message}}"))
    facts = replace(lane(build_config((0, "alice"))), windows=(build_window(-10, 20), build_window(15, 30)))

    found = run_simulation(facts, rules=[rule])

    assert list_notified(found) == [("Alice", 30)]
    assert list_events(found)[:2] == [
        "0 pipeline: Maintenance window Deploy is in force until 2026-03-04 12:20:00 UTC.",
        "30 pipeline: Notified now: Alice.",
    ]
    (event,) = found.events
    assert event.message == "Seen: Disk full"
    released = make_reason("released", at=(NOON + 30 * MINUTE).isoformat())
    assert ("maintenance_end", released) in event.reasons
    assert run_simulation(facts, duration=29 * MINUTE).continues_at == NOON + 30 * MINUTE


def test_maintenance_without_end_notifies_nobody():
    switched_on = lane(build_config((0, "alice")), under_maintenance=True)
    alternating = [build_window(0, 720, repeat_interval=1), build_window(720, 1440, repeat_interval=1)]
    always = replace(lane(build_config((0, "alice"))), windows=tuple(alternating))

    for facts in (switched_on, always):
        assert list_notified(run_simulation(facts, duration=timedelta(days=31))) == []
