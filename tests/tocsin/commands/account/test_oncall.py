"""`tocsin oncall` shows who is on call at a time, as text and as JSON."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from models.store.ids import make_uuid
from models.store.store import db
from models.tables.schedules import ScheduleOverride
from models.tables.teams import EscalationPolicy, Team
from models.tables.users import ForwardingRule
from tests.support.processes import tocsin
from tests.support.schedules import stored
from tests.support.stores import get_settings
from tests.web.conftest import app, ask
from tocsin.cli import COMMANDS
from tocsin.commands import read_only
from tocsin.commands.account.oncall import oncall

__all__ = ["app", "ask"]

AT_NOON = ("--at", "2026-03-04 12:00")


@pytest.fixture
def run(world, home, monkeypatch):
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(read_only, "open_store", lambda *_: None)
    return lambda *words: CliRunner().invoke(oncall, words)


@pytest.fixture
def primary(world, now):
    """A schedule: Alice and Bob for a day each, from 08:00 UTC; an override by Charlie for two hours."""
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    made = stored.schedule(
        world.team, stored.layer(world.alice, world.bob, start=start), time_zone="Europe/Berlin"
    )
    ScheduleOverride.create(
        unique_id=make_uuid(), schedule=made, user=world.charlie, name="Swap", creation_date=now,
        start_time=now + timedelta(hours=6), end_time=now + timedelta(hours=8),
    )  # fmt: skip
    return made


def set_steps(policy, *steps):
    """Replace the steps of a policy; each is (delay, (type, id), ...)."""
    rules = [
        {
            "unique_id": make_uuid(), "delay": delay, "position": place,
            "targets": [
                {"target_type": kind, "target_id": name, "position": position}
                for position, (kind, name) in enumerate(targets)
            ],
        }
        for place, (delay, *targets) in enumerate(steps, start=1)
    ]  # fmt: skip
    EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == policy.id).execute()


def add_forwarding(user, to, start, hours):
    ForwardingRule.create(
        unique_id=make_uuid(), user=user, to_user=to, created_by=user, from_date=start,
        to_date=start + timedelta(hours=hours), creation_date=start,
    )  # fmt: skip


def test_the_output_is_a_table_and_the_steps_of_each_policy(run, world, primary, now):
    stored.schedule(world.team, name="Nobody")
    set_steps(
        world.policy,
        (0, (1, primary.unique_id)),
        (5, (2, world.alice.username), (2, world.bob.username)),
        (10,),
    )
    add_forwarding(world.bob, world.charlie, now, 1)

    result = run(*AT_NOON, "--team", "Payments")

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "on call at Wed 04 Mar 2026 12:00 UTC; other times are in the time zones of the schedules",
        "",
        "TEAM      SCHEDULE  ON CALL                     UNTIL                      BY             NEXT",
        "Payments  Nobody    NOBODY                      no end                     -              "
        "no change",
        "Payments  Primary   Bob (forwarded to Charlie)  Wed 04 Mar 2026 19:00 CET  layer Layer-1  "
        "Charlie from Wed 04 Mar 2026 19:00 CET",
        "",
        "Payments: Default Escalation Policy",
        "  step 1, at once: Bob (forwarded to Charlie)",
        "  step 2, after 5 min: Alice, Bob (forwarded to Charlie)",
        "  step 3, after 10 min: NOBODY",
    ]  # fmt: skip


def test_an_override_is_shown_with_the_next_person(run, primary):
    line = run("--at", "2026-03-04T19:00:00+01:00", "--team", "Payments").output.splitlines()[3]

    assert line.endswith(
        "Charlie  Wed 04 Mar 2026 21:00 CET  override Swap  Bob from Wed 04 Mar 2026 21:00 CET"
    )


def test_the_time_can_have_any_offset(run, primary):
    outputs = [
        run("--at", when, "--json").output for when in ("2026-03-04T13:00:00+01:00", "2026-03-04 12:00")
    ]

    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])["at"] == "2026-03-04T12:00:00.000000Z"


def test_a_zone_is_that_of_the_time_and_of_all_times_in_the_output(run, primary):
    """In New York it is noon at 17:00 UTC. Without an offset, --at is in the zone."""
    lines = run(
        "--at", "2026-03-04 12:00", "--zone", "America/New_York", "--team", "Payments"
    ).output.splitlines()

    assert lines[0] == "on call at Wed 04 Mar 2026 12:00 EST; all times are in America/New_York"
    assert lines[3].endswith(
        "Bob      Wed 04 Mar 2026 13:00 EST  layer Layer-1  Charlie from Wed 04 Mar 2026 13:00 EST"
    )
    given = run("--at", "2026-03-04T12:00:00Z", "--zone", "America/New_York", "--json").output
    assert json.loads(given)["at"] == "2026-03-04T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("local_time", "at"),
    [
        ("2026-03-29 01:59", "2026-03-29T00:59"), ("2026-03-29 02:30", "2026-03-29T01:00"),
        ("2026-03-29 03:00", "2026-03-29T01:00"), ("2026-10-25 02:30", "2026-10-25T00:30"),
    ],
)  # fmt: skip
def test_a_local_time_at_a_clock_change_means_one_moment(run, primary, local_time, at):
    output = run("--at", local_time, "--zone", "Europe/Berlin", "--json").output

    assert json.loads(output)["at"] == f"{at}:00.000000Z"


@pytest.mark.processes
def test_a_time_zone_that_the_host_does_not_know_is_a_warning(world, home):
    """The times are in UTC. As a program: the log of what it loads does not mix with the output."""
    stored.schedule(world.team, stored.layer(world.alice, world.bob), time_zone="Europe/Atlantis")
    db.close_all()
    words = ("oncall", *AT_NOON, "--team", "Payments")
    text, document = (tocsin(home, *words, *more, **get_settings(home)) for more in ((), ("--json",)))

    says = (
        "this host does not know the time zone Europe/Atlantis of Primary: all its times are computed in UTC"
    )
    assert (text.returncode, text.stderr, document.stderr) == (0, f"{says}\n", "")
    assert "Thu 05 Mar 2026 00:00 UTC" in text.stdout
    (schedule,) = json.loads(document.stdout)["accounts"][0]["teams"][0]["schedules"]
    assert schedule["warnings"] == [says]


def test_the_default_time_is_now(run, primary, store):
    document = json.loads(run("--json").output)

    assert abs(datetime.fromisoformat(document["at"]) - store.now()) < timedelta(minutes=1)


def test_json_has_the_form_of_the_interface(run, ask, world, primary, now):
    add_forwarding(world.bob, world.charlie, now, 1)
    set_steps(world.policy, (0, (1, primary.unique_id)), (5, (2, world.alice.username)))
    document = json.loads(run(*AT_NOON, "--json").output)

    assert [account["account_id"] for account in document["accounts"]] == [
        world.account.account_identifier,
        Team.get_by_id(world.mallorys_team.id).account.account_identifier,
    ]
    (team,) = [team for team in document["accounts"][0]["teams"] if team["name"] == "Payments"]
    path = f"/api/tocsin/schedules/{primary.unique_id}/oncall/?at=2026-03-04T12:00:00Z"
    assert team["schedules"] == [ask("GET", path).json]
    assert team["schedules"][0]["oncalls"][0]["forwarded_to"]["first_name"] == "Charlie"

    (policy,) = team["policies"]
    assert (policy["unique_id"], policy["name"]) == (world.policy.unique_id, "Default Escalation Policy")
    assert [(step["position"], step["delay"], step["notified_after"]) for step in policy["oncalls"]] == [
        (1, 0, 0), (2, 5, 5),
    ]  # fmt: skip
    shown = ask("GET", f"/api/v2/account/teams/{world.team.unique_id}/oncall/").json[0]
    assert policy.keys() - shown.keys() == {"round_robin"}
    assert policy["oncalls"][0].keys() - shown["oncalls"][0].keys() == {"notified_after"}
    user = shown["oncalls"][1]["oncalls"][0]
    assert policy["oncalls"][1]["oncalls"] == [{**user, "forwarded_to": None}]
    assert policy["oncalls"][0]["oncalls"][0]["forwarded_to"]["username"] == world.charlie.username


def test_accounts_are_separate_and_one_can_be_selected(run, world, primary):
    both = run(*AT_NOON).output
    one = run(*AT_NOON, "--account", world.account.account_identifier).output

    assert f"account Example ({world.account.account_identifier})" in both.splitlines()
    assert "account Elsewhere" in both
    assert "account" not in one
    assert "Elsewhere" not in one


def test_a_team_without_schedules_is_shown(run):
    assert run(*AT_NOON, "--team", "Payments").output.splitlines()[:3] == [
        "on call at Wed 04 Mar 2026 12:00 UTC; other times are in the time zones of the schedules",
        "",
        "no schedules",
    ]


def list_policy_lines(run):
    lines = run(*AT_NOON, "--team", "Payments").output.splitlines()
    return lines[lines.index("Payments: Default Escalation Policy") + 1 :]


def test_a_step_after_an_empty_step_notifies_earlier(run, world):
    set_steps(world.policy, (0,), (5,), (10, (2, world.bob.username)), (20, (2, world.alice.username)))

    assert list_policy_lines(run) == [
        "  step 1, at once: NOBODY", "  step 2, at once instead of after 5 min: NOBODY",
        "  step 3, at once instead of after 10 min: Bob", "  step 4, after 20 min: Alice",
    ]  # fmt: skip
    EscalationPolicy.update(move_to_next=False).where(EscalationPolicy.id == world.policy.id).execute()
    assert list_policy_lines(run)[2] == "  step 3, after 10 min: Bob"


def test_a_policy_without_anybody_on_call_shows_the_last_resort(run, world):
    last = "nobody is on call: the team's managers are notified, or else the account owner"
    set_steps(world.policy, (0,))
    assert list_policy_lines(run) == ["  step 1, at once: NOBODY", f"  {last}"]

    set_steps(world.policy)
    assert list_policy_lines(run) == [f"  no steps: {last}"]


def test_a_round_robin_policy_is_shown(run, world):
    set_steps(world.policy, (0, (2, world.bob.username), (2, world.alice.username)))
    settings = {"assignee_strategy": 2}
    policy = EscalationPolicy.id == world.policy.id
    EscalationPolicy.update(assignment_settings=settings).where(policy).execute()

    assert list_policy_lines(run) == ["  step 1, at once, round robin: one per incident: Bob, Alice"]
    document = json.loads(run(*AT_NOON, "--team", "Payments", "--json").output)["accounts"][0]["teams"][0][
        "policies"
    ]
    assert [(each["round_robin"], each["oncalls"][0]["notified_after"]) for each in document] == [(True, 0)]


def test_long_names_are_shortened(run, world):
    stored.schedule(world.team, name="x" * 200)

    assert f" {'x' * 39}… " in run(*AT_NOON, "--team", "Payments").output


def test_names_cannot_control_the_terminal(run, world):
    stored.schedule(world.team, name="\x1b[31mRed\u202e")

    assert "\ufffd[31mRed\ufffd" in run(*AT_NOON).output


def test_a_removed_user_is_not_on_call(run, world, primary, now):
    world.bob.removed_at = now
    world.bob.save()
    lines = run(*AT_NOON).output.splitlines()

    assert "NOBODY" in next(line for line in lines if "Primary" in line)


@pytest.mark.parametrize(
    ("words", "code", "outputs"),
    [
        (("--at", "tomorrow"), 2, "tomorrow is not a time: use 2026-12-24T18:00:00+01:00"),
        (("--zone", "Europe/Nowhere"), 2, "there is no time zone 'Europe/Nowhere'"),
        (("--at", "0001-01-01"), 2, "0001-01-01 is too far in the past or future"),
        (("--team", "Nowhere"), 2, "no team Nowhere"), (("--account", "x"), 2, "no account x"),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_an_error_in_one_sentence(run, words, code, outputs):
    result = run(*words)

    assert result.exit_code == code
    assert outputs in result.output.splitlines()[-1]


@pytest.mark.parametrize("name", ["oncall", "check"])
def test_the_command_is_in_the_table_of_commands(name):
    assert name in COMMANDS
