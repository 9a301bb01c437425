"""`tocsin check` finds problems of schedules, and people without a way to notify them."""

import json
import re
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

from models.domain.enums import AlertType, NotificationStatus, ServiceStatus, Urgency
from models.domain.reasons import make_reason
from models.reports.backlog import ProcessLiveness, record_liveness
from models.store.ids import make_uuid
from models.store.store import db
from models.tables.accounts import User
from models.tables.events import Event, Receipt
from models.tables.notifications import Notification
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertRule
from models.tables.schedules import ScheduleOverride
from models.tables.services import Maintenance, Service, SourceSetup
from models.tables.teams import EscalationPolicy
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule
from runtime.settings import list_values, load
from tests.support.alerts import accept
from tests.support.processes import tocsin
from tests.support.scenarios.processed_alerts import process_alert
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from tests.support.stores import get_settings
from tocsin.checks import locked_services
from tocsin.commands import read_only
from tocsin.commands.installation.check import check
from web.checks import findings
from web.checks.findings import run_checks
from workers.alerts import process_lane

DAY = timedelta(days=1)


@pytest.fixture
def list_problems(world, now):
    """list_problems(): the findings in Alice's account for a week, as lines."""
    return lambda: [f"{one.team}: {one.what}" for one in run_checks(world.account, now, now + 7 * DAY)]


@pytest.fixture
def use_schedules(world):
    """use_schedules(schedule, ...): the first step of the service's policy notifies the people on call in
    these schedules; the second step notifies Bob, unless `bob` is false."""

    def make(*schedules, bob=True):
        steps = [[(1, schedule.unique_id) for schedule in schedules], [(2, world.bob.username)] * bob]
        rules = [
            {
                "unique_id": make_uuid(), "delay": 0, "position": place,
                "targets": [
                    {"target_type": kind, "target_id": name, "position": position}
                    for position, (kind, name) in enumerate(named)
                ],
            }
            for place, named in enumerate(filter(None, steps), start=1)
        ]  # fmt: skip
        EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == world.policy.id).execute()

    return make


def list_lines(result):
    """Return the lines of a result without those that say what to change."""
    return [line for line in result.output.splitlines() if not line.startswith("    ")]


def build_daily(person, opens, hours):
    only = [stored.restriction(f"{opens:02}:00:00", hours * 3600)]
    return stored.layer(person, restriction_type=1, restrictions=only)


def add_override(schedule, person, start):
    ScheduleOverride.create(
        unique_id=make_uuid(), schedule=schedule, user=person, name="Swap", creation_date=start,
        start_time=start, end_time=start + DAY,
    )  # fmt: skip


def test_there_are_no_problems(list_problems, world, use_schedules):
    use_schedules(stored.schedule(world.team, stored.layer(world.alice, world.bob)))

    assert list_problems() == []


def test_gaps_and_conflicts_are_listed_by_team_policy_schedule_and_time(
    list_problems, world, use_schedules, now
):
    until = (now + 3 * DAY).isoformat()
    primary = stored.schedule(world.team, stored.layer(world.alice, rotation_end_time=until))
    add_override(primary, world.charlie, now + 5 * DAY)
    use_schedules(primary, bob=False)

    policy = "Payments: nobody is on call by the policy Default Escalation Policy"
    assert list_problems() == [
        f"{policy} from Sat 07 Mar 2026 12:00 UTC to Mon 09 Mar 2026 12:00 UTC",
        f"{policy} from Tue 10 Mar 2026 12:00 UTC to at least Wed 11 Mar 2026 12:00 UTC",
        "Payments: Charlie overrides Primary (Swap) from Mon 09 Mar 2026 12:00 UTC to"
        " Tue 10 Mar 2026 12:00 UTC and is not in the team Payments",
    ]  # fmt: skip


def test_a_time_that_another_step_covers_is_not_a_gap(list_problems, world, use_schedules):
    use_schedules(stored.schedule(world.team, build_daily(world.alice, 8, 10)))

    assert list_problems() == []


def test_schedules_that_cover_each_other_have_no_gap(list_problems, world, use_schedules):
    days = stored.schedule(world.team, build_daily(world.alice, 8, 10), name="Days")
    night_schedule = stored.schedule(world.team, build_daily(world.bob, 18, 14), name="Nights")
    use_schedules(days, night_schedule, bob=False)
    assert list_problems() == []

    use_schedules(days, bob=False)
    assert list_problems() == [
        "Payments: nobody is on call by the policy Default Escalation Policy 7 times until"
        " Wed 11 Mar 2026 08:00 UTC, first from Wed 04 Mar 2026 18:00 UTC to Thu 05 Mar 2026 08:00 UTC",
        "Payments: nobody is on call by Nights 8 times until at least Wed 11 Mar 2026 12:00 UTC, first from"
        " Wed 04 Mar 2026 12:00 UTC to Wed 04 Mar 2026 18:00 UTC; no policy uses it",
    ]


