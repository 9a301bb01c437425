"""Scenarios with an SLA: acknowledge and resolve targets, their escalations and breaches."""

from datetime import timedelta

import pytest

from models.domain.effects import ChangeSet
from models.domain.enums import IncidentStatus, TeamRole
from models.domain.reasons import make_reason
from models.load.lane import lock_incident
from models.people import offboarding
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from models.tables.teams import Sla, TeamMember
from models.tables.timers import Timer
from models.tables.users import ContactMethod, NotificationRule
from models.write.apply import apply
from pipeline import incidents
from pipeline.rules.action_table import names_user
from tests.scenarios.conftest import ALICE
from tests.support.alerts import accept
from tests.support.scenarios.incident_log import list_log_reasons
from tests.support.scenarios.sla import sla
from tests.support.scenarios.timers import MINUTE, set_policy
from workers.timers import audit, fire

A, R, T = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED

SOON = "SLA Gold: the incident must be acknowledged within 5 min."
BROKEN = "SLA Gold: not acknowledged in time."
LATE = "SLA Gold: not acknowledged, overdue by 5 min."
END_SOON = "SLA Gold: the incident must be resolved within 10 min."
LEFT_OPEN = "SLA Gold: not resolved in time."


def edit_sla(one, **columns):
    """Edit an SLA as the interface does, with a new configuration version."""
    Sla.update(**columns).where(Sla.id == one.id).execute()
    bump_version(one.team.account_id)


@pytest.fixture
def gold(world):
    """An SLA: acknowledge within 15 minutes (notifies Bob), resolve within 60 (notifies Charlie)."""
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
    bump_version(world.account.id)
    return made


def list_sla_mails(timeline):
    """Return person and reason of the SLA mails that arrived since the last call."""
    fresh, timeline.seen = timeline.box.mails[timeline.seen :], len(timeline.box.mails)
    found = []
    for address, mail in fresh:
        lines = mail.get_content().splitlines()
        (why,) = (line for line in lines if line.startswith(("Why you:", "You:")))
        if "SLA" in why:
            found.append((address.partition("@")[0], why.removeprefix("Why you:").strip() + "."))
    return found


def list_sla_log():
    return [str(reason) for reason in list_log_reasons("sla")]


def list_pending_timers(kind="sla_"):
    return [row.key for row in Timer.select().where(Timer.done_at.is_null(), Timer.kind.startswith(kind))]


def change_status(apply_action, status):
    apply_action(incidents.change_status, status, why=make_reason("requested", by="Alice"))


def set_sla(timeline, one):
    """Give the newest incident another SLA, or none."""
    with store().write_transaction():
        new = one.id if one else None
        slas = [one.id] if one else []
        context = lock_incident(timeline.incident().id, ALICE, timeline.now, slas=slas)
        why = make_reason("edited", fields=("sla",), by="Alice")
        apply(ChangeSet(effects=list(incidents.change_sla(context, new, why))))


def test_an_untouched_incident_breaches_both_targets(timeline, gold):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=9, seconds=59)
    assert list_sla_mails(timeline) == []

    expected = [
        (10, "bob", SOON), (15, "bob", BROKEN), (20, "bob", LATE), (50, "charlie", END_SOON),
        (60, "charlie", LEFT_OPEN),
    ]  # fmt: skip
    passed = timedelta(minutes=9, seconds=59)
    for minutes, person, why in expected:
        due_after = minutes * MINUTE
        timeline.after(seconds=(due_after - passed).total_seconds())
        assert list_sla_mails(timeline) == [(person, why)]
        passed = due_after
    timeline.after(hours=10)
    assert list_sla_mails(timeline) == []
    assert list_sla_log() == [
        f"{SOON} Notified: Bob.",
        "SLA Gold breached: not acknowledged within 15 min.",
        f"{BROKEN} Notified: Bob.",
        f"{LATE} Notified: Bob.",
        f"{END_SOON} Notified: Charlie.",
        "SLA Gold breached: not resolved within 1 h.",
        f"{LEFT_OPEN} Notified: Charlie.",
    ]


def test_an_acknowledgement_in_time_leaves_only_the_resolve_target(timeline, gold):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=9)
    timeline.alert("on it", "acknowledged")
    timeline.after(minutes=40)
    assert list_sla_mails(timeline) == []

    timeline.after(minutes=60)
    assert list_sla_mails(timeline) == [("charlie", END_SOON), ("charlie", LEFT_OPEN)]


