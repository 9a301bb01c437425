"""Offboarding: nothing refers to a removed user, and their incidents escalate to others."""

import pytest

from models.domain.enums import AccountRole, IncidentStatus, NotificationStatus, TaskStatus, TeamRole
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.tables.accounts import ConfigVersion
from models.tables.incidents import Incident, IncidentAssignment, IncidentLog, IncidentTask
from models.tables.notifications import Notification
from models.tables.rules import AlertRule
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.tasks import PostIncidentTask
from models.tables.teams import EscalationPolicy, IncidentRole, Sla, Team, TeamMember
from models.tables.timers import Timer
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule
from tests.support.alerts import accept
from workers.alerts import process_lane
from workers.timers import fire


def remove(ask, user, who="alice") -> None:
    assert ask("POST", "/api/account/deleteuser/", {"username": user.username}, who=who).status_code == 204


def build_target(user) -> dict:
    return {"target_type": 2, "target_id": user.username}


def test_steps_slas_and_rules_no_longer_refer_to_a_removed_user(ask, world):
    team = f"/api/account/teams/{world.team.unique_id}"
    rules = [
        {"delay": 0, "targets": [build_target(world.bob)]},
        {"delay": 5, "targets": [build_target(world.bob), build_target(world.alice)]},
    ]
    ask("POST", f"{team}/escalation_policies/", {"name": "Both", "rules": rules})
    responders = [{"user": world.bob.username}, {"user": world.alice.username}]
    ask("POST", f"{team}/sla/", {"escalations": [{"time": 0, "type": 1, "responders": responders}]})
    actions = [
        {"action_type": 6, "assign_to": world.bob.username},
        {"action_type": 11, "key": make_uuid(), "value": world.bob.username},
        {"action_type": 17, "value": world.bob.username},
        {"action_type": 17, "value": world.alice.username},
        {"action_type": 2, "value": f"Ask {world.bob.username}"},
    ]
    expected_actions = [{"value": "", "assign_to": None, **action} for action in actions]
    AlertRule.create(
        unique_id=make_uuid(), integration=world.integration, position=99, actions=expected_actions,
        creation_date=world.account.creation_date,
    )  # fmt: skip

    remove(ask, world.bob)

    policy = EscalationPolicy.get(EscalationPolicy.name == "Both")
    assert [rule["targets"] for rule in policy.rules] == [[], [{**build_target(world.alice), "position": 0}]]
    (escalation,) = Sla.get().escalations
    assert [one["user"] for one in escalation["responders"]] == [world.alice.username]
    assert AlertRule.get(AlertRule.position == 99).actions == expected_actions[3:]


def test_schedules_forwarding_contacts_and_tasks_no_longer_refer_to_a_removed_user(ask, world, now):
    layer = {"users": [{"user": world.bob.username, "position": 1}], "name": "x"}
    schedule = Schedule.create(
        unique_id=make_uuid(), team=world.team, name="x", layers=[layer], creation_date=now
    )
    ScheduleOverride.create(
        unique_id=make_uuid(),
        schedule=schedule,
        user=world.bob,
        start_time=now,
        end_time=now,
        creation_date=now,
    )
    for assignees, to in ((world.bob, world.alice), (world.alice, world.bob), (world.alice, world.charlie)):
        ForwardingRule.create(
            unique_id=make_uuid(), user=assignees, to_user=to, created_by=world.bob, from_date=now,
            to_date=now, creation_date=now,
        )  # fmt: skip
    for status in TaskStatus:
        PostIncidentTask.create(
            unique_id=make_uuid(), team=world.team, title="x", status=status, assigned_to=world.bob,
            creation_date=now,
        )  # fmt: skip

    remove(ask, world.bob)

    assert Schedule.get().layers == [{**layer, "users": []}]
    assert not ScheduleOverride.select().exists()
    assert [rule.to_user for rule in ForwardingRule.select()] == [world.charlie]
    assert not ContactMethod.select().where(ContactMethod.user == world.bob).exists()
    assert not NotificationRule.select().where(NotificationRule.user == world.bob).exists()
    assert not TeamMember.select().where(TeamMember.user == world.bob).exists()
    assigned = PostIncidentTask.select().where(PostIncidentTask.assigned_to.is_null(False))
    assert [task.status for task in assigned] == [TaskStatus.DONE]