def test_a_double_shift_is_listed_once(list_problems, world, use_schedules):
    stored.schedule(world.charlies_team, stored.layer(world.alice), name="Billing")
    use_schedules(stored.schedule(world.team, stored.layer(world.alice)))

    (line,) = [line for line in list_problems() if "twice" in line]
    assert "by Billing (layer Layer-1) and by Primary (layer Layer-1)" in line


def test_a_double_shift_is_minor_unless_a_schedule_says_otherwise(world, now, use_schedules):
    first, second = (stored.schedule(world.team, stored.layer(world.alice), name=name) for name in "AB")
    use_schedules(first, second)

    def find(one, other):
        for schedule, choice in ((first, one), (second, other)):
            schedule.double_shifts = choice
            schedule.save()
        return [found.minor for found in run_checks(world.account, now, now + 7 * DAY)]

    assert [found.minor for found in run_checks(world.account, now, now + 7 * DAY)] == [True]
    assert find("minor", "minor") == [True]
    assert find("minor", "problem") == find("intended", "problem") == [False]
    assert find("intended", "minor") == find("intended", "intended") == []


def test_a_step_that_names_only_people_of_the_step_before_is_a_problem(world, now, use_schedules):
    """Also if double shifts are intended: nobody new is notified."""
    intended = {"double_shifts": "intended"}
    first = stored.schedule(world.team, stored.layer(world.alice, world.bob), name="First", **intended)
    second = stored.schedule(world.team, stored.layer(world.bob, world.alice), name="Second", **intended)
    set_policy(world, (0, first), (10, second))
    assert run_checks(world.account, now, now + 7 * DAY) == []

    add_override(second, world.alice, now.replace(hour=0) + 2 * DAY)
    (found,) = run_checks(world.account, now, now + 7 * DAY)
    assert (found.kind, found.about, found.minor) == (
        "same_people",
        "policy Default Escalation Policy",
        False,
    )
    assert found.what == (
        "step 2 of the policy Default Escalation Policy names nobody new from Fri 06 Mar 2026 00:00 UTC to"
        " Sat 07 Mar 2026 00:00 UTC: Alice is also in step 1"
    )
    Service.update(status=ServiceStatus.DISABLED).where(Service.id == world.service.id).execute()
    assert [one.minor for one in run_checks(world.account, now, now + 7 * DAY)] == [True]


def test_a_team_of_two_people_can_be_without_problems(run, world):
    """Each is the second when the other one is the first, and both take the weekends of a third schedule."""
    first = stored.schedule(world.team, stored.layer(world.alice, world.bob), name="First")
    second = stored.schedule(world.team, stored.layer(world.bob, world.alice), name="Second")
    stored.schedule(
        world.team, stored.layer(world.alice, world.bob, shift_length=7 * 86_400), name="Weekends"
    )
    set_policy(world, (0, first), (10, second))

    assert run().exit_code == 0


def test_minor_findings_do_not_hide_a_problem(run, world, use_schedules):
    """Some of each kind are printed, and the number of the others; --minor prints all."""
    for number in range(30):
        stored.schedule(world.team, name=f"Schedule {number}")
    use_schedules(stored.schedule(world.team, name="Nobody"), bob=False)

    problem, *minor, more, last, _ = list_lines(run())
    assert problem.startswith("Payments: nobody is on call in any step")
    assert [" ".join(line.split()[2:6]) for line in minor] == ["nobody is on call"] * 3
    assert more == "minor: 27 more of kind gap; --minor lists them"
    total = int(re.fullmatch(r"1 problem and ([\d,]+) minor until .*", last)[1].replace(",", ""))
    assert total == 30
    listed = [line for line in run("--minor").output.splitlines() if line.startswith("minor: ")]
    document = json.loads(run("--json").output)
    assert (document["minor_count"], len(document["problems"])) == (total, len(listed) + 1)