def test_an_acknowledgement_after_the_breach_cancels_later_escalations_of_its_target(timeline, gold):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=17)
    timeline.alert("on it", "acknowledged")
    timeline.after(minutes=20)

    assert list_sla_mails(timeline) == [("bob", SOON), ("bob", BROKEN)]


def test_a_resolve_ends_all_targets(timeline, gold):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=9)
    timeline.alert("all is well", "resolved")
    timeline.after(hours=5)

    assert list_sla_mails(timeline) == []
    assert list_pending_timers() == []
    assert list_sla_log() == []


def test_an_acknowledgement_that_times_out_still_meets_its_target(timeline, gold):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=720).execute()
    timeline.alert("Disk full on db1")
    timeline.after(minutes=1)
    timeline.alert("on it", "acknowledged")
    timeline.after(minutes=40)

    assert timeline.incident().status == T
    assert list_sla_mails(timeline) == []


def test_a_reopened_incident_has_both_targets_again(timeline, gold, apply_action):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=30)
    change_status(apply_action, R)
    assert list_sla_mails(timeline) == [("bob", SOON), ("bob", BROKEN), ("bob", LATE)]

    timeline.after(minutes=30)
    change_status(apply_action, T)
    timeline.after(minutes=9)
    assert list_sla_mails(timeline) == []
    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", SOON)]
    timeline.after(minutes=50)
    assert [person for person, _ in list_sla_mails(timeline)] == ["bob", "bob", "charlie", "charlie"]


def test_an_incident_reopened_as_acknowledged_has_a_resolve_target_again(timeline, gold, apply_action):
    timeline.alert("Disk full on db1")
    change_status(apply_action, R)
    timeline.after(minutes=30)
    change_status(apply_action, A)
    timeline.after(minutes=49)
    assert list_sla_mails(timeline) == []

    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("charlie", END_SOON)]


def test_reassignment_does_not_change_sla_targets(timeline, gold, apply_action, world):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=12)
    assert list_sla_mails(timeline) == [("bob", SOON)]

    locked = lock_incident(timeline.incident().id, ALICE, timeline.now)
    person = locked.config.people[world.alice.username]
    apply_action(incidents.assign, None)
    apply_action(incidents.assign, person)
    apply_action(incidents.change_policy, None)
    apply_action(incidents.change_policy, world.policy.id)
    timeline.after(minutes=2, seconds=59)
    assert list_sla_mails(timeline) == []
    timeline.after(seconds=1)
    assert list_sla_mails(timeline) == [("bob", BROKEN)]


def test_sla_escalations_notify_while_an_incident_is_snoozed(timeline, gold, apply_action):
    timeline.alert("Disk full on db1")
    timeline.alert("on it", "acknowledged")
    apply_action(incidents.snooze, timeline.now + 600 * MINUTE)
    timeline.after(minutes=70)

    assert list_sla_mails(timeline) == [("charlie", END_SOON), ("charlie", LEFT_OPEN)]


def merge(timeline, *, apart=False):
    """Merge the second incident into the first, or with `apart` unmerge it."""
    first, second = Incident.select().order_by(Incident.id)
    with store().write_transaction():
        found, parent = (lock_incident(row.id, ALICE, timeline.now) for row in (second, first))
        if apart:
            effects = incidents.unmerge(found, parent.incident)
        else:
            effects = incidents.merge(parent.incident, [found.incident], [], ALICE, timeline.now)
        rows = {row.unique_id: row.id for row in (first, second)}
        apply(ChangeSet(effects=list(effects)), rows)


def test_a_merged_incident_has_no_sla_escalations_until_it_is_unmerged(timeline, gold):
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("Disk full on db2", entity="db2")
    timeline.after(minutes=1)
    merge(timeline)
    timeline.alert("on it", "acknowledged", entity="db1")
    timeline.after(minutes=54)
    assert list_sla_mails(timeline) == [("charlie", END_SOON)]

    merge(timeline, apart=True)
    timeline.after(seconds=1)
    late = "SLA Gold: the incident must be resolved within 5 min."
    assert list_sla_mails(timeline) == [("charlie", late)]
    timeline.after(minutes=5)
    missed = make_reason("sla_resolve_missed", sla="Gold")
    # Both incidents notify at once, in one message or in two.
    assert Notification.select().where(Notification.reason == missed).count() == 2


