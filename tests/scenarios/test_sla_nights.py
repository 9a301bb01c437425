"""Nights on which somebody was promised an answer, and an end."""

from datetime import timedelta

import pytest

from models import removal
from models.accounts import raise_version
from models.apply import apply
from models.base import store
from models.effects import Outcome
from models.enums import IncidentStatus, TeamRole
from models.ids import new_uuid
from models.incidents import Incident, IncidentLog
from models.loading import lock_incident
from models.notices import Message, Notice
from models.services import Service
from models.teams import Sla, TeamMember
from models.timers import Timer
from models.users import ContactMethod, NotificationRule
from pipeline import moves
from tests.alerts import accept
from tests.scenarios.conftest import ALICE
from tests.workers.test_timers import MINUTE, set_policy
from workers import audit, timers

A, R, T = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED

SOON = "acknowledgement of SLA Gold due in 5 min"
BROKEN = "SLA Gold: not acknowledged within its promise"
BEYOND = "SLA Gold: not acknowledged for 5 min beyond its promise"
END_SOON = "resolution of SLA Gold due in 10 min"
LEFT_OPEN = "SLA Gold: not resolved within its promise"


def sla(world, *escalations, name="Gold", acknowledge=None, resolve=None):
    """An SLA with times in minutes; escalations as (type, minutes after the breach, person, ...)."""
    kept = [
        {
            "unique_id": new_uuid(),
            "type": kind,
            "time": int(minutes * 60),
            "responders": [{"user": user.username, "unique_id": new_uuid()} for user in people],
        }
        for kind, minutes, *people in escalations
    ]
    made = Sla.create(
        unique_id=new_uuid(),
        team=world.team,
        name=name,
        acknowledge_time=acknowledge and acknowledge * 60,
        resolve_time=resolve and resolve * 60,
        escalations=kept,
        creation_date=world.team.creation_date,
    )
    raise_version(world.account.id)
    return made


def edit(one, **columns):
    """As an edit over the interface does; each looks for what follows from it."""
    Sla.update(**columns).where(Sla.id == one.id).execute()
    raise_version(one.team.account_id)


@pytest.fixture
def gold(world):
    """An answer within 15 minutes and an end within 60; Bob hears of the one, Charlie of the other."""
    set_policy(world, (0, world.alice))
    made = sla(
        world,
        (1, -5, world.bob),
        (1, 0, world.bob),
        (1, 5, world.bob),
        (2, -10, world.charlie),
        (2, 0, world.charlie),
        acknowledge=15,
        resolve=60,
    )
    Service.update(sla=made).execute()
    raise_version(world.account.id)
    return made


def told(night):
    """Who was told by an SLA since this was last asked, and why."""
    fresh, night.seen = night.box.mails[night.seen :], len(night.box.mails)
    found = []
    for address, mail in fresh:
        (why,) = (line for line in mail.get_content().splitlines() if line.startswith("Why you:"))
        if "SLA" in why:
            found.append((address.partition("@")[0], why.removeprefix("Why you:").strip()))
    return found


def logged():
    query = IncidentLog.select(IncidentLog.reason).where(IncidentLog.what == "sla").order_by(IncidentLog.id)
    return [reason for (reason,) in query.tuples()]


def waiting(kind="sla_"):
    return [row.key for row in Timer.select().where(Timer.done_at.is_null(), Timer.kind.startswith(kind))]


def to(moved, status):
    moved(moves.move, status, reason="because")


def give(night, one):
    """The newest incident gets another SLA, or none."""
    with store().writing():
        found = lock_incident(night.incident().id, slas=[one.id] if one else [])
        new = one.id if one else None
        around = (found.service, found.directory, night.now, "sla changed by Alice")
        apply(Outcome(effects=list(moves.change_sla(found.incident, new, *around))))