def test_handoffs_moved_by_a_clock_change_are_named_with_their_dates(world, now, use_schedules):
    """Without restrictions it is minor. A night would begin with the person of the night before."""
    start = now.replace(hour=21) - DAY
    people = world.alice, world.bob
    nights = {"restriction_type": 1, "restrictions": [stored.restriction("22:00:00", 8 * 3600)]}
    turns = stored.layer(*people, start=start, name="turns")
    of = stored.schedule(
        world.team, turns, stored.layer(*people, start=start, name="nights", **nights),
        time_zone="Europe/Berlin", shift_time_in_dst=False,
    )  # fmt: skip
    use_schedules(of)

    def find():
        found = run_checks(world.account, now, now + 30 * DAY)
        return [(one.minor, one.what) for one in found if one.kind == "handoffs_moved"]

    says = (
        "from Sun 29 Mar 2026 the handoffs of layer {} of Primary are at 23:00 instead of 22:00:"
        " shift_time_in_dst of the schedule is false"
    )
    assert find() == [(False, says.format("nights")), (True, says.format("turns"))]
    of.shift_time_in_dst = True
    of.save()
    assert find() == []


def test_a_problem_of_an_unused_schedule_comes_last(list_problems, world, use_schedules):
    stored.schedule(world.team, name="A draft")
    use_schedules(stored.schedule(world.team, name="Primary"), bob=False)

    assert list_problems() == [
        "Payments: nobody is on call in any step of the policy Default Escalation Policy until at least"
        " Wed 11 Mar 2026 12:00 UTC",
        "Payments: nobody is on call by A draft: no active layer has people; no policy uses it",
    ]


def test_a_policy_without_anybody_on_call_is_a_problem(list_problems, world):
    EscalationPolicy.update(rules=[]).where(EscalationPolicy.team == world.charlies_team).execute()
    EscalationPolicy.update(rules=[]).where(EscalationPolicy.id == world.policy.id).execute()

    lines = [
        f"{team}: nobody is on call in any step of the policy Default Escalation Policy until at least"
        " Wed 11 Mar 2026 12:00 UTC"
        for team in ("Payments", "Billing")
    ]
    assert list_problems() == [lines[0], f"{lines[1]}; no service uses it"]


def test_the_hidden_findings_of_a_subject_are_counted_by_kind(run, world, monkeypatch):
    """Nobody uses these schedules: they have nights without people, and a person of another team."""
    monkeypatch.setattr(findings, "MAX_PER_THING", 1)
    for name, hour in (("Days", 8), ("Noon", 10)):
        stored.schedule(world.team, build_daily(world.charlie, hour, 4), name=name)

    # Which finding of a schedule comes first depends on the time of day, and with it the number of lines.
    words = {"gap": "nobody is on call by", "not_in_team": "is not in the team", "twice": "takes turns twice"}
    *shown, last, _ = run().output.splitlines()
    counted = {kind: sum(text in line for line in shown) for kind, text in words.items()}
    for found in filter(
        None, (re.match(r"minor: (\d+) more of kind (\w+), of subjects", one) for one in shown)
    ):
        counted[found[2]] += int(found[1])
    assert counted == {"gap": 2, "not_in_team": 2, "twice": 1}
    assert last.startswith("no problems and 5 minor until ")
    assert re.search("schedule Days: 2 more like these: 1 of kind .*, 1 of kind ", run("--minor").output)


def test_a_problem_of_a_policy_that_only_a_disabled_service_uses_is_minor(run, world, use_schedules):
    use_schedules(stored.schedule(world.team), bob=False)
    assert run().exit_code == 1

    Service.update(status=ServiceStatus.DISABLED).where(Service.id == world.service.id).execute()
    assert run().exit_code == 0


def test_a_person_without_a_usable_notification_rule_is_a_problem(list_problems, world, use_schedules):
    use_schedules(stored.schedule(world.team, stored.layer(world.alice, world.charlie)))
    NotificationRule.delete().where(NotificationRule.user == world.charlie).execute()
    rules = NotificationRule.delete().where(NotificationRule.user == world.bob, NotificationRule.urgency == 0)
    rules.execute()

    # Bob is notified at his own address.
    assert list_problems() == [
        "Payments: Charlie has no usable notification rule for low and high urgency, and is notified"
        " at the user's own e-mail address only",
        "Payments: Charlie takes turns in Primary (layer Layer-1) and is not in the team Payments",
    ]


def test_a_missing_rule_for_low_urgency_is_minor_if_the_own_address_is_not_verified(
    world, now, use_schedules
):
    use_schedules(stored.schedule(world.team, stored.layer(world.alice)))
    low = (NotificationRule.user == world.bob) & (NotificationRule.urgency == Urgency.LOW)
    NotificationRule.delete().where(low).execute()
    assert run_checks(world.account, now, now + 7 * DAY) == []

    User.update(verified_email=None, is_verified=True).where(User.id == world.bob.id).execute()
    (found,) = run_checks(world.account, now, now + 7 * DAY)
    assert (found.minor, found.what) == (
        True,
        "Bob has no usable notification rule for low urgency, and is notified at the user's own e-mail"
        " address only, which is not verified",
    )