def test_another_sla_has_its_own_targets_and_sent_notifications_are_not_repeated(timeline, gold, world):
    silver = sla(world, (1, -5, world.charlie), name="Silver", acknowledge=30)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=12)
    assert list_sla_mails(timeline) == [("bob", SOON)]

    set_sla(timeline, silver)
    timeline.after(minutes=13)
    assert list_sla_mails(timeline) == [
        ("charlie", "SLA Silver: the incident must be acknowledged within 5 min.")
    ]

    set_sla(timeline, gold)
    timeline.after(seconds=1)
    # Overdue escalations notify once, and sent notifications are not repeated.
    assert list_sla_mails(timeline) == [("bob", "SLA Gold: not acknowledged, overdue by 10 min.")]
    timeline.after(minutes=10)
    assert list_sla_mails(timeline) == []


@pytest.fixture
def hold_delivery(timeline):
    """hold_delivery(minutes): move the time and fire due timers, without delivery of messages."""

    def pass_minutes(minutes):
        timeline.now += minutes * MINUTE
        fire.fire_due(timeline.now)

    return pass_minutes


@pytest.mark.parametrize("delivered", [False, True], ids=["at once", "after a delivery"])
def test_a_notification_cancelled_by_a_merge_is_created_again_after_the_unmerge(
    timeline, gold, hold_delivery, delivered
):
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("Disk full on db2", entity="db2")
    for entity in ("db1", "db2"):
        timeline.alert("on it", "acknowledged", entity=entity)
    list_sla_mails(timeline)
    hold_delivery(50)
    merge(timeline)
    if delivered:
        timeline.after(minutes=2)
        assert list_sla_mails(timeline) == [("charlie", END_SOON)]
    merge(timeline, apart=True)
    timeline.after(seconds=1)

    # Sent at once, in a separate mail beside that of the parent.
    late = [("charlie", "SLA Gold: the incident must be resolved within 8 min.")]
    assert list_sla_mails(timeline) == (late if delivered else [("charlie", END_SOON)] * 2)
    assert list_sent_kinds(timeline.incident()) == ["sla_resolve"]
    timeline.after(minutes=8)
    audit.audit(timeline.now)
    assert list_sent_kinds(timeline.incident()) == ["sla_resolve"]


def list_sent_kinds(incident):
    """Return the kinds of sent notifications, without those of the escalation run and of the breach."""
    sent = Notification.select().where(
        Notification.incident == incident, Notification.state == 1, Notification.kind != "escalation"
    )
    return [row.kind for row in sent if str(row.reason) != LEFT_OPEN]


@pytest.mark.parametrize("delivered", [False, True], ids=["at once", "after a delivery"])
def test_a_notification_cancelled_by_an_sla_change_is_created_again_with_the_old_sla(
    timeline, gold, world, hold_delivery, delivered
):
    silver = sla(world, name="Silver", acknowledge=300)
    timeline.alert("Disk full on db1")
    assert list_sla_mails(timeline) == []
    hold_delivery(10)
    set_sla(timeline, silver)
    if delivered:
        timeline.after(minutes=2)
        assert list_sla_mails(timeline) == []
    set_sla(timeline, gold)
    timeline.after(seconds=1)

    assert list_sla_mails(timeline) == [
        ("bob", "SLA Gold: the incident must be acknowledged within 3 min." if delivered else SOON)
    ]
    set_sla(timeline, silver)
    set_sla(timeline, gold)
    timeline.after(minutes=2)
    assert list_sla_mails(timeline) == []


def test_only_people_not_notified_yet_are_notified_after_an_sla_change(timeline, world, hold_delivery):
    """Bob's mail is sent and Charlie's is not when the SLA changes and changes back."""
    set_policy(world, (0, world.alice))
    both = sla(world, (1, -5, world.bob, world.charlie), acknowledge=15)
    Service.update(sla=both).execute()
    bump_version(world.account.id)
    timeline.alert("Disk full on db1")
    list_sla_mails(timeline)
    hold_delivery(10)
    charlies = Notification.select(Notification.message).where(Notification.user == world.charlie)
    Message.update(next_attempt_at=timeline.now + 60 * MINUTE).where(Message.id.in_(charlies)).execute()
    timeline._run_due()
    assert list_sla_mails(timeline) == [("bob", SOON)]

    set_sla(timeline, None)
    set_sla(timeline, both)
    timeline.after(seconds=1)
    assert list_sla_mails(timeline) == [("charlie", SOON)]
    timeline.after(hours=2)
    assert list_sla_mails(timeline) == []


