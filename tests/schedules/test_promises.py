"""What an SLA promises of an incident, and who is told as its times run out."""

from dataclasses import replace

import pytest

from models.effects import DONE_ONCE, Actor, OweNotice, RecordLog
from models.enums import ActorKind, ContactType, IncidentStatus, NoticeKind, TimerKind, Urgency
from models.facts import ForwardingFacts, RuleFacts
from models.timers import Timer
from schedules import promises
from schedules.promises import span, take, waits, wanted
from tests.facts import ALICE, BOB, CHARLIE, MINUTE, NOON, directory, incident, person, sla

TIMER = Actor(ActorKind.TIMER, "sla escalation")
A, R = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED
GOLD = sla((1, -5, "alice"), (1, 0, "bob"), (2, 10, "alice", "bob"), acknowledge=15, resolve=60)


def book(one=GOLD, **more):
    return replace(directory((0, "alice"), **more), slas={one.row: one})


def promised(**changes):
    return incident(**{"sla": 1, "promised_from": NOON, **changes})


def due(state, one=GOLD):
    """When what is due, in minutes after noon."""
    return sorted((timer.kind.value, (timer.due_at - NOON) / MINUTE) for timer in wanted(state, book(one)))


ACKNOWLEDGE = [("sla_breach", 15), ("sla_escalation", 10), ("sla_escalation", 15)]
RESOLVE = [("sla_breach", 60), ("sla_escalation", 70)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (promised(), ACKNOWLEDGE + RESOLVE),
        (promised(status=A, acknowledged_date=NOON, answered_at=NOON), RESOLVE),
        (promised(answered_at=NOON), RESOLVE),
        (promised(status=R, resolved_date=NOON), []),
        (promised(parent=9), []),
        (promised(sla=None), []),
        (promised(sla=7), []),
        (promised(urgency=Urgency.LOW, assigned_to=2, escalation_policy=None), ACKNOWLEDGE + RESOLVE),
        (promised(promised_from=None), ACKNOWLEDGE + RESOLVE),
    ],
    ids=[
        "open", "acknowledged", "triggered again", "resolved", "merged", "none", "gone or inactive",
        "of no concern", "from before there were promises",
    ],
)  # fmt: skip
def test_a_promise_runs_until_it_is_met(state, expected):
    assert due(state) == sorted(expected)


def test_snoozed_its_end_is_promised_all_the_same():
    asleep = promised(status=A, answered_at=NOON, snoozed_at=NOON, snoozed_till=NOON + 600 * MINUTE)

    assert due(asleep) == RESOLVE


def test_opened_again_it_is_promised_anew():
    later = promised(promised_from=NOON + 30 * MINUTE, creation_date=NOON)

    assert due(later) == sorted((kind, minutes + 30) for kind, minutes in ACKNOWLEDGE + RESOLVE)
    keys = {timer.key for state in (promised(), later) for timer in wanted(state, book())}
    assert len(keys) == 10


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        (sla((1, -5, "bob"), (2, -5, "bob"), resolve=60), {NoticeKind.SLA_RESOLVE}),
        (sla((1, -5, "bob"), (2, -5, "bob"), acknowledge=60), {NoticeKind.SLA_ACKNOWLEDGE}),
        (sla((1, -5, "bob"), (2, -5, "bob")), set()),
    ],
)
def test_without_a_time_there_is_no_promise(one, kinds):
    assert {promises.KINDS[wait.promise.clock] for wait in waits(promised(), book(one))} == kinds


def test_keys_fit_their_column():
    keys = [timer.key for timer in wanted(promised(), book())]

    assert max(map(len, keys)) <= Timer.key.max_length


def test_a_promise_by_another_moment_is_another_one():
    longer = replace(GOLD, acknowledge_s=1800)
    first, second = ({timer.key for timer in wanted(promised(), book(one))} for one in (GOLD, longer))

    assert len(first & second) == len(RESOLVE)


def taken(minutes, one, kind=TimerKind.SLA_ESCALATION, state=None, place=0, around=None):
    """What is done so many minutes after noon about the wait in that place among those of its kind."""
    state, around = state or promised(), around or book(one)
    found = [wait for wait in waits(state, around) if wait.kind is kind]
    return take(state, found[place], around, TIMER, NOON + minutes * MINUTE)


def owed(effects):
    return [effect.notice for effect in effects if isinstance(effect, OweNotice)]


@pytest.mark.parametrize(
    ("kind", "after", "minutes", "said"),
    [
        (1, -5, 10, "acknowledgement of SLA Gold due in 5 min"),
        (2, -5, 55, "resolution of SLA Gold due in 5 min"),
        (1, 0, 15, "SLA Gold: not acknowledged within its promise"),
        (1, 5, 20, "SLA Gold: not acknowledged for 5 min beyond its promise"),
        (2, 90, 150, "SLA Gold: not resolved for 1 h 30 min beyond its promise"),
        (1, -5, 12, "acknowledgement of SLA Gold due in 3 min"),
        (1, -5, 25, "SLA Gold: not acknowledged for 10 min beyond its promise"),
        (1, -20, 0, "acknowledgement of SLA Gold due in 15 min"),
    ],
    ids=[
        "before",
        "its end",
        "as it breaks",
        "after",
        "long after",
        "late",
        "far too late",
        "from the start",
    ],
)
def test_whoever_is_told_learns_how_far_it_is(kind, after, minutes, said):
    _, effects = taken(minutes, sla((kind, after, "alice"), acknowledge=15, resolve=60))

    assert [notice.reason for notice in owed(effects)] == [said]
    (log,) = [effect for effect in effects if isinstance(effect, RecordLog)]
    assert (log.what, log.reason) == ("sla", f"{said}: Alice")


