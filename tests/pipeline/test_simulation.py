"""What would happen, decided from facts alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from models.effects import EntityState, NoticeState
from models.enums import AlertType, IncidentStatus, NoticeKind, RuleAction, ServiceStatus
from models.facts import ForwardingFacts, WindowFacts
from pipeline.course import MOST_HAPPENINGS, Kind
from pipeline.rulesets import RuleSet
from pipeline.simulation import simulate
from pipeline.state import LaneState
from schedules import timers
from tests.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, alert, directory, incident, lane
from tests.rules import action, rule_facts
from tests.schedules import rotas

HOURS = timedelta(hours=2)
NAMES = {person.row: person.name for person in (ALICE, BOB, CHARLIE)}


def simulated(facts, *alerts, lasts=HOURS, rules=(), turns=None, **options):
    ruleset = RuleSet(rules, options.get("is_enough", lambda: False))
    state = LaneState(facts, rulesets={7: ruleset} if rules else {}, turns=turns)
    return simulate(state, alerts or [alert()], NOON, lasts, **options)


def told(found):
    """Who is told after how many minutes."""
    return [
        (NAMES[each.notice.user], (each.at - NOON) / MINUTE)
        for each in found.happenings
        if each.kind is Kind.TOLD
    ]


def words(found):
    return [f"{(each.at - NOON) // MINUTE} {each.kind}: {each.why}" for each in found.happenings]


def test_an_alert_walks_its_road_and_then_time_goes_on_until_nothing_is_left():
    found = simulated(lane(directory((0, "alice"), (5, "bob"))))

    assert words(found) == [
        "0 road: to be told now: Alice",
        "0 opened: critical alert from Probe",
        "0 log: step 1 of policy Default: Alice",
        "0 told: named by step 1 of policy Default",
        "5 timer: 1 step taken",
        "5 log: step 2 of policy Default: Bob",
        "5 told: named by step 2 of policy Default",
        "10 told: named by step 2 of policy Default",
    ]
    assert (found.goes_on_at, found.is_cut) == (None, False)
    (left,) = found.incidents
    assert (left.status, left.assigned_to, left.next_step) == (IncidentStatus.TRIGGERED, ALICE.row, 2)
    (event,) = found.events
    assert [stage for stage, _ in event.reasons] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip


def test_it_ends_when_the_time_is_over_and_says_when_it_would_go_on():
    book = directory((0, "alice"), (5, "bob"), repeat=9)

    found = simulated(lane(book), lasts=5 * MINUTE)

    assert told(found) == [("Alice", 0), ("Bob", 5)]
    assert found.goes_on_at == NOON + 10 * MINUTE


def test_of_no_time_at_all_only_what_happens_at_once_is_told():
    assert told(simulated(lane(directory((0, "alice"), (5, "bob"))), lasts=timedelta(0))) == [("Alice", 0)]


def test_an_incident_that_resolves_itself_tells_nobody_of_what_was_still_owed():
    found = simulated(lane(directory((0, "bob")), auto_resolve_s=240))

    assert told(found) == [("Bob", 0)]
    assert words(found)[-2:] == ["4 timer: resolved", "4 log: open for 240 s"]
    assert found.incidents[0].status is IncidentStatus.RESOLVED
    assert found.goes_on_at is None


def test_nobody_is_told_of_what_opens_no_incident_and_the_road_says_why():
    disabled = simulated(lane(status=ServiceStatus.DISABLED))
    covered = simulated(lane(), alert(AlertType.INFO))
    suppressed = simulated(lane(), rules=[rule_facts(action(RuleAction.SUPPRESS))])

    assert words(disabled) == ["0 road: the service is disabled: stored, no incident"]
    assert words(covered) == ["0 road: info opens no incident here: the integration opens them for critical"]
    assert words(suppressed) == ["0 road: suppressed: stored, no incident"]
    assert suppressed.events[0].rules[0]["matches"] is True
    assert disabled.incidents == ()


def test_a_rule_puts_off_the_first_word():
    delay = rule_facts(action(RuleAction.DELAY_NOTIFICATIONS, "90"))

    found = simulated(lane(directory((0, "alice"), (5, "alice"))), rules=[delay])

    assert told(found) == [("Alice", 1.5), ("Alice", 6.5)]


def test_who_is_on_call_and_who_is_away_is_asked_of_each_moment():
    turns = rotas.schedule(rotas.layer("alice bob", "2026-03-03 12:05"))
    away = replace(ALICE, forwarding=(ForwardingFacts(NOON, NOON + MINUTE, CHARLIE),))
    book = directory((0, turns), (4, turns), (5, turns), people=(away, BOB, CHARLIE))

    found = simulated(lane(book), lasts=5 * MINUTE)

    assert told(found) == [("Charlie", 0), ("Alice", 4), ("Bob", 5)]
    assert "; forwarded from Alice" in found.happenings[3].why


def test_by_turns_it_is_told_whose_turn_it_is():
    book = directory((0, "alice", "bob"), round_robin=True, alone=True)

    assert told(simulated(lane(book), turns={1: 0})) == [("Alice", 0)]
    assert told(simulated(lane(book), turns={1: 1}))[0] == ("Bob", 0)


def test_nobody_on_call_is_told_to_the_managers():
    found = simulated(lane(directory((0,), managers=("alice",))))

    assert told(found) == [("Alice", 0)]
    assert found.happenings[-1].why.startswith("policy Default reaches nobody: the team's managers told")


def test_several_alerts_of_one_body_are_one_course_of_time():
    found = simulated(
        lane(directory((0, "alice"))), alert(), alert(entity_id="db2", number=1), alert(number=2)
    )

    assert told(found) == [("Alice", 0), ("Alice", 0)]
    assert [event.incident_created for event in found.events] == [True, True, False]
    assert len(found.incidents) == 2


def test_there_is_an_end_to_what_is_told():
    found = simulated(lane(directory((0, "alice"), repeat=100_000)), lasts=timedelta(days=31))

    assert len(found.happenings) == MOST_HAPPENINGS
    assert found.is_cut


def after(asked):
    """is_enough, which says so when it has been asked so many times."""
    left = iter([False] * asked)
    return lambda: next(left, True)


def test_it_stops_between_alerts_and_tells_what_came_of_those_before():
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(3)]

    found = simulated(lane(directory((0, "alice"), (5, "bob"))), *alerts, is_enough=after(2))

    assert found.is_cut
    assert [event.entity_id for event in found.events] == ["db0", "db1"]
    assert told(found) == [("Alice", 0), ("Alice", 0)]


def test_it_stops_between_timers():
    found = simulated(lane(directory((0, "alice"), (5, "bob"), (9, "alice"))), is_enough=after(5))

    assert found.is_cut
    assert told(found) == [("Alice", 0), ("Bob", 5)]


def test_it_stops_between_rules_and_tells_nothing_of_an_alert_that_has_not_met_all_of_its():
    rules = [rule_facts(action(RuleAction.CHANGE_MESSAGE, "Seen"))] * 3

    found = simulated(lane(), alert(), alert(entity_id="db2", number=1), rules=rules, is_enough=after(6))

    assert found.is_cut
    assert [(event.entity_id, event.message) for event in found.events] == [("db1", "Seen")]


def test_whoever_is_told_at_once_is_told_however_much_happens_at_that_moment():
    book = directory(*[(0, "alice")] * 50, (0, "bob"))
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(50)]

    found = simulated(lane(book), *alerts)

    assert len(found.happenings) == MOST_HAPPENINGS
    assert found.is_cut
    assert {NAMES[person]: first for person, first in found.told.items()} == {"Alice": NOON, "Bob": NOON}


def test_what_is_left_out_is_said_where_nothing_more_would_happen_later():
    alerts = [alert(entity_id=f"db{number}", number=number) for number in range(100)]

    found = simulated(lane(directory(*[(0, "alice")] * 8)), *alerts)

    assert (len(found.happenings), found.goes_on_at, found.is_cut) == (MOST_HAPPENINGS, None, True)


@pytest.fixture
def burning():
    """An incident that opened an hour ago: Alice was told, Bob is to be, twenty minutes from noon."""
    opened_at = NOON - timedelta(hours=1)
    held = incident(creation_date=opened_at, chain_started_at=opened_at, next_step=1, reached=True)
    facts = lane(directory((0, "alice"), (80, "bob")))
    entity = EntityState(7, "db1").held_by(held.unique_id)
    return LaneState(facts, [entity], [held], {held.unique_id: 1})


def test_an_alert_of_what_burns_already_joins_it_and_that_goes_on(burning):
    found = simulate(burning, [alert()], NOON, HOURS)

    assert words(found)[0] == "0 road: its entity has an open incident"
    assert told(found) == [("Bob", 20), ("Bob", 25)]
    assert [left.unique_id for left in found.incidents] == ["incident-1"]


def test_what_happens_before_the_alert_comes_is_not_told_but_counts(burning):
    later = NOON + 30 * MINUTE

    found = simulate(burning, [alert(at=later)], later, HOURS, since=NOON)

    assert told(found) == []
    assert found.incidents[0].next_step == 2


def test_what_is_owed_already_is_told_too(burning):
    when = NOON + 3 * MINUTE
    owed = NoticeState("k", "incident-1", 1, 100, 1, 10, NoticeKind.ESCALATION, "named before", when, "b")

    found = simulate(burning, [alert()], NOON, HOURS, owed=[owed])

    assert told(found) == [("Alice", 3), ("Bob", 20), ("Bob", 25)]


def test_what_happens_to_an_incident_that_the_alert_has_nothing_to_do_with_is_not_told(burning):
    other = simulate(burning, [alert(AlertType.INFO, entity_id="db2")], NOON, HOURS)

    assert words(other) == ["0 road: info opens no incident here: the integration opens them for critical"]
    assert (other.told, other.incidents, other.goes_on_at) == ({}, (), None)


def test_what_is_merged_into_the_alerts_incident_is_told_of_too():
    parent, child = incident(), incident(unique_id="child", row=2, parent=1)
    entity = EntityState(7, "db1").held_by(parent.unique_id)
    state = LaneState(lane(), [entity], [child, parent], {parent.unique_id: 1})

    found = simulate(state, [alert(AlertType.RESOLVED)], NOON, HOURS)

    assert [(each.unique_id, each.status) for each in found.incidents] == [
        ("incident-1", IncidentStatus.RESOLVED),
        ("child", IncidentStatus.RESOLVED),
    ]


def test_of_timers_that_are_due_together_the_one_that_waits_for_longest_comes_first():
    facts = lane(directory((0, "alice"), (60, "bob")), auto_resolve_s=3600)
    held = incident(next_step=1, reached=True)
    keys = [(held.unique_id, timer.key) for timer in timers.wanted(held, facts.service, facts.directory)]

    def fired(waiting):
        state = LaneState(facts, [EntityState(7, "db1").held_by(held.unique_id)], [held], {held.unique_id: 1})
        found = simulate(state, [alert()], NOON, HOURS, waiting=waiting)
        return [each.what for each in found.happenings if each.kind is Kind.TIMER]

    assert [fired(keys), fired(keys[::-1])] == [["escalate", "auto_resolve"], ["auto_resolve"]]


def test_entities_that_nobody_looked_for_are_named():
    fresh = rule_facts(action(RuleAction.CHANGE_ENTITY_ID, "db2"))
    state = LaneState(lane(), rulesets={7: RuleSet([fresh])}, asked={(7, "db1")})

    assert simulate(state, [alert()], NOON, HOURS).missing == {(7, "db2")}


def window(start, end, **more):
    return WindowFacts("window-1", "Deploy", NOON + start * MINUTE, NOON + end * MINUTE, **more)


def test_what_maintenance_keeps_back_is_told_when_it_is_over():
    rule = rule_facts(action(RuleAction.CHANGE_MESSAGE, "Seen: {{message}}"))
    facts = replace(lane(directory((0, "alice"))), windows=(window(-10, 20), window(15, 30)))

    found = simulated(facts, rules=[rule])

    assert told(found) == [("Alice", 30)]
    assert words(found)[:2] == [
        "0 road: under maintenance by Deploy until 2026-03-04 12:20:00 UTC",
        "30 road: to be told now: Alice",
    ]
    (event,) = found.events
    assert event.message == "Seen: Disk full"
    assert ("release", "kept back no more, and it still burns: released 2026-03-04 12:30:00 UTC") in (
        event.reasons
    )
    assert simulated(facts, lasts=29 * MINUTE).goes_on_at == NOON + 30 * MINUTE


def test_maintenance_that_never_ends_tells_nobody():
    switched_on = lane(directory((0, "alice")), under_maintenance=True)
    by_turns = [window(0, 720, repeat_interval=1), window(720, 1440, repeat_interval=1)]
    always = replace(lane(directory((0, "alice"))), windows=tuple(by_turns))

    for facts in (switched_on, always):
        assert told(simulated(facts, lasts=timedelta(days=31))) == []