def test_an_incident_without_its_sla_has_no_targets(timeline, gold):
    timeline.alert("Disk full on db1")
    timeline.after(minutes=1)
    set_sla(timeline, None)
    timeline.after(hours=5)

    assert list_sla_mails(timeline) == []
    assert list_sla_log() == []


def test_an_sla_set_after_its_breach_notifies_once_at_once(timeline, gold, world):
    bronze = sla(world, (1, -5, world.bob), (1, 5, world.bob, world.charlie), name="Bronze", acknowledge=10)
    timeline.alert("Disk full on db1")
    set_sla(timeline, None)
    timeline.after(hours=2)
    assert list_sla_mails(timeline) == []

    set_sla(timeline, bronze)
    timeline.after(minutes=10)
    audit.audit(timeline.now)
    timeline.after(minutes=10)
    why = "SLA Bronze: not acknowledged, overdue by 1 h 50 min."
    # Two messages that are due at the same moment can be sent in any order.
    assert sorted(list_sla_mails(timeline)) == [("bob", why), ("charlie", why)]


def test_after_an_outage_overdue_escalations_notify_each_person_once(timeline, gold):
    timeline.alert("Disk full on db1")
    list_sla_mails(timeline)
    timeline.now += timedelta(minutes=25)
    timeline._run_due()

    assert list_sla_mails(timeline) == [("bob", "SLA Gold: not acknowledged, overdue by 10 min.")]
    assert "SLA Gold breached: not acknowledged within 15 min." in list_sla_log()


def test_the_audit_reconciles_timers_after_an_sla_edit(timeline, gold):
    timeline.alert("Disk full on db1")
    edit_sla(gold, acknowledge_time=30 * 60)
    timeline.after(minutes=4)
    audit.audit(timeline.now)
    timeline.after(minutes=20)
    assert list_sla_mails(timeline) == []

    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", SOON)]


def test_a_timer_uses_the_edited_sla_before_the_audit(timeline, gold):
    """The timer reads the edited SLA even if no audit has reconciled it."""
    timeline.alert("Disk full on db1")
    edit_sla(gold, acknowledge_time=30 * 60)
    timeline.after(minutes=24)
    assert list_sla_mails(timeline) == []

    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", SOON)]


def test_an_escalation_that_is_moved_later_notifies_once(timeline, gold):
    timeline.alert("Disk full on db1")
    later_escalations = [
        {**each, "time": -120} if each["time"] == -300 else each for each in gold.escalations
    ]
    edit_sla(gold, escalations=later_escalations)
    timeline.after(minutes=12)
    assert list_sla_mails(timeline) == []

    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", "SLA Gold: the incident must be acknowledged within 2 min.")]
    edit_sla(gold, escalations=gold.escalations)
    audit.audit(timeline.now)
    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == []


def test_a_deleted_sla_has_no_targets(timeline, gold):
    timeline.alert("Disk full on db1")
    gold.delete_instance()
    bump_version(gold.team.account_id)
    timeline.after(hours=5)

    assert list_sla_mails(timeline) == []
    assert list_sla_log() == []
    assert list_pending_timers() == []


def test_a_recreated_sla_has_new_targets(timeline, gold, world):
    """Declarative tools recreate an SLA with the same escalation IDs and, on SQLite, the same row."""
    timeline.alert("Disk full on db1")
    timeline.after(minutes=30)
    assert [person for person, _ in list_sla_mails(timeline)] == ["bob", "bob", "bob"]
    gold.delete_instance()
    bump_version(world.account.id)
    audit.audit(timeline.now)
    known = {name: getattr(gold, name) for name in ("acknowledge_time", "resolve_time", "escalations")}
    new_sla = Sla.create(
        unique_id=make_uuid(), team=world.team, name="Gold", creation_date=timeline.now, **known
    )
    bump_version(world.account.id)
    set_sla(timeline, new_sla)
    timeline.after(seconds=1)

    assert list_sla_mails(timeline) == [("bob", "SLA Gold: not acknowledged, overdue by 15 min.")]
    assert list_sla_log()[-2:] == [
        "SLA Gold breached: not acknowledged within 15 min.",
        "SLA Gold: not acknowledged, overdue by 15 min. Notified: Bob.",
    ]