def test_a_warning_that_comes_seconds_late_does_not_warn_of_what_has_happened():
    hasty = sla((1, -0.5, "alice"), acknowledge=15)
    (notice,) = owed(taken(15.1, hasty)[1])

    assert notice.reason == "SLA Gold: not acknowledged for 6 s beyond its promise"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (0, "SLA Gold breached: not acknowledged within 15 min"),
        (1, "SLA Gold breached: not resolved within 1 h"),
    ],
)
def test_a_breach_is_logged_and_nobody_is_told_of_it(place, said):
    outcome, effects = taken(60, GOLD, TimerKind.SLA_BREACH, place=place)

    assert outcome == f"{DONE_ONCE}the breach is logged"
    assert effects == (RecordLog("incident-1", NOON + 60 * MINUTE, "sla", said, TIMER),)


def rules(row, *rules):
    """Somebody with (urgency, delay, contact) as rules."""
    return replace(
        person(row, "Dora"),
        rules=tuple(
            RuleFacts(row * 10 + n, contact, ContactType.EMAIL, urgency, delay)
            for n, (urgency, delay, contact) in enumerate(rules)
        ),
    )


@pytest.mark.parametrize(
    ("rules_of_hers", "contacts"),
    [
        ([(Urgency.HIGH, 0, 7), (Urgency.LOW, 0, 8)], [7, 8]),
        ([(Urgency.HIGH, 0, 7), (Urgency.LOW, 0, 7)], [7]),
        ([(Urgency.HIGH, 5, 7), (Urgency.LOW, 0, 8)], [8]),
        ([(Urgency.HIGH, 5, 7)], [None]),
        ([], [None]),
    ],
    ids=["both urgencies", "a contact once", "not with a delay", "all with a delay", "none at all"],
)
def test_responders_are_told_by_their_rules_without_delay_whatever_the_urgency(rules_of_hers, contacts):
    dora = rules(4, *rules_of_hers)
    one = sla((1, -5, "dora"), acknowledge=15)
    for urgency in Urgency:
        state = promised(urgency=urgency)
        _, effects = taken(10, one, state=state, around=book(one, people=(dora,)))

        assert [notice.contact for notice in owed(effects)] == contacts
        assert {notice.not_before for notice in owed(effects)} == {NOON + 10 * MINUTE}


def test_forwarding_holds_for_responders_too():
    away = replace(ALICE, forwarding=(ForwardingFacts(NOON, NOON + 60 * MINUTE, BOB),))
    one = sla((1, -5, "alice"), acknowledge=15)
    _, effects = taken(10, one, around=book(one, people=(away, BOB)))

    assert {notice.user for notice in owed(effects)} == {BOB.row}
    assert {notice.reason for notice in owed(effects)} == {
        "acknowledgement of SLA Gold due in 5 min; forwarded from Alice"
    }


@pytest.mark.parametrize("named", [(), ("zoe",)], ids=["nobody was named", "who was named has left"])
def test_an_escalation_that_reaches_nobody_tells_the_managers(named):
    one = sla((1, -5, *named), acknowledge=15)
    _, effects = taken(10, one, around=book(one, managers=("charlie",)))

    (notice,) = owed(effects)
    assert notice.user == CHARLIE.row
    assert notice.reason.startswith(
        "acknowledgement of SLA Gold due in 5 min; its escalation reaches nobody: the team's managers told"
    )


def test_of_all_that_is_overdue_nobody_is_told_twice():
    one = sla((1, -10, "alice", "charlie"), (1, -5, "alice"), (1, 5, "alice", "bob"), acknowledge=15)
    told = [
        [(notice.user, notice.reason) for notice in owed(taken(25, one, place=place)[1])]
        for place in range(3)
    ]

    said = "SLA Gold: not acknowledged for 10 min beyond its promise"
    without = "; no usable rule without delay, so the account's address"
    assert told == [[(CHARLIE.row, said + without)], [], [(ALICE.row, said), (BOB.row, said)]]
    assert taken(25, one, place=1)[0] == f"{DONE_ONCE}who is named is told of what followed"


def test_what_is_not_due_yet_keeps_nobody_from_being_told():
    one = sla((1, -5, "alice"), (1, 5, "alice"), acknowledge=15)

    assert [notice.user for notice in owed(taken(10, one)[1])] == [ALICE.row]


def test_what_one_promise_of_another_incident_says_travels_with_it():
    """Of the same escalation and to the same contact, however long ago each began."""
    one = sla((1, -5, "alice"), acknowledge=15)
    later = promised(unique_id="other", promised_from=NOON - 20 * MINUTE)
    (first,), (second,) = (owed(taken(30, one, state=state)[1]) for state in (promised(), later))

    assert first.key != second.key
    assert first.travels_with(NOON) == second.travels_with(NOON)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (45, "45 s"), (90, "1 min 30 s"), (300, "5 min"), (7_500, "2 h 5 min"), (432_000, "5 d"),
     (90_061, "1 d 1 h")],
)  # fmt: skip
def test_lengths_in_words(seconds, said):
    assert span(seconds) == said