def test_nobody_answers_and_nobody_ends_it(night, gold):
    night.alert("Disk full on db1")
    night.after(minutes=9, seconds=59)
    assert told(night) == []

    expected = [
        (10, "bob", SOON), (15, "bob", BROKEN), (20, "bob", BEYOND), (50, "charlie", END_SOON),
        (60, "charlie", LEFT_OPEN),
    ]  # fmt: skip
    passed = timedelta(minutes=9, seconds=59)
    for minutes, person, why in expected:
        due = minutes * MINUTE
        night.after(seconds=(due - passed).total_seconds())
        assert told(night) == [(person, why)]
        passed = due
    night.after(hours=10)
    assert told(night) == []
    assert logged() == [
        f"{SOON}: Bob",
        "SLA Gold breached: not acknowledged within 15 min",
        f"{BROKEN}: Bob",
        f"{BEYOND}: Bob",
        f"{END_SOON}: Charlie",
        "SLA Gold breached: not resolved within 1 h",
        f"{LEFT_OPEN}: Charlie",
    ]


def test_an_answer_in_time_is_an_answer_and_the_end_is_awaited(night, gold):
    night.alert("Disk full on db1")
    night.after(minutes=9)
    night.alert("on it", "acknowledged")
    night.after(minutes=40)
    assert told(night) == []

    night.after(minutes=60)
    assert told(night) == [("charlie", END_SOON), ("charlie", LEFT_OPEN)]


def test_an_answer_after_the_breach_ends_what_was_still_to_come_of_it(night, gold):
    night.alert("Disk full on db1")
    night.after(minutes=17)
    night.alert("on it", "acknowledged")
    night.after(minutes=20)

    assert told(night) == [("bob", SOON), ("bob", BROKEN)]


def test_an_end_ends_all(night, gold):
    night.alert("Disk full on db1")
    night.after(minutes=9)
    night.alert("all is well", "resolved")
    night.after(hours=5)

    assert told(night) == []
    assert waiting() == []
    assert logged() == []


def test_an_acknowledgement_that_runs_out_was_an_answer_all_the_same(night, gold):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=720).execute()
    night.alert("Disk full on db1")
    night.after(minutes=1)
    night.alert("on it", "acknowledged")
    night.after(minutes=40)

    assert night.incident().status == T
    assert told(night) == []


def test_opened_again_all_is_promised_again(night, gold, moved):
    night.alert("Disk full on db1")
    night.after(minutes=30)
    to(moved, R)
    assert told(night) == [("bob", SOON), ("bob", BROKEN), ("bob", BEYOND)]

    night.after(minutes=30)
    to(moved, T)
    night.after(minutes=9)
    assert told(night) == []
    night.after(minutes=1)
    assert told(night) == [("bob", SOON)]
    night.after(minutes=50)
    assert [person for person, _ in told(night)] == ["bob", "bob", "charlie", "charlie"]


def test_reopened_as_acknowledged_its_end_is_promised_again(night, gold, moved):
    night.alert("Disk full on db1")
    to(moved, R)
    night.after(minutes=30)
    to(moved, A)
    night.after(minutes=49)
    assert told(night) == []

    night.after(minutes=1)
    assert told(night) == [("charlie", END_SOON)]


def test_what_does_not_concern_a_promise_does_not_touch_it(night, gold, moved, world):
    night.alert("Disk full on db1")
    night.after(minutes=12)
    assert told(night) == [("bob", SOON)]

    person = lock_incident(night.incident().id).directory.people[world.alice.username]
    moved(moves.assign, None)
    moved(moves.assign, person)
    moved(moves.change_policy, None)
    moved(moves.change_policy, world.policy.id)
    night.after(minutes=2, seconds=59)
    assert told(night) == []
    night.after(seconds=1)
    assert told(night) == [("bob", BROKEN)]


def test_a_sleeper_is_woken_by_nothing_but_what_was_promised(night, gold, moved):
    night.alert("Disk full on db1")
    night.alert("on it", "acknowledged")
    moved(moves.snooze, night.now + 600 * MINUTE)
    night.after(minutes=70)

    assert told(night) == [("charlie", END_SOON), ("charlie", LEFT_OPEN)]


def merge(night, *, apart=False):
    """The second incident into the first, or out of it."""
    first, second = Incident.select().order_by(Incident.id)
    with store().writing():
        found, parent = lock_incident(second.id), lock_incident(first.id)
        if apart:
            around = (found.service, found.directory, ALICE, night.now)
            effects = moves.unmerge(found.incident, parent.incident, *around)
        else:
            effects = moves.merge(parent.incident, [found.incident], [], ALICE, night.now)
        rows = {row.unique_id: row.id for row in (first, second)}
        apply(Outcome(effects=list(effects)), rows)