def test_an_inactive_sla_has_no_targets(timeline, gold):
    edit_sla(gold, is_active=False)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=12)
    audit.audit(timeline.now)
    assert list_sla_mails(timeline) == []
    assert list_pending_timers() == []

    edit_sla(gold, is_active=True)
    audit.audit(timeline.now)
    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", "SLA Gold: the incident must be acknowledged within 3 min.")]
    edit_sla(gold, is_active=False)
    timeline.after(minutes=10)
    assert list_sla_mails(timeline) == []
    edit_sla(gold, is_active=True)
    audit.audit(timeline.now)
    timeline.after(minutes=1)
    assert list_sla_mails(timeline) == [("bob", "SLA Gold: not acknowledged, overdue by 8 min.")]


def test_repeated_audits_notify_nobody_again(timeline, gold):
    timeline.alert("Disk full on db1")
    for _ in range(16):
        timeline.after(minutes=5)
        audit.audit(timeline.now)

    assert [person for person, _ in list_sla_mails(timeline)] == ["bob", "bob", "bob", "charlie", "charlie"]
    keys = [row.key for row in Timer.select().where(Timer.kind.startswith("sla_"))]
    assert len(keys) == len(set(keys)) == 7


def test_an_acknowledgement_cancels_pending_notifications_except_those_of_the_resolve_target(
    timeline, gold, world
):
    edit_sla(gold, acknowledge_time=50 * 60)
    timeline.alert("Disk full on db1")
    list_sla_mails(timeline)
    for _ in range(50):
        timeline.now += MINUTE
        fire.fire_due(timeline.now)
    pending_kinds = [
        kind for (kind,) in Notification.select(Notification.kind).where(Notification.state == 0).tuples()
    ]
    assert sorted(pending_kinds) == ["sla_acknowledge", "sla_acknowledge", "sla_resolve"]

    accept(world, timeline.now, message="on it", alert_type="acknowledged", entity_id="db1", exactly=True)
    timeline._run_due()

    assert list_sla_mails(timeline) == [("charlie", END_SOON)]


def test_reassignment_and_resolve_in_one_transaction_cancel_all_notifications(timeline, gold, world):
    """Notifications that the first of several actions keeps can be cancelled by the next one."""
    timeline.alert("Disk full on db1")
    list_sla_mails(timeline)
    timeline.now += 60 * MINUTE
    fire.fire_due(timeline.now)
    with store().write_transaction():
        context = lock_incident(timeline.incident().id, ALICE, timeline.now)
        effects = ()
        for change, *more in (
            (incidents.assign, None),
            (incidents.change_policy, None),
            (incidents.change_status, R, make_reason("requested", by="Alice")),
        ):
            effects += change(context, *more)
            context = context.with_incident(incidents.get_saved(context.incident, effects))
        apply(ChangeSet(effects=list(effects)))
    timeline._run_due()

    assert list_sla_mails(timeline) == []
    outcomes = [row.outcome for row in Notification.select().where(Notification.kind.startswith("sla_"))]
    assert outcomes == [make_reason("resolved", by="Alice")] * 2


def test_an_sla_escalation_that_reaches_nobody_notifies_the_managers(timeline, gold, world):
    TeamMember.update(role=TeamRole.USER).where(TeamMember.user == world.bob).execute()
    timeline.alert("Disk full on db1")
    with store().write_transaction():
        offboarding.remove(world.bob, ALICE, timeline.now, names_user)
        bump_version(world.account.id)
    timeline.after(minutes=10)

    assert list_sla_mails(timeline) == [
        ("alice", f"{SOON} The escalation of the SLA names nobody. The team's managers are notified.")
    ]


def test_an_sla_escalation_uses_every_rule_without_delay_at_low_urgency(timeline, gold, world):
    """Rules of both urgencies count, each contact gets one message, and delayed rules do not count."""
    other = ContactMethod.create(
        unique_id=make_uuid(), user=world.bob, name="Second", contact_type=1, value="bobby@example.org",
        verified_value="bobby@example.org",
        creation_date=timeline.now,
    )  # fmt: skip
    for urgency, delay in ((1, 0), (0, 0), (1, 5)):
        NotificationRule.create(
            unique_id=make_uuid(), user=world.bob, contact=other, urgency=urgency, start_delay=delay,
            creation_date=timeline.now,
        )  # fmt: skip
    bump_version(world.account.id)
    timeline.alert("Disk full on db1")
    Incident.update(urgency=0).execute()
    timeline.after(minutes=14)

    assert sorted(list_sla_mails(timeline)) == [("bob", SOON), ("bobby", SOON)]
