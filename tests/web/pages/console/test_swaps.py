"""Two people swap shifts: one asks, the other agrees, and the schedule gets two overrides."""

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import unquote_plus

import pytest

from models.domain.effects import Author
from models.domain.enums import AuthorKind, MessageKind, SwapState, TeamRole
from models.load.schedules import load_schedule_facts
from models.people import offboarding
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.schedules import Schedule, ScheduleOverride, ShiftSwap
from models.tables.teams import TeamMember
from schedules.oncall.schedule_shifts import list_on_call
from schedules.oncall.shifts import EARLIEST
from tests.support.offenders import list_offenders
from tests.support.schedules.stored import MONDAY, layer, schedule
from web.oncall import swaps
from workers.delivery.render import render_message
from workers.periodic import retention
from workers.periodic.retention import RetentionTimes

DAY = timedelta(days=1)
OPTION = re.compile(r'<option value="([0-9a-f-]{25}) ([^ "]+) ([^ "]+)"')


@pytest.fixture
def nights(world):
    return schedule(world.team, layer(world.alice, world.bob, name="Nights"), name="Payments on call")


@pytest.fixture
def path(nights):
    return f"/on-call/{nights.unique_id}/"


def list_options(browser, path):
    """Return the shifts that the form offers: username, start, end."""
    return OPTION.findall(unescape(browser.get(f"{path}?view=month").text))


@pytest.fixture
def ask(sign_in, world, path):
    """ask("bob"): this person asks Alice or Bob for the first possible swap. Return the answer."""

    def ask(who: str, **changed: str):
        browser = sign_in(who)
        # A shift that begins in a moment could have begun when it is asked for.
        soon = datetime.now(UTC) + timedelta(hours=1)
        found = [each for each in list_options(browser, path) if datetime.fromisoformat(each[1]) > soon]
        me = getattr(world, who).username
        mine = next(each for each in found if each[0] == me)
        theirs = next(each for each in found if each[0] != me)
        form = {"mine": " ".join(mine), "theirs": " ".join(theirs), **changed}
        return browser.post(f"{path}swaps/", **form)

    return ask


def answer(browser, path, act):
    browser.get(path)
    return browser.post(f"{path}swaps/{ShiftSwap.get().unique_id}/", act=act)


def list_overrides():
    rows = ScheduleOverride.select().order_by(ScheduleOverride.id)
    return [(row.user_id, row.start_time, row.end_time) for row in rows]


def test_a_request_is_shown_to_members_and_mailed_to_the_named_person(ask, sign_in, world, path):
    assert ask("bob").status_code == 303
    assert "Bob</b> asks <b>Alice</b> to swap shifts" in sign_in("bob").get(path).text
    assert ">Withdraw</button>" in sign_in("bob").get(path).text
    assert ">Accept</button>" in sign_in("alice").get(path).text
    assert "Bob asks you to swap shifts" in sign_in("alice").get("/mine/").text

    mail = Message.get()
    assert (mail.user_id, mail.kind, mail.requested_by) == (world.alice.id, MessageKind.SWAP, "Bob")


def test_accepting_adds_two_overrides(ask, sign_in, world, path):
    ask("bob")
    assert answer(sign_in("alice"), path, "accept").status_code == 303

    swap = ShiftSwap.get()
    assert swap.state == SwapState.DONE
    assert list_overrides() == [
        (world.alice.id, swap.asked_start, swap.asked_end),
        (world.bob.id, swap.returned_start, swap.returned_end),
    ]


def list_plan(row, noon):
    """Return who is on call in the middle of each of the days after this noon."""
    (facts,) = load_schedule_facts([row], EARLIEST)
    return [[each.username for each in list_on_call(facts, noon + day * DAY)] for day in range(1, 8)]


def test_swapping_back_restores_the_plan(ask, sign_in, world, nights, path):
    noon = datetime.now(UTC).replace(hour=12)
    plan = list_plan(nights, noon)
    ask("bob")
    answer(sign_in("alice"), path, "accept")
    swap = ShiftSwap.get()
    swapped = list_plan(nights, noon)
    assert swapped != plan
    assert {len(people) for people in swapped} == {1}

    # The shifts are now overrides, of the other person each.
    bobs = " ".join([world.bob.username, swap.returned_start.isoformat(), swap.returned_end.isoformat()])
    alices = " ".join([world.alice.username, swap.asked_start.isoformat(), swap.asked_end.isoformat()])
    ShiftSwap.delete().execute()
    assert ask("bob", mine=bobs, theirs=alices).status_code == 303
    assert answer(sign_in("alice"), path, "accept").status_code == 303

    assert list_plan(nights, noon) == plan
    assert len(list_overrides()) == 2