@pytest.mark.parametrize("already", [True, False])
def test_the_account_owner_gets_the_teams_of_a_removed_user(ask, world, now, already):
    if already:
        TeamMember.create(
            unique_id=make_uuid(),
            team=world.charlies_team,
            user=world.alice,
            role=TeamRole.USER,
            joining_date=now,
        )

    remove(ask, world.charlie)

    assert Team.get_by_id(world.charlies_team.id).owner == world.alice
    (member,) = TeamMember.select().where(TeamMember.team == world.charlies_team)
    assert (member.user, member.role) == (world.alice, TeamRole.MANAGER)


def create_incident(world, now, user, status: IncidentStatus, **more) -> Incident:
    number = Incident.select().count() + 1
    return Incident.create(
        unique_id=make_short_id(), incident_key=make_short_id(), incident_number=number,
        account=world.account,
        service=world.service, team=world.team, title="Disk", status=status, urgency=1, assigned_to=user,
        escalation_policy=world.policy, creation_date=now, run_started_at=now, **more,
    )  # fmt: skip


def test_open_incidents_of_a_removed_user_are_unassigned_with_a_reason(ask, world, now):
    made = {status: create_incident(world, now, world.bob, status) for status in IncidentStatus}
    other = create_incident(world, now, world.alice, IncidentStatus.TRIGGERED)
    for row in (*made.values(), other):
        IncidentAssignment.create(
            unique_id=make_uuid(),
            incident=row,
            role=IncidentRole.get(IncidentRole.team == world.team),
            user=world.bob,
            creation_date=now,
        )
    task = IncidentTask.create(
        unique_id=make_uuid(), incident=other, title="x", assigned_to=world.bob, creation_date=now
    )

    remove(ask, world.bob)

    assigned = {status: Incident.get_by_id(row.id).assigned_to for status, row in made.items()}
    assert assigned == {1: None, 2: None, 3: world.bob}
    assert Incident.get_by_id(other.id).assigned_to == world.alice
    assert IncidentTask.get_by_id(task.id).assigned_to is None
    assert [one.incident for one in IncidentAssignment.select()] == [made[IncidentStatus.RESOLVED]]
    logs = IncidentLog.select().order_by(IncidentLog.id)
    why = make_reason("member_removed_assigned", person="Bob", by="Alice")
    assert [(log.incident_id, log.what, log.reason, log.user) for log in logs] == [
        (made[status].id, "assigned", why, world.alice) for status in (1, 2)
    ]


def test_an_unacknowledged_incident_of_a_removed_user_escalates_again(ask, world, store):
    """The assignment to Bob stopped the escalation run, and Bob leaves without an acknowledgement."""
    now = store.now()
    accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    assert ask("PATCH", "/api/incidents/1/", {"assigned_to": world.bob.username}).status_code == 200
    assert not Incident.get().escalating

    remove(ask, world.bob)
    fire.fire_due(store.now())

    assert Incident.get().escalating
    last_notification = (
        Notification.select().where(Notification.user == world.alice).order_by(Notification.id.desc()).get()
    )
    assert (last_notification.state, last_notification.kind) == (NotificationStatus.PENDING, "escalation")
    assert not Timer.select().where(Timer.done_at.is_null(), Timer.kind == "escalate").exists()


def test_the_configuration_version_is_incremented(ask, world):
    def version() -> int:
        return ConfigVersion.get(ConfigVersion.account == world.account).version

    before = version()
    remove(ask, world.bob)

    assert version() == before + 1


def test_references_in_other_accounts_stay(ask, world):
    """The same username in the rows of another account is not a reference to this user."""
    rules = [{"unique_id": make_uuid(), "delay": 0, "position": 1, "targets": [build_target(world.bob)]}]
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.mallorys_team)
    EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == theirs.id).execute()

    remove(ask, world.bob)

    assert EscalationPolicy.get_by_id(theirs.id).rules == rules


def test_the_number_of_statements_is_constant(ask, world, now, statements):
    def cost(times: int) -> int:
        user = provisioning.create_user(world.account, f"{make_uuid()}@example.org", AccountRole.USER, now)
        for _ in range(times):
            provisioning.create_team(world.account, "x", user, now)
            create_incident(world, now, user, IncidentStatus.TRIGGERED)
        with statements() as seen:
            remove(ask, user)
        return len(seen)

    cost(1)

    assert cost(20) == cost(1)


def test_a_merged_incident_stays_silent(ask, world, now):
    parent = create_incident(world, now, world.alice, IncidentStatus.TRIGGERED)
    child = create_incident(world, now, world.bob, IncidentStatus.TRIGGERED, parent=parent, escalating=False)

    remove(ask, world.bob)

    after = Incident.get_by_id(child.id)
    assert (after.assigned_to, after.escalating) == (None, False)
    assert not Timer.select().exists()