def test_a_rule_with_a_contact_that_is_not_verified_is_no_usable_rule(world, now, use_schedules):
    use_schedules(stored.schedule(world.team, stored.layer(world.alice)))
    ContactMethod.update(value="typo@example.org").where(ContactMethod.user == world.bob).execute()

    (found,) = run_checks(world.account, now, now + 7 * DAY)
    assert not found.minor
    assert found.what.startswith("Bob has no usable notification rule for low and high urgency")


def test_a_time_zone_that_the_host_does_not_know_is_a_problem(world, now, use_schedules):
    used = stored.schedule(world.team, stored.layer(world.alice), time_zone="Europe/Atlantis")
    stored.schedule(world.team, stored.layer(world.bob), name="A draft", time_zone="Europe/Mu")
    use_schedules(used)
    for name, end in (("Disks", now + DAY), ("Over", now - DAY)):
        Maintenance.create(
            unique_id=make_uuid(), team=world.team, name=name, start_time=now - 2 * DAY, end_time=end,
            creation_date=now, time_zone="Europe/Lemuria",
        )  # fmt: skip

    says = "this host does not know the time zone Europe/{} of {}: all its times are computed in UTC"
    found = [one for one in run_checks(world.account, now, now + DAY) if one.kind == "unknown_zone"]
    assert [(one.minor, one.what) for one in found] == [
        (False, says.format("Lemuria", "the maintenance Disks")), (False, says.format("Atlantis", "Primary")),
        (True, says.format("Mu", "A draft")),
    ]  # fmt: skip


def test_a_service_without_a_policy_is_a_problem_unless_it_is_disabled(list_problems, world):
    service = Service.update(escalation_policy=None).where(Service.id == world.service.id)
    service.execute()
    assert list_problems() == ["Payments: the service Checkout has no escalation policy"]

    Service.update(status=ServiceStatus.DISABLED).where(Service.id == world.service.id).execute()
    assert list_problems() == []


def test_more_schedules_need_no_more_queries(list_problems, world, use_schedules, statements):
    use_schedules(stored.schedule(world.team, stored.layer(world.alice)))
    list_problems()
    with statements() as first_statements:
        list_problems()
    for number in range(20):
        stored.schedule(world.team, stored.layer(world.bob), name=f"Schedule {number}")
    with statements() as more_statements:
        list_problems()

    assert len(more_statements) == len(first_statements)


@pytest.fixture
def run(world, home, monkeypatch):
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOCSIN_SMTP_HOST", "relay.example.org")
    monkeypatch.setenv("TOCSIN_PUBLIC_URL", "https://tocsin.example.org")
    monkeypatch.setattr(read_only, "open_store", lambda *_: None)
    return lambda *words: CliRunner().invoke(check, words)


def test_without_problems_it_prints_the_end_of_the_checked_time(run):
    result = run()

    assert result.exit_code == 0
    assert re.fullmatch(r"no problems until \w{3} \d\d \w{3} \d{4} \d\d:\d\d UTC\nRedis .*\n", result.output)
    document = json.loads(run("--json").output)
    assert (document["count"], document["minor_count"], document["is_truncated"], document["problems"]) == (
        0,
        0,
        False,
        [],
    )
    assert document["start_time"].endswith(":00.000000Z")
    length = datetime.fromisoformat(document["end_time"]) - datetime.fromisoformat(document["start_time"])
    assert length == 30 * DAY


def test_with_problems_the_exit_code_is_1(run, world, use_schedules):
    use_schedules(stored.schedule(world.team, name="Nobody's\x07"), bob=False)
    stored.schedule(world.team, name="A draft\x07")
    result = run("--days", "3")

    assert result.exit_code == 1
    first, second, last, _ = list_lines(result)
    assert first.startswith(
        "Payments: nobody is on call in any step of the policy Default Escalation Policy until"
    )
    assert second == (
        "minor: Payments: nobody is on call by A draft\ufffd: no active layer has people; no policy uses it"
    )
    assert last.startswith("1 problem and 1 minor until ")
    document = json.loads(run("--json").output)
    assert (document["count"], document["minor_count"]) == (1, 1)
    problem = document["problems"][1]
    assert problem["account_id"] == world.account.account_identifier
    assert (problem["kind"], problem["team"], problem["minor"]) == ("gap", "Payments", True)
    assert problem["start_time"] < problem["end_time"]
    assert f"    {problem['advice']}" in result.output.splitlines()