def test_a_swap_with_an_override_leaves_one_person_on_call(ask, sign_in, world, nights, path):
    start = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) + 2 * DAY
    ScheduleOverride.create(
        unique_id="2" * 36,
        creation_date=MONDAY,
        schedule=nights,
        user=world.alice,
        start_time=start,
        end_time=start + DAY / 6,
    )
    alices = " ".join([world.alice.username, start.isoformat(), (start + DAY / 6).isoformat()])
    mine = next(
        " ".join(each)
        for each in list_options(sign_in("bob"), path)
        if each[0] == world.bob.username and datetime.fromisoformat(each[1]) > start + DAY
    )
    assert ask("bob", mine=mine, theirs=alices).status_code == 303
    answer(sign_in("alice"), path, "accept")

    swap = ShiftSwap.get()
    (facts,) = load_schedule_facts([nights], EARLIEST)
    for moment, who in ((swap.asked_start, world.alice), (swap.returned_start, world.bob)):
        assert [each.username for each in list_on_call(facts, moment)] == [who.username]


def test_one_of_the_two_needs_the_right_to_change_the_schedule_when_it_is_accepted(ask, sign_in, world, path):
    TeamMember.update(role=TeamRole.MANAGER).where(TeamMember.user == world.bob).execute()
    ask("bob")
    assert answer(sign_in("alice"), path, "accept").status_code == 303
    assert len(list_overrides()) == 2


@pytest.fixture
def among_members(world, path, nights):
    """A schedule of Bob and Charlie, who may see it and not change it."""
    TeamMember.create(
        unique_id="0" * 36,
        team=world.team,
        user=world.charlie,
        role=TeamRole.USER,
        joining_date=world.team.creation_date,
    )
    turns = layer(world.bob, world.charlie, name="Nights")
    Schedule.update(layers=[turns]).where(Schedule.id == nights.id).execute()


def test_without_the_right_somebody_with_it_confirms(ask, sign_in, path, among_members):
    ask("bob")
    answer(sign_in("charlie"), path, "accept")
    assert (ShiftSwap.get().state, list_overrides()) == (SwapState.AGREED, [])
    assert ">Confirm</button>" not in sign_in("bob").get(path).text

    assert answer(sign_in("bob"), path, "confirm").status_code == 403
    assert answer(sign_in("alice"), path, "confirm").status_code == 303
    assert len(list_overrides()) == 2


def test_an_administrator_cannot_confirm_what_the_person_did_not_agree_to(ask, sign_in, path, among_members):
    ask("bob")

    assert answer(sign_in("alice"), path, "confirm").status_code == 400
    assert list_overrides() == []


def test_the_answer_of_somebody_else_is_refused(ask, sign_in, path):
    ask("bob")

    assert answer(sign_in("bob"), path, "accept").status_code == 403
    assert answer(sign_in("alice"), path, "withdraw").status_code == 403
    assert answer(sign_in("alice"), path, "x").status_code == 400
    assert ShiftSwap.get().state == SwapState.ASKED


@pytest.mark.parametrize("who", ["charlie", "mallory"])
def test_people_outside_of_the_team_neither_see_nor_change_a_swap(ask, sign_in, path, who):
    ask("bob")
    browser = sign_in(who)
    status = {"charlie": 403, "mallory": 404}[who]

    assert browser.get(path).status_code == status
    assert answer(browser, path, "accept").status_code == status
    assert browser.post(f"{path}swaps/", mine="x", theirs="x").status_code == status


def test_an_accepted_swap_is_not_accepted_twice(ask, sign_in, path):
    ask("bob")
    alice = sign_in("alice")
    answer(alice, path, "accept")

    assert answer(alice, path, "accept").status_code == 400
    assert len(list_overrides()) == 2


@pytest.mark.parametrize(
    ("who", "act", "state"), [("alice", "decline", SwapState.DECLINED), ("bob", "withdraw", None)]
)
def test_a_request_is_declined_or_withdrawn(ask, sign_in, path, who, act, state):
    ask("bob")
    answer(sign_in(who), path, act)

    assert [swap.state for swap in ShiftSwap.select()] == ([] if state is None else [state])
    assert "to swap shifts" not in sign_in("alice").get(path).text