def test_what_is_merged_is_silent_and_alone_again_it_is_not(night, gold):
    night.alert("Disk full on db1", entity="db1")
    night.alert("Disk full on db2", entity="db2")
    night.after(minutes=1)
    merge(night)
    night.alert("on it", "acknowledged", entity="db1")
    night.after(minutes=54)
    assert told(night) == [("charlie", END_SOON)]

    merge(night, apart=True)
    night.after(seconds=1)
    late = "resolution of SLA Gold due in 5 min"
    assert told(night) == [("charlie", late)]
    night.after(minutes=5)
    # Of both incidents at once, in one message or in two.
    assert Notice.select().where(Notice.reason == LEFT_OPEN).count() == 2


def test_another_sla_is_another_promise_and_what_was_said_stays_said(night, gold, world):
    silver = sla(world, (1, -5, world.charlie), name="Silver", acknowledge=30)
    night.alert("Disk full on db1")
    night.after(minutes=12)
    assert told(night) == [("bob", SOON)]

    give(night, silver)
    night.after(minutes=13)
    assert told(night) == [("charlie", "acknowledgement of SLA Silver due in 5 min")]

    give(night, gold)
    night.after(seconds=1)
    # Of what is overdue, once; and not what was said before.
    assert told(night) == [("bob", "SLA Gold: not acknowledged for 10 min beyond its promise")]
    night.after(minutes=10)
    assert told(night) == []


@pytest.fixture
def unsent(night):
    """unsent(minutes): so much later what is due is done, but nobody is told yet."""

    def wait(minutes):
        night.now += minutes * MINUTE
        timers.run_due(night.now)

    return wait


@pytest.mark.parametrize("delivered", [False, True], ids=["at once", "after a delivery"])
def test_what_was_not_sent_when_it_was_merged_is_told_when_it_is_alone_again(night, gold, unsent, delivered):
    night.alert("Disk full on db1", entity="db1")
    night.alert("Disk full on db2", entity="db2")
    for entity in ("db1", "db2"):
        night.alert("on it", "acknowledged", entity=entity)
    told(night)
    unsent(50)
    merge(night)
    if delivered:
        night.after(minutes=2)
        assert told(night) == [("charlie", END_SOON)]
    merge(night, apart=True)
    night.after(seconds=1)

    # At once, in a mail of its own beside the parent's.
    late = [("charlie", "resolution of SLA Gold due in 8 min")]
    assert told(night) == (late if delivered else [("charlie", END_SOON)] * 2)
    assert _sent_of(night.incident()) == ["sla_resolve"]
    night.after(minutes=8)
    audit.audit(night.now)
    assert _sent_of(night.incident()) == ["sla_resolve"]


def _sent_of(incident):
    """Kinds of what was sent of an incident, but for its chain and what is told of a breach itself."""
    sent = Notice.select().where(Notice.incident == incident, Notice.state == 1, Notice.kind != "escalation")
    return [row.kind for row in sent if row.reason != LEFT_OPEN]


@pytest.mark.parametrize("delivered", [False, True], ids=["at once", "after a delivery"])
def test_what_was_not_sent_when_the_sla_was_swapped_is_told_when_it_is_given_back(
    night, gold, world, unsent, delivered
):
    silver = sla(world, name="Silver", acknowledge=300)
    night.alert("Disk full on db1")
    assert told(night) == []
    unsent(10)
    give(night, silver)
    if delivered:
        night.after(minutes=2)
        assert told(night) == []
    give(night, gold)
    night.after(seconds=1)

    assert told(night) == [("bob", "acknowledgement of SLA Gold due in 3 min" if delivered else SOON)]
    give(night, silver)
    give(night, gold)
    night.after(minutes=2)
    assert told(night) == []