def test_a_template_that_fails_is_a_problem(run, home):
    (home / "templates").mkdir()
    (home / "templates" / "ntfy.txt").write_text("{{ titel }}")
    problem = json.loads(run("--json").output)["problems"][0]

    assert (problem["kind"], problem["about"]) == ("bad_template", "template ntfy.txt")
    assert problem["what"].endswith("messages have the default text: UndefinedError: 'titel' is undefined")


def test_settings_without_a_mail_relay_are_a_problem(run, monkeypatch):
    monkeypatch.setenv("TOCSIN_SMTP_HOST", "")
    result = run()

    assert result.exit_code == 1
    assert "everybody: Tocsin cannot send e-mail: TOCSIN_SMTP_HOST is not set" in result.output
    problem = json.loads(run("--json").output)["problems"][0]
    assert (problem["kind"], problem["team"], problem["about"]) == ("no_channel", "", "settings")


def test_with_only_minor_problems_the_exit_code_is_0(run, world):
    stored.schedule(world.team, stored.layer(world.alice, world.charlie))
    result = run()

    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        "minor: Payments: Charlie takes turns in Primary (layer Layer-1) and is not in the team Payments"
    )


def test_problems_show_the_account_and_one_account_can_be_selected(run, world):
    stored.schedule(world.team, name="Ours")
    stored.schedule(world.mallorys_team, name="Theirs")

    *both, _, _ = list_lines(run())
    assert [line.split(": ")[1] for line in both] == ["Example / Payments", "Elsewhere / Elsewhere"]
    one, _, _ = list_lines(run("--account", world.account.account_identifier))
    assert one.startswith("minor: Payments: ")
    assert run("--account", "x").exit_code == 2


def test_many_problems_of_one_team_do_not_hide_those_of_others(list_problems, run, world, use_schedules, now):
    often = [stored.restriction(f"{n // 6:02}:{n % 6}0:00", 60) for n in range(100)]
    hourly = {"shift_length": 3600, "restriction_type": 1, "restrictions": often}
    for number in range(3):
        noise = (
            stored.layer(world.alice, world.bob, world.charlie, name=f"Layer-{n}", **hourly)
            for n in range(50)
        )
        stored.schedule(world.charlies_team, *noise, name=f"Noise {number}")
    second = stored.schedule(world.team, stored.layer(world.alice), name="Second", double_shifts="problem")
    use_schedules(second, stored.schedule(world.team, stored.layer(world.alice)))
    lines = list_problems()

    assert len(lines) < 200
    assert lines[0].startswith("Payments: Alice is on call twice from Wed 04 Mar 2026 12:00 UTC to")
    assert "by Primary" in lines[0]
    assert "by Second" in lines[0]
    known = [line for line in lines if "too large" in line and "Noise" in line]
    assert len(known) == 3
    assert all("it is checked until " in line for line in known)
    assert any("more like these" in line for line in lines)
    assert json.loads(run("--json").stdout)["is_truncated"] is True


def test_an_incomplete_check_of_a_policy_is_a_problem(list_problems, world, use_schedules, now):
    often = [stored.restriction(f"{n // 6:02}:{n % 6}0:00", 60) for n in range(100)]
    hourly = {"shift_length": 3600, "restriction_type": 1, "restrictions": often}
    noise = stored.schedule(world.team, *(stored.layer(world.alice, **hourly) for _ in range(50)))

    use_schedules(noise)
    assert [
        one.minor for one in run_checks(world.account, now, now + 7 * DAY) if "too large" in one.what
    ] == [True]
    use_schedules(noise, bob=False)
    known, gaps = [line for line in list_problems() if "Primary is too large" in line or "nobody" in line][
        ::-1
    ]
    assert known.startswith("Payments: Primary is too large to check completely: it is checked until ")
    assert "times until" in gaps


def test_long_work_prints_its_progress(run, world, monkeypatch):
    monkeypatch.setattr("tocsin.commands.installation.check.PROGRESS_EVERY_S", 0.0)
    for _ in range(3):
        stored.schedule(world.team, stored.layer(world.alice))
    result = run("--account", world.account.account_identifier)

    assert [line for line in result.stderr.splitlines() if "..." in line] == [
        "0 of 3 schedules ...", "1 of 3 schedules ...", "2 of 3 schedules ...",
    ]  # fmt: skip