def test_a_swap_is_refused_if_the_schedule_has_changed(ask, sign_in, world, nights, path):
    ask("bob")
    Schedule.update(layers=[layer(world.alice, name="Nights")]).where(Schedule.id == nights.id).execute()
    refused = answer(sign_in("alice"), path, "accept")

    assert refused.status_code == 400
    assert "The schedule has changed" in refused.text
    assert list_overrides() == []


def test_a_swap_that_would_replace_a_person_without_an_end_is_refused(ask, sign_in, world, nights, path):
    turns = layer(world.alice, world.bob, name="Nights")
    always = layer(world.charlie, name="Always")
    TeamMember.create(
        unique_id="1" * 36, team=world.team, user=world.charlie, role=TeamRole.USER, joining_date=MONDAY
    )
    ask("bob")
    Schedule.update(layers=[turns, always]).where(Schedule.id == nights.id).execute()

    for refused in (answer(sign_in("alice"), path, "accept"), ask("alice")):
        assert refused.status_code == 400
        assert "Somebody else is on call at the same time" in refused.text
    assert list_overrides() == []


def test_a_schedule_that_changes_meanwhile_is_not_swapped(ask, sign_in, world, nights, path, monkeypatch):
    ask("bob")
    real = swaps._check

    def check(row, *both):
        """Check the shifts; before this request locks the schedule, another one changes it."""
        found = real(row, *both)
        always = [*nights.layers, layer(world.charlie, name="Always")]
        Schedule.update(layers=always).where(Schedule.id == nights.id).execute()
        return found

    monkeypatch.setattr(swaps, "_check", check)
    refused = answer(sign_in("alice"), path, "accept")

    assert (refused.status_code, "The schedule has just changed" in refused.text) == (400, True)
    assert list_overrides() == []


def test_a_person_may_accept_or_decline_a_few_times_an_hour(ask, sign_in, path):
    ask("bob")
    browser = sign_in("alice")
    (most, _), *_ = swaps.RATE_LIMITS
    codes = [answer(browser, path, "withdraw").status_code for _ in range(most + 1)]

    assert codes == [403] * most + [429]


def test_a_schedule_that_needs_much_work_is_refused(ask, sign_in, path, monkeypatch):
    ask("bob")
    monkeypatch.setattr(swaps, "MAX_WORK", 1)

    assert "too large" in answer(sign_in("alice"), path, "accept").text


@pytest.mark.parametrize(
    ("relay", "is_verified", "shown"),
    [
        ("mail.example.org", True, "Tocsin asks the other person by e-mail."),
        ("mail.example.org", False, "address is not verified"),
        ("", True, "Tocsin has no mail relay"),
    ],
)
def test_the_page_says_whether_a_mail_goes_out(ask, app, world, monkeypatch, relay, is_verified, shown):
    settings = dataclasses.replace(app.config["SETTINGS"], smtp_host=relay)
    monkeypatch.setitem(app.config, "SETTINGS", settings)
    User.update(verified_email=world.alice.email if is_verified else None).where(
        User.id == world.alice.id
    ).execute()
    done = ask("bob")

    assert shown in unquote_plus(done.headers["Location"])


def test_a_swap_is_refused_if_a_shift_has_begun(ask, sign_in, path):
    ask("bob")
    start = datetime.now(ShiftSwap.get().asked_start.tzinfo) - DAY
    ShiftSwap.update(asked_start=start).execute()
    refused = answer(sign_in("alice"), path, "accept")

    assert (refused.status_code, "has begun" in refused.text) == (400, True)


WRONG_REQUESTS = [
    ({"mine": "x"}, "Choose a shift."),
    ({"theirs": "x y z"}, "Choose a shift."),
    ({"theirs": "x 2026-03-04 2026-03-05"}, "Choose a shift."),
    ({"theirs": "x 2199-03-04T00:00+00:00 2199-03-05T00:00+00:00"}, "is not a member"),
    ({"mine": "x 2199-03-04T00:00+00:00 2199-03-05T00:00+00:00"}, "a shift of your own"),
    ({"mine": "x 9999-12-20T00:00+00:00 9999-12-21T00:00+00:00"}, "between the years 1970 and 2200"),
    ({"theirs": "x 0001-01-01T00:00+14:00 0001-01-02T00:00+14:00"}, "between the years 1970 and 2200"),
    ({"theirs": "x 2199-03-05T00:00+00:00 2199-03-04T00:00+00:00"}, "between the years 1970 and 2200"),
]