def test_of_several_who_were_told_in_part_only_the_others_are_told(night, world, unsent):
    """One contact's mail is out, the other's is not when the SLA is swapped there and back."""
    set_policy(world, (0, world.alice))
    both = sla(world, (1, -5, world.bob, world.charlie), acknowledge=15)
    Service.update(sla=both).execute()
    raise_version(world.account.id)
    night.alert("Disk full on db1")
    told(night)
    unsent(10)
    charlies = Notice.select(Notice.message).where(Notice.user == world.charlie)
    Message.update(next_at=night.now + 60 * MINUTE).where(Message.id.in_(charlies)).execute()
    night._settle()
    assert told(night) == [("bob", SOON)]

    give(night, None)
    give(night, both)
    night.after(seconds=1)
    assert told(night) == [("charlie", SOON)]
    night.after(hours=2)
    assert told(night) == []


def test_without_its_sla_nothing_is_promised(night, gold):
    night.alert("Disk full on db1")
    night.after(minutes=1)
    give(night, None)
    night.after(hours=5)

    assert told(night) == []
    assert logged() == []


def test_an_sla_that_comes_late_is_told_at_once_and_once(night, gold, world):
    bronze = sla(world, (1, -5, world.bob), (1, 5, world.bob, world.charlie), name="Bronze", acknowledge=10)
    night.alert("Disk full on db1")
    give(night, None)
    night.after(hours=2)
    assert told(night) == []

    give(night, bronze)
    night.after(minutes=10)
    audit.audit(night.now)
    night.after(minutes=10)
    why = "SLA Bronze: not acknowledged for 1 h 50 min beyond its promise"
    # Of two messages that are due at one moment either may go first.
    assert sorted(told(night)) == [("bob", why), ("charlie", why)]


def test_a_stop_is_made_up_for_and_nobody_is_told_of_the_same_twice(night, gold):
    night.alert("Disk full on db1")
    told(night)
    night.now += timedelta(minutes=25)
    night._settle()

    assert told(night) == [("bob", "SLA Gold: not acknowledged for 10 min beyond its promise")]
    assert "SLA Gold breached: not acknowledged within 15 min" in logged()


def test_an_sla_that_is_edited_is_planned_anew_by_the_audit(night, gold):
    night.alert("Disk full on db1")
    edit(gold, acknowledge_time=30 * 60)
    night.after(minutes=4)
    audit.audit(night.now)
    night.after(minutes=20)
    assert told(night) == []

    night.after(minutes=1)
    assert told(night) == [("bob", SOON)]


def test_an_sla_that_is_edited_since_is_decided_by_as_it_is(night, gold):
    """Also before an audit has been there."""
    night.alert("Disk full on db1")
    edit(gold, acknowledge_time=30 * 60)
    night.after(minutes=24)
    assert told(night) == []

    night.after(minutes=1)
    assert told(night) == [("bob", SOON)]


def test_an_escalation_that_is_put_off_waits_and_is_told_once(night, gold):
    night.alert("Disk full on db1")
    moved_one = [{**each, "time": -120} if each["time"] == -300 else each for each in gold.escalations]
    edit(gold, escalations=moved_one)
    night.after(minutes=12)
    assert told(night) == []

    night.after(minutes=1)
    assert told(night) == [("bob", "acknowledgement of SLA Gold due in 2 min")]
    edit(gold, escalations=gold.escalations)
    audit.audit(night.now)
    night.after(minutes=1)
    assert told(night) == []


def test_an_sla_that_is_deleted_promises_nothing(night, gold):
    night.alert("Disk full on db1")
    gold.delete_instance()
    raise_version(gold.team.account_id)
    night.after(hours=5)

    assert told(night) == []
    assert logged() == []
    assert waiting() == []


def test_an_sla_that_is_made_anew_promises_anew(night, gold, world):
    """With the same escalations under their ids, and on SQLite in the same row, as tools that describe
    what there should be make it."""
    night.alert("Disk full on db1")
    night.after(minutes=30)
    assert [person for person, _ in told(night)] == ["bob", "bob", "bob"]
    gold.delete_instance()
    raise_version(world.account.id)
    audit.audit(night.now)
    known = {name: getattr(gold, name) for name in ("acknowledge_time", "resolve_time", "escalations")}
    anew = Sla.create(unique_id=new_uuid(), team=world.team, name="Gold", creation_date=night.now, **known)
    raise_version(world.account.id)
    give(night, anew)
    night.after(seconds=1)

    assert told(night) == [("bob", "SLA Gold: not acknowledged for 15 min beyond its promise")]
    assert logged()[-2:] == [
        "SLA Gold breached: not acknowledged within 15 min",
        "SLA Gold: not acknowledged for 15 min beyond its promise: Bob",
    ]


