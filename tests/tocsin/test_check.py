"""`tocsin check` finds what is wrong with schedules, and whom nobody could tell."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from models.base import db
from models.enums import ServiceStatus
from models.ids import new_uuid
from models.schedules import ScheduleOverride
from models.services import Service
from models.teams import EscalationPolicy
from models.users import NotificationRule
from tests import layers
from tests.processes import tocsin
from tests.stores import settings_of
from tocsin import check as command
from tocsin import oncall
from tocsin.check import check, findings

DAY = timedelta(days=1)


@pytest.fixture
def found(world, now):
    """What is wrong in Alice's account within a week, as lines."""
    return lambda: [f"{one.team}: {one.what}" for one in findings(world.account, now, now + 7 * DAY)]


@pytest.fixture
def uses(world):
    """uses(schedule): the team's policy tells whoever is on call by it, and then Bob."""

    def make(schedule):
        named = ((1, schedule.unique_id), (2, world.bob.username))
        rules = [
            {
                "unique_id": new_uuid(), "delay": 0, "position": place,
                "targets": [{"target_type": kind, "target_id": name, "position": 0}],
            }
            for place, (kind, name) in enumerate(named, start=1)
        ]  # fmt: skip
        EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == world.policy.id).execute()

    return make


def override(schedule, person, start):
    ScheduleOverride.create(
        unique_id=new_uuid(), schedule=schedule, user=person, name="Swap", creation_date=start,
        start_time=start, end_time=start + DAY,
    )  # fmt: skip


def test_there_are_no_problems(found, world, uses):
    uses(layers.schedule(world.team, layers.layer(world.alice, world.bob)))

    assert found() == []


def test_gaps_and_conflicts_are_told_by_team_schedule_and_time(found, world, uses, now):
    until = (now + 3 * DAY).isoformat()
    primary = layers.schedule(world.team, layers.layer(world.alice, rotation_end_time=until))
    override(primary, world.charlie, now + 5 * DAY)
    uses(primary)

    assert found() == [
        "Payments: nobody is on call by Primary from Sat 07 Mar 2026 12:00 UTC to Mon 09 Mar 2026 12:00 UTC",
        "Payments: Charlie overrides Primary (Swap) from Mon 09 Mar 2026 12:00 UTC to"
        " Tue 10 Mar 2026 12:00 UTC and is not in the team Payments",
        "Payments: nobody is on call by Primary from Tue 10 Mar 2026 12:00 UTC to at least"
        " Wed 11 Mar 2026 12:00 UTC",
    ]  # fmt: skip


def test_who_is_on_call_twice_is_told_once(found, world, uses):
    layers.schedule(world.charlies_team, layers.layer(world.alice), name="Billing")
    uses(layers.schedule(world.team, layers.layer(world.alice)))

    (line,) = [line for line in found() if "twice" in line]
    assert "by Billing (layer Layer-1) and by Primary (layer Layer-1)" in line


def test_what_nothing_uses_comes_last(found, world, uses):
    layers.schedule(world.team, name="A draft")
    uses(layers.schedule(world.team, name="Primary"))

    assert found() == [
        "Payments: nobody is on call by Primary: no active layer has people",
        "Payments: nobody is on call by A draft: no active layer has people; no policy uses it",
    ]


def test_a_policy_that_names_nobody_is_told(found, world):
    EscalationPolicy.update(rules=[]).where(EscalationPolicy.team == world.charlies_team).execute()
    EscalationPolicy.update(rules=[]).where(EscalationPolicy.id == world.policy.id).execute()

    lines = [
        f"{team}: no step of the policy Default Escalation Policy names anybody now"
        for team in ("Payments", "Billing")
    ]
    assert found() == [lines[0], f"{lines[1]}; no service uses it"]


def test_who_cannot_be_told_by_a_rule_is_told(found, world, uses):
    uses(layers.schedule(world.team, layers.layer(world.alice, world.charlie)))
    NotificationRule.delete().where(NotificationRule.user == world.charlie).execute()
    rules = NotificationRule.delete().where(NotificationRule.user == world.bob, NotificationRule.urgency == 0)
    rules.execute()

    assert found() == [
        "Payments: Bob has no usable notification rule for low urgency, and is told at the account's address"
        " only",
        "Payments: Charlie has no usable notification rule for low and high urgency, and is told at the"
        " account's address only",
    ]


def test_a_service_without_a_policy_is_told_unless_it_is_disabled(found, world):
    service = Service.update(escalation_policy=None).where(Service.id == world.service.id)
    service.execute()
    assert found() == ["Payments: the service Checkout has no escalation policy"]

    Service.update(status=ServiceStatus.DISABLED).where(Service.id == world.service.id).execute()
    assert found() == []


def test_more_schedules_cost_no_more_queries(found, world, uses, statements):
    uses(layers.schedule(world.team, layers.layer(world.alice)))
    found()
    with statements() as few:
        found()
    for number in range(20):
        layers.schedule(world.team, layers.layer(world.bob), name=f"Schedule {number}")
    with statements() as many:
        found()

    assert len(many) == len(few)


@pytest.fixture
def run(world, home, monkeypatch):
    for name, value in settings_of(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(oncall, "open_store", lambda *_: None)
    return lambda *words: CliRunner().invoke(check, words)


def test_without_problems_it_says_so_and_ends_well(run):
    result = run()

    assert (result.exit_code, result.output) == (0, "no problems\n")
    assert json.loads(run("--json").output) == {"count": 0, "problems": []}


def test_with_problems_it_ends_with_1(run, world):
    layers.schedule(world.team, name="Nobody's\x07")
    result = run("--days", "3")

    assert result.exit_code == 1
    assert result.output == (
        "Payments: nobody is on call by Nobody's\ufffd: no active layer has people; no policy uses it\n"
    )
    told = json.loads(run("--json").output)
    assert told["count"] == 1
    (problem,) = told["problems"]
    assert problem["account_id"] == world.account.account_identifier
    assert (problem["kind"], problem["team"], problem["minor"]) == ("gap", "Payments", True)
    assert problem["start_time"] < problem["end_time"]


def test_several_accounts_are_told_apart_and_one_may_be_asked_for(run, world):
    layers.schedule(world.team, name="Ours")
    layers.schedule(world.mallorys_team, name="Theirs")

    both = run().output.splitlines()
    assert [line.partition(":")[0] for line in both] == ["Example / Payments", "Elsewhere / Elsewhere"]
    (one,) = run("--account", world.account.account_identifier).output.splitlines()
    assert one.startswith("Payments: ")
    assert run("--account", "x").exit_code == 1


def test_long_work_says_how_far_it_is(run, world, monkeypatch):
    monkeypatch.setattr(command, "TELL_EVERY_S", 0.0)
    for _ in range(3):
        layers.schedule(world.team, layers.layer(world.alice))
    result = run("--account", world.account.account_identifier)

    assert [line for line in result.stderr.splitlines() if "..." in line] == [
        "0 of 3 schedules ...", "1 of 3 schedules ...", "2 of 3 schedules ...",
    ]  # fmt: skip


def test_the_commands_as_they_are_called(world, home):
    layers.schedule(world.team)
    db.close_all()
    checked, told = (tocsin(home, name, **settings_of(home)) for name in ("check", "oncall"))

    assert (checked.returncode, checked.stderr) == (1, "")
    assert checked.stdout.startswith("Payments: nobody is on call by Primary")
    assert (told.returncode, told.stderr) == (0, "")
    assert "NOBODY" in told.stdout