def test_a_wrong_request_is_refused_with_a_reason(ask):
    def check(case):
        form, reason = case
        refused = ask("bob", **form)

        assert (refused.status_code, reason in refused.text) == (400, True)
        assert ShiftSwap.select().count() == 0

    assert list_offenders(check, WRONG_REQUESTS) == []


def test_the_same_request_twice_is_refused(ask):
    ask("bob")

    assert ask("bob").status_code == 400
    assert ShiftSwap.select().count() == 1


def test_the_mail_names_person_and_schedule_and_leads_to_the_answer(ask, path, now):
    ask("bob")
    content = render_message(Message.get().id, "https://tocsin.example.org", now).message.content

    assert content.title == "[Tocsin] Bob asks to swap shifts"
    assert [link.url.startswith(f"{SITE}/swap/") for link in content.links] == [True]
    assert [detail.label for detail in content.details] == ["Schedule", "You give", "You take"]


def list_mails(now, kind):
    """Return the mails of a kind about swaps: to whom, title and first sentence, and where the link leads."""
    rows = Message.select().where(Message.kind == kind).order_by(Message.id)
    contents = [render_message(row.id, "https://tocsin.example.org", now).message.content for row in rows]
    return [
        (row.user.first_name, each.title, each.lines[-1], each.links[0].url)
        for row, each in zip(rows, contents, strict=True)
    ]


SITE = "https://tocsin.example.org"


@pytest.mark.parametrize(
    ("act", "kind", "title", "line"),
    [
        (
            "accept",
            MessageKind.SWAP_ACCEPTED,
            "[Tocsin] Alice accepted the swap",
            "Alice accepted your request: you have the shift of Alice, who has yours.",
        ),
        (
            "decline",
            MessageKind.SWAP_DECLINED,
            "[Tocsin] Alice declined the swap",
            "Alice declined your request to swap shifts. You keep your shift.",
        ),
    ],
)
def test_who_asked_gets_a_mail_about_the_decision(ask, sign_in, path, now, act, kind, title, line):
    ask("bob")
    answer(sign_in("alice"), path, act)

    assert list_mails(now, kind) == [("Bob", title, line, f"{SITE}{path}")]
    assert Message.select().count() == 2


def test_a_swap_that_somebody_confirms_is_mailed_to_both_people(ask, sign_in, path, among_members, now):
    ask("bob")
    answer(sign_in("charlie"), path, "accept")
    ((to, title, line, link),) = list_mails(now, MessageKind.SWAP_AGREED)
    assert (to, title, link) == ("Bob", "[Tocsin] Charlie agreed to swap shifts", f"{SITE}{path}")
    assert line.endswith("Nothing changes until somebody who may change the schedule confirms.")
    assert list_mails(now, MessageKind.SWAP_CONFIRMED) == []

    answer(sign_in("alice"), path, "confirm")
    mails = list_mails(now, MessageKind.SWAP_CONFIRMED)
    assert [(to, title) for to, title, *_ in mails] == [
        ("Bob", "[Tocsin] Alice confirmed the swap"),
        ("Charlie", "[Tocsin] Alice confirmed the swap"),
    ]


def test_who_confirms_an_own_swap_gets_no_mail_about_it(ask, sign_in, world, path, among_members, now):
    ask("bob")
    answer(sign_in("charlie"), path, "accept")
    TeamMember.update(role=TeamRole.MANAGER).where(TeamMember.user == world.bob).execute()
    answer(sign_in("bob"), path, "confirm")

    assert [to for to, *_ in list_mails(now, MessageKind.SWAP_CONFIRMED)] == ["Charlie"]


def test_a_withdrawn_request_sends_no_other_mail(ask, sign_in, path):
    ask("bob")
    answer(sign_in("bob"), path, "withdraw")

    assert [mail.kind for mail in Message.select()] == [MessageKind.SWAP]


def test_a_removed_person_swaps_no_shifts(ask, sign_in, world):
    ask("bob")
    with store().write_transaction():
        offboarding.remove(world.bob, Author(AuthorKind.USER, "Alice"), datetime.now(UTC), lambda *_: False)

    assert ShiftSwap.select().count() == 0


def test_a_swap_is_deleted_some_time_after_its_shifts(ask):
    ask("bob")
    swap = ShiftSwap.get()
    end = max(swap.asked_end, swap.returned_end)
    times = RetentionTimes(30 * DAY, None, None)

    retention.clean_up(end + 89 * DAY, times, rest=lambda _: None)
    assert ShiftSwap.select().count() == 1
    retention.clean_up(end + 91 * DAY, times, rest=lambda _: None)
    assert ShiftSwap.select().count() == 0