def test_an_sla_promises_nothing_while_it_is_inactive(night, gold):
    edit(gold, is_active=False)
    night.alert("Disk full on db1")
    night.after(minutes=12)
    audit.audit(night.now)
    assert told(night) == []
    assert waiting() == []

    edit(gold, is_active=True)
    audit.audit(night.now)
    night.after(minutes=1)
    assert told(night) == [("bob", "acknowledgement of SLA Gold due in 3 min")]
    edit(gold, is_active=False)
    night.after(minutes=10)
    assert told(night) == []
    edit(gold, is_active=True)
    audit.audit(night.now)
    night.after(minutes=1)
    assert told(night) == [("bob", "SLA Gold: not acknowledged for 8 min beyond its promise")]


def test_an_audit_tells_nobody_again(night, gold):
    night.alert("Disk full on db1")
    for _ in range(16):
        night.after(minutes=5)
        audit.audit(night.now)

    assert [person for person, _ in told(night)] == ["bob", "bob", "bob", "charlie", "charlie"]
    keys = [row.key for row in Timer.select().where(Timer.kind.startswith("sla_"))]
    assert len(keys) == len(set(keys)) == 7


def test_what_was_not_sent_before_the_answer_is_void_but_for_what_is_said_of_the_end(night, gold, world):
    edit(gold, acknowledge_time=50 * 60)
    night.alert("Disk full on db1")
    told(night)
    for _ in range(50):
        night.now += MINUTE
        timers.run_due(night.now)
    owed = [kind for (kind,) in Notice.select(Notice.kind).where(Notice.state == 0).tuples()]
    assert sorted(owed) == ["sla_acknowledge", "sla_acknowledge", "sla_resolve"]

    accept(world, night.now, message="on it", alert_type="acknowledged", entity_id="db1", exactly=True)
    night._settle()

    assert told(night) == [("charlie", END_SOON)]


def test_who_hands_it_on_and_ends_it_in_one_go_voids_all(night, gold, world):
    """What the first of several moves leaves alone, the next one may void."""
    night.alert("Disk full on db1")
    told(night)
    night.now += 60 * MINUTE
    timers.run_due(night.now)
    with store().writing():
        found = lock_incident(night.incident().id)
        around = (found.service, found.directory, ALICE, night.now)
        effects = moves.assign(found.incident, None, *around)
        effects += moves.change_policy(moves.after(found.incident, effects), None, *around)
        effects += moves.move(moves.after(found.incident, effects), R, *around, "because")
        apply(Outcome(effects=list(effects)))
    night._settle()

    assert told(night) == []
    outcomes = [row.outcome for row in Notice.select().where(Notice.kind.startswith("sla_"))]
    assert outcomes == ["resolved by Alice"] * 2


def test_who_is_left_of_an_escalation_without_anybody_are_the_managers(night, gold, world):
    TeamMember.update(role=TeamRole.USER).where(TeamMember.user == world.bob).execute()
    night.alert("Disk full on db1")
    with store().writing():
        removal.remove(world.bob, ALICE, night.now)
    night.after(minutes=10)

    assert told(night) == [("alice", f"{SOON}; its escalation reaches nobody: the team's managers told")]


def test_responders_hear_of_a_quiet_incident_by_every_rule_without_delay(night, gold, world):
    """Of both urgencies, each contact once; by one with a delay not at all."""
    other = ContactMethod.create(
        unique_id=new_uuid(), user=world.bob, name="Second", contact_type=1, value="bobby@example.org",
        creation_date=night.now,
    )  # fmt: skip
    for urgency, delay in ((1, 0), (0, 0), (1, 5)):
        NotificationRule.create(
            unique_id=new_uuid(), user=world.bob, contact=other, urgency=urgency, start_delay=delay,
            creation_date=night.now,
        )  # fmt: skip
    raise_version(world.account.id)
    night.alert("Disk full on db1")
    Incident.update(urgency=0).execute()
    night.after(minutes=14)

    assert sorted(told(night)) == [("bob", SOON), ("bobby", SOON)]
