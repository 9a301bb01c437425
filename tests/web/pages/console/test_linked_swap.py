"""The page that the link in a mail about a swap opens. GET shows the shifts, POST answers once."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import MessageKind, SwapState
from models.links import signed_links
from models.links.signed_links import Bundle, SwapLink, get_signer
from models.store.ids import make_uuid
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.schedules import ScheduleOverride, ShiftSwap
from models.tables.teams import TeamMember
from tests.support.schedules.stored import layer, schedule
from tests.support.web.places import held_elsewhere
from web.http.limits import places
from web.oncall import swaps
from web.pages.console.swaps import write_choice
from workers.delivery.render import render_message

DAY = timedelta(days=1)
START = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + 2 * DAY


@pytest.fixture
def swap(world):
    """Bob asks Alice to take his shift of a day, for hers on the next day."""
    nights = schedule(world.team, layer(world.bob, world.alice, start=START), name="Nights <b>")
    return ShiftSwap.create(
        unique_id=make_uuid(),
        creation_date=START - 2 * DAY,
        schedule=nights,
        asker=world.bob,
        asked_start=START,
        asked_end=START + DAY,
        partner=world.alice,
        returned_start=START + DAY,
        returned_end=START + 2 * DAY,
    )


@pytest.fixture
def path(swap):
    return build_path(swap)


def build_path(swap, user=None, ends_at=START):
    return f"/swap/{get_signer().sign_swap(SwapLink(swap.id, user or swap.partner_id), ends_at)}"


def answer(ask, path, act):
    return ask("POST", path, who=None, data={"act": act})


def get_state():
    return SwapState(ShiftSwap.get().state)


def test_the_mail_has_a_link_that_needs_no_sign_in(ask, world, swap, sign_in):
    ShiftSwap.delete().execute()
    nights = swap.schedule
    mine = write_choice(swaps.HeldShift(world.bob.username, START, START + DAY))
    theirs = write_choice(swaps.HeldShift(world.alice.username, START + DAY, START + 2 * DAY))
    browser = sign_in("bob")
    browser.get(f"/on-call/{nights.unique_id}/")
    assert browser.post(f"/on-call/{nights.unique_id}/swaps/", mine=mine, theirs=theirs).status_code == 303

    mail = render_message(Message.get().id, "https://tocsin.example.org", datetime.now(UTC)).message
    (link,) = mail.content.links
    page = ask("GET", link.url.removeprefix("https://tocsin.example.org"), who=None)

    assert "/swap/" in link.url
    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert "Bob asks you to swap shifts in the schedule Nights &lt;b&gt;." in page.text
    assert [f">{each}</button>" in page.text for each in ("Accept", "Decline")] == [True, True]
    assert page.text.count(" to ") >= 2
    assert get_state() is SwapState.ASKED


def test_accepting_swaps_the_shifts(ask, world, swap, path):
    assert answer(ask, path, "accept").status_code == 303

    assert get_state() is SwapState.DONE
    assert {(row.user_id, row.start_time) for row in ScheduleOverride.select()} == {
        (world.alice.id, START),
        (world.bob.id, START + DAY),
    }
    assert [each.kind for each in Message.select()] == [MessageKind.SWAP_ACCEPTED]
    assert "The shifts are swapped" in ask("GET", path, who=None).text


def test_a_link_has_one_effect(ask, swap, path):
    answer(ask, path, "decline")
    assert answer(ask, path, "accept").status_code == 303

    assert get_state() is SwapState.DECLINED
    assert not ScheduleOverride.select().exists()
    assert Message.select().count() == 1
    page = ask("GET", path, who=None).text
    assert "You declined the swap" in page
    assert "<button" not in page


@pytest.mark.parametrize("act", ["", "confirm", "withdraw", "x"])
def test_another_action_does_nothing(ask, path, act):
    assert answer(ask, path, act).status_code == 303
    assert get_state() is SwapState.ASKED


def replace_shift(world, swap):
    """Let somebody else take the shift that is swapped."""
    ScheduleOverride.create(
        unique_id=make_uuid(),
        creation_date=START,
        schedule=swap.schedule,
        user=world.charlie,
        start_time=START,
        end_time=START + DAY,
    )


def test_a_schedule_without_these_shifts_refuses(ask, world, swap, path):
    replace_shift(world, swap)
    page = answer(ask, path, "accept")

    assert page.status_code == 400
    assert "no longer has both of these shifts" in page.text
    assert get_state() is SwapState.ASKED


def test_accepting_waits_for_a_place_and_declining_does_not(ask, swap, path, monkeypatch):
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    with held_elsewhere(places.places, "other", "third"):
        accepted = answer(ask, path, "accept")
        assert (accepted.status_code, get_state()) == (503, SwapState.ASKED)
        assert "The service is temporarily unavailable." in accepted.text
        answer(ask, path, "decline")

    assert get_state() is SwapState.DECLINED


def test_a_link_ends_when_the_first_shift_begins(ask, swap):
    path = build_path(swap, ends_at=datetime.now(UTC) - timedelta(seconds=1))
    for page in (ask("GET", path, who=None), answer(ask, path, "accept")):
        assert page.status_code == 410
        assert "The first of the shifts has begun" in page.text
    assert get_state() is SwapState.ASKED


def test_other_links_open_nothing(ask, world, swap, now):
    token = get_signer().sign_bundle(Bundle(swap.id, swap.partner_id), START)
    for path in ("/swap/x", f"/swap/{token}", build_path(swap, world.bob.id), build_path(swap)[:-2]):
        assert ask("GET", path, who=None).status_code == 404
        assert answer(ask, path, "accept").status_code == 404
    with pytest.raises(signed_links.BadLink):
        get_signer().read_bundle(build_path(swap).removeprefix("/swap/"), now)


def withdraw(world):
    ShiftSwap.delete().execute()


def remove_person(world):
    User.update(removed_at=START).where(User.id == world.alice.id).execute()


def leave_team(world):
    User.update(role=3).where(User.id == world.alice.id).execute()
    TeamMember.delete().where(TeamMember.user == world.alice).execute()


@pytest.mark.parametrize("change", [withdraw, remove_person, leave_team])
def test_a_link_ends_with_the_request_and_with_the_right_of_its_person(ask, world, path, change):
    change(world)

    assert ask("GET", path, who=None).status_code == 404
    assert answer(ask, path, "accept").status_code == 404
    assert not ScheduleOverride.select().exists()


def test_the_page_loads_nothing_and_is_not_cached(ask, path):
    for page in (ask("GET", path, who=None), ask("GET", "/swap/x", who=None)):
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'nonce-")
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert page.headers["X-Robots-Tag"] == "noindex"
        assert page.headers["Cache-Control"] == "no-store"
        assert "<script" not in page.text


def test_the_redirect_contains_the_path_of_the_public_url(app, ask, path):
    app.config["SETTINGS"] = type("S", (), {"public_url": "https://example.org/tocsin"})

    assert app.test_client().post(path, data={"act": "decline"}).headers["Location"] == f"/tocsin{path}"


def test_requests_are_limited(ask, world, swap, path, monkeypatch):
    monkeypatch.setattr(swaps, "RATE_LIMITS", ((1, 3600.0),))
    replace_shift(world, swap)

    assert [answer(ask, path, "accept").status_code for _ in range(2)] == [400, 429]
    assert get_state() is SwapState.ASKED