@pytest.mark.processes
def test_the_commands_run_as_programs(world, home):
    stored.schedule(world.team)
    EscalationPolicy.update(rules=[]).where(EscalationPolicy.id == world.policy.id).execute()
    db.close_all()
    relay = {"TOCSIN_SMTP_HOST": "relay.example.org", "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}
    checked, document = (tocsin(home, name, **get_settings(home), **relay) for name in ("check", "oncall"))

    assert (checked.returncode, checked.stderr) == (1, "")
    assert checked.stdout.startswith(
        "Payments: nobody is on call in any step of the policy Default Escalation Policy"
    )
    assert (document.returncode, document.stderr) == (0, "")
    assert "NOBODY" in document.stdout


@pytest.fixture
def show_process(store):
    """show_process(kind, seen_at=..., variable=value, ...): let a running process show these settings."""

    def show(kind, seen_at=None, **values):
        now = store.now()
        shown = {**list_values(load()), **values}
        with store.write_transaction():
            record_liveness(ProcessLiveness(kind, f"{kind}:1", now, settings=shown), seen_at or now)

    return show


def test_a_channel_that_only_the_running_workers_can_use_is_no_problem(run, monkeypatch, show_process):
    monkeypatch.delenv("TOCSIN_SMTP_HOST")
    assert run().exit_code == 1
    show_process("worker", TOCSIN_SMTP_HOST="relay.example.org")
    result = run()

    assert result.exit_code == 0
    (found,) = [text for text in result.output.splitlines() if text.startswith("minor")]
    assert found.startswith(
        "minor: everybody: running processes (worker) use other values than this command of TOCSIN_SMTP_HOST:"
    )
    assert "relay" not in found


def test_a_service_that_waits_for_a_lock_is_a_problem(run, world, monkeypatch):
    monkeypatch.setattr(locked_services, "list_locked_services", lambda now: [world.service.unique_id])
    result = run()

    assert result.exit_code == 1
    assert f"alerts, timers or messages of service {world.service.unique_id} wait for a lock" in result.output


def test_a_setting_that_the_running_workers_do_not_have_is_a_problem(run, show_process):
    show_process("worker", TOCSIN_SMTP_HOST="")
    result = run()

    assert result.exit_code == 1
    assert (
        "TOCSIN_SMTP_HOST is not set for a running worker, but is set here: restart Tocsin" in result.output
    )


def test_processes_that_ended_are_not_compared(run, store, show_process):
    show_process("worker", store.now() - timedelta(minutes=5), TOCSIN_SMTP_HOST="")

    assert run().output.startswith("no problems until")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_links_to_this_host_in_messages_are_a_problem(run, monkeypatch, host):
    monkeypatch.setenv("TOCSIN_PUBLIC_URL", f"http://{host}:8080")

    assert f"links in messages begin with http://{host}:8080, which opens only on this host" in run().output
    monkeypatch.delenv("TOCSIN_SMTP_HOST")
    assert "links in messages" not in run().output


def find(world, now, kind):
    return [each.what for each in run_checks(world.account, now, now + DAY) if each.kind == kind]


def test_rules_on_fields_that_do_not_exist_are_problems(world, now):
    known, unknown = (json.dumps({"==": [{"var": name}, "x"]}) for name in ("payload.a", "severity"))
    router = GlobalRouter.create(
        unique_id=make_uuid(), account=world.account, name="Front", integration_key=make_uuid(),
        creation_date=now,
    )  # fmt: skip
    for place, text in enumerate((known, unknown, ""), start=1):
        RouterRule.create(
            unique_id=make_uuid(), router=router, name=f"R{place}", position=place, rule_json=text,
            actions=[{"unique_id": make_uuid(), "action_type": 1, "integration": None}], creation_date=now,
        )  # fmt: skip
        AlertRule.create(
            unique_id=make_uuid(), integration=world.integration, description=f"A{place}", position=place,
            rule_json=text, creation_date=now,
        )  # fmt: skip

    why = "the field 'severity' is not known; fields of the payload begin with payload."
    assert find(world, now, "unknown_field") == [
        f"the rule R2 of router Front may never match: {why}",
        f"the rule A2 of integration Probe of service Checkout may never match: {why}",
    ]
    assert find(world, now, "no_catch_all") == []


@pytest.mark.parametrize("rule_json", [None, '{"==": [{"var": "message"}, "x"]}'])
def test_a_router_without_a_catch_all_is_a_problem(world, now, rule_json):
    router = GlobalRouter.create(
        unique_id=make_uuid(), account=world.account, name="Front", integration_key=make_uuid(),
        creation_date=now,
    )  # fmt: skip
    if rule_json:
        RouterRule.create(
            unique_id=make_uuid(), router=router, name="R", position=1, rule_json=rule_json,
            actions=[{"unique_id": make_uuid(), "action_type": 1, "integration": None}], creation_date=now,
        )  # fmt: skip

    (what,) = find(world, now, "no_catch_all")
    assert what.startswith("the router Front drops alerts that match none of its rules: add a last rule")
    GlobalRouter.update(is_enabled=False).execute()
    assert find(world, now, "no_catch_all") == []


def test_an_integration_that_notifies_nobody_is_a_problem(world, now):
    """A warning opens no incident by default."""
    process_alert(world, now, level="warning")
    process_alert(world, now, level="resolved")

    (what,) = find(world, now, "unheard")
    assert what.startswith(
        "the only alert of the last day to integration Probe of service Checkout reached nobody."
        " The reason of the last one: "
    )
    assert find(world, now + 2 * DAY, "unheard") == []
    process_alert(world, now, level="critical")
    assert find(world, now, "unheard") == []


def test_the_finding_about_unheard_alerts_says_what_to_change_and_where(world, now):
    process_alert(world, now, level="warning")
    (what,) = find(world, now, "unheard")
    row = world.integration.unique_id

    assert what.endswith(
        f". Set create_incidents_for of integration {row} to 3, or raise the level with an alert rule of the"
        " integration"
    )


def test_an_integration_whose_alerts_have_no_level_is_a_problem(world, now):
    for _ in range(2):
        accept(world, now, message="m")
    process_lane.run(world.service.id)

    (found,) = [one for one in run_checks(world.account, now, now + DAY) if one.kind == "unheard"]

    assert (found.minor, found.about) == (False, "integration Probe")
    assert found.what.startswith("all 2 alerts of the last day to integration Probe of service Checkout")
    assert found.what.endswith(
        " Let the tool send alert_type, or set default_alert_type at"
        f" /api/tocsin/integrations/{world.integration.unique_id}/source/"
    )


def test_an_integration_whose_sender_says_info_is_named_as_minor(world, now):
    process_alert(world, now, level="info")

    (found,) = [one for one in run_checks(world.account, now, now + DAY) if one.kind == "unheard"]

    assert found.minor
    assert "Info notifies nobody: let the tool send another level" in found.what


def test_an_integration_with_the_declared_level_info_is_a_problem(world, now):
    SourceSetup.create(integration=world.integration, default_alert_type=AlertType.INFO, updated_at=now)
    accept(world, now, message="m")
    process_lane.run(world.service.id)

    (what,) = find(world, now, "unheard")
    assert what.endswith("/source/, which is info")


def test_a_note_of_a_tool_needs_to_reach_nobody(world, now):
    accept(world, now, message="downtime", alert_type="info", suppressed=True)
    process_lane.run(world.service.id)

    assert find(world, now, "unheard") == []


def test_bodies_in_an_unknown_form_are_found(world, now):
    set_policy(world, (0, world.bob))
    for count in range(2):
        body = json.dumps({"title": f"Disk at {count} %", "host": "db1"}).encode()
        accept(world, now, source="zabbix", body=body)
    process_lane.run(world.service.id)

    (what,) = find(world, now, "unread")

    assert Event.select(Event.entity_id).distinct().count() == 1
    trace_id = Receipt.select().order_by(Receipt.id.desc()).get().trace_id
    assert what.startswith(
        "2 alerts of the last day to integration Probe of service Checkout had a form that Tocsin does not"
    )
    assert f"compare `tocsin why {trace_id}` with the page of the tool" in what
    assert find(world, now + 2 * DAY, "unread") == []


def test_an_integration_whose_notifications_all_failed_has_the_reason_of_the_failure(world, now):
    """The second alert joins the incident of the first, and notifies nobody again."""
    set_policy(world, (0, world.bob))
    for _ in range(2):
        process_alert(world, now, level="critical")
    assert find(world, now, "unheard") == []
    outcome = make_reason("contact_deleted")
    Notification.update(state=NotificationStatus.FAILED, outcome=outcome, done_at=now).execute()

    (what,) = find(world, now, "unheard")

    why = "not sent to Bob by e-mail: the contact was deleted"
    assert what.endswith(f"reached nobody. The reason of the last one: {why}")


def test_an_integration_that_went_silent_is_minor(world, now):
    for number in reversed(range(4)):
        accept(world, now - number * DAY, exactly=True, message="m", alert_type="info")
    process_lane.run(world.service.id)
    later = now + 4 * DAY

    (found,) = [one for one in run_checks(world.account, later, later + DAY) if one.kind == "silent"]

    assert (found.minor, found.team, found.about) == (True, "Payments", "integration Probe")
    assert found.what == (
        "integration Probe of service Checkout went silent: its last alert came on Wed 04 Mar 2026 12:00 UTC,"
        " and before, the longest time without alerts was at most 24 hours. Look whether its tool still sends"
    )


def test_a_step_without_a_target_and_a_service_without_a_name_are_found(world, now):
    set_policy(world, (0, world.bob), (10,))
    Service.update(name="").execute()

    assert find(world, now, "no_target") == [
        "step 2 of the policy Default Escalation Policy has no target, so it notifies nobody"
    ]
    assert find(world, now, "no_name") == [f"the service {world.service.unique_id} has no name"]


def forward(person, to, start, end):
    ForwardingRule.create(
        unique_id=make_uuid(), user=person, to_user=to, created_by=person, from_date=start, to_date=end,
        creation_date=start,
    )  # fmt: skip


def test_a_forwarding_rule_to_somebody_who_forwards_too_is_a_problem(list_problems, world, now):
    forward(world.alice, world.bob, now, now + 2 * DAY)
    forward(world.bob, world.charlie, now + DAY, now + 3 * DAY)

    assert (
        ": Alice forwards to Bob, who forwards to Charlie, from Thu 05 Mar 2026 12:00 UTC to"
        " Fri 06 Mar 2026 12:00 UTC: Bob is notified, since messages are forwarded once"
    ) in list_problems()


def test_a_forwarding_rule_to_a_person_of_the_step_before_is_a_problem(list_problems, world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    forward(world.bob, world.alice, now + DAY, now + 2 * DAY)

    assert list_problems() == [
        "Payments: step 2 of the policy Default Escalation Policy names nobody new from"
        " Thu 05 Mar 2026 12:00 UTC to Fri 06 Mar 2026 12:00 UTC: Alice (to whom Bob forwards) is also in"
        " step 1"
    ]


def test_people_who_have_not_joined_are_one_finding_with_how_to_invite_them_again(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    User.update(is_verified=False, verified_email=None).where(User.account == world.account).execute()
    ContactMethod.update(verified_value=None).execute()

    found = run_checks(world.account, now, now + DAY)

    (one,) = [finding for finding in found if finding.kind == "not_joined"]
    assert one.what == (
        "3 people have not joined, so only addresses that are not verified get messages: Alice, Bob, Charlie"
    )
    assert not one.minor
    assert "/invitation/" in one.advice
    assert not [finding for finding in found if finding.kind == "no_rule"]


def test_maintenance_without_an_end_for_more_than_a_week_is_a_problem(world, now):
    Service.update(under_maintenance=True).execute()
    Maintenance.create(
        unique_id=make_uuid(), team=world.team, name="Move", creation_date=now, start_time=now - 8 * DAY,
        end_time=now + 400 * DAY,
    )  # fmt: skip

    found = [each for each in run_checks(world.account, now, now + DAY) if each.kind == "maintenance"]

    assert [(each.minor, each.what) for each in found] == [
        (
            False,
            "the maintenance Move is in force since Tue 24 Feb 2026 12:00 UTC and ends only at"
            " Thu 08 Apr 2027 12:00 UTC",
        ),
        (True, "the service Checkout is under maintenance without an end"),
    ]


def test_an_alert_deferred_for_a_week_makes_maintenance_a_problem(world, now):
    Service.update(under_maintenance=True).execute()
    accept(world, now - 8 * DAY, message="Disk full", alert_type="critical", entity_id="db1", exactly=True)
    process_lane.run(world.service.id, now=now - 8 * DAY)

    (found,) = [each for each in run_checks(world.account, now, now + DAY) if each.kind == "maintenance"]

    assert not found.minor
    assert found.what.endswith("without an end, and an alert waits since Tue 24 Feb 2026 12:00 UTC")


def test_a_person_on_call_twice_in_three_schedules_is_listed_once(world, now, use_schedules):
    schedules = [stored.schedule(world.team, stored.layer(world.alice), name=name) for name in "ABC"]
    use_schedules(*schedules)

    (found,) = [each for each in run_checks(world.account, now, now + 7 * DAY) if each.kind == "twice"]

    assert found.what == (
        "Alice is on call twice 3 times until at least Wed 11 Mar 2026 12:00 UTC, first from"
        " Wed 04 Mar 2026 12:00 UTC to Wed 11 Mar 2026 12:00 UTC: by A and by B; by A and by C; by B and by C"
    )
