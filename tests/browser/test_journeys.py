"""What people do with the pages, in Chromium, by the names that a screen reader says."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from models.domain.enums import IncidentStatus
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentLog
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.sign_in import Session
from tests.support.alerts import accept
from tests.support.schedules.stored import layer
from tests.support.schedules.stored import schedule as add_schedule
from tests.support.web.server import run_server
from tests.support.web.site import SIZES, open_incidents, open_page, serve_site
from workers.alerts import process_lane

__all__ = ["run_server"]


@pytest.fixture
def site(world, home, run_server):
    open_incidents(world)
    add_schedule(world.team, layer(world.bob, name="Nights"), name="Payments on call")
    return serve_site(run_server, home)


@pytest.fixture
def sign_in(chromium, site):
    """sign_in(user, size): a page of a browser in which this person is signed in."""
    opened = []

    def sign_in(user: User | None, size: str = "phone", **options):
        opened.append(open_page(chromium, site, user, size, **options))
        return opened[-1]

    yield sign_in
    for page in opened:
        page.context.close()


def load() -> Incident:
    return Incident.get(Incident.incident_number == 1)


@pytest.mark.parametrize("size", SIZES)
def test_at_three_in_the_morning_alice_acknowledges(sign_in, world, size):
    page = sign_in(world.alice, size)
    page.goto("/")
    page.get_by_role("link", name="Disk full on db1").click()
    page.get_by_role("button", name="Acknowledge").click()

    expect(page.get_by_text("acknowledged", exact=True).first).to_be_visible()
    assert load().status == IncidentStatus.ACKNOWLEDGED


def test_the_pages_need_no_script(sign_in, world):
    page = sign_in(world.alice, java_script_enabled=False)
    page.goto("/")
    page.get_by_label("Mark incident 1").check()
    page.get_by_role("button", name="Acknowledge").click()

    expect(page.get_by_text("1 incident acknowledged.")).to_be_visible()
    assert load().status == IncidentStatus.ACKNOWLEDGED


def test_a_list_shows_what_a_colleague_did_without_a_reload(sign_in, world):
    alice, bob = sign_in(world.alice), sign_in(world.bob, "desktop")
    alice.goto("/")
    alice.get_by_label("Mark incident 1").check()
    bob.goto("/incidents/1/")
    bob.get_by_role("button", name="Acknowledge").click()

    expect(alice.locator("#list .status")).to_have_text("acknowledged")
    # The mark of the person is still there.
    expect(alice.get_by_label("Mark incident 1")).to_be_checked()


def test_in_two_tabs_the_second_shows_both_versions(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    second = page.context.new_page()
    second.goto("/incidents/1/")
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("resolved", exact=True).first).to_be_visible()
    second.get_by_role("button", name="Acknowledge").click()

    expect(second.get_by_role("heading", name="Incident #1 changed meanwhile")).to_be_visible()
    assert load().status == IncidentStatus.RESOLVED


def test_after_the_back_button_the_page_shows_the_new_status(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("acknowledged", exact=True).first).to_be_visible()
    page.goto("/why/")
    page.go_back()

    expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)


def test_alice_finds_out_why_nobody_was_paged(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/")
    page.get_by_role("link", name="Why").click()
    page.get_by_role("link", name="Queue of mails is longer than 10,000").click()

    expect(page.get_by_text(re.compile("Warning alerts open no incident here")).first).to_be_visible()
    expect(page.get_by_text("The alert ended here.")).to_be_visible()


def test_alice_takes_over_in_two_taps(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/on-call/")
    page.get_by_role("link", name="Payments on call").click()
    page.get_by_role("button", name="4 h", exact=True).click()

    expect(page.get_by_text("The override was added.")).to_be_visible()
    assert ScheduleOverride.get().user_id == world.alice.id


def test_alice_tries_an_alert_on_saturday_at_three(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/why/simulate/")
    page.get_by_label("When").fill("2027-03-06T03:00")
    page.get_by_role("button", name="Show what would happen").click()

    expect(page.get_by_role("heading", name="If it came 6 Mar 2027, 03:00")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Alice")).to_be_visible()


def test_the_colours_are_kept_in_the_browser(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/mine/")
    page.get_by_label("Colours in this browser").select_option("dark")
    page.get_by_role("button", name="Save colours").click()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_alice_and_bob_swap_shifts(sign_in, world, site):
    Schedule.update(layers=[layer(world.bob, world.alice, name="Nights")]).execute()
    bob = sign_in(world.bob)
    bob.goto("/on-call/")
    bob.get_by_role("link", name="Payments on call").click()
    bob.get_by_role("link", name="Show a month").click()
    bob.get_by_role("button", name="Ask to swap").click()
    expect(bob.get_by_text("The request is stored. Tocsin has no mail relay")).to_be_visible()

    alice = sign_in(world.alice, "desktop")
    alice.goto("/mine/")
    alice.get_by_role("link", name="Bob asks you to swap shifts").click()
    alice.get_by_role("button", name="Accept").click()
    expect(alice.get_by_text("The shifts are swapped.")).to_be_visible()
    assert ScheduleOverride.select().count() == 2


def test_a_session_that_ended_asks_to_sign_in_and_comes_back(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    Session.delete().execute()
    page.get_by_role("button", name="Acknowledge").click()

    expect(page).to_have_url(re.compile(r"/sign-in/\?next=/incidents/1/$"))
    assert load().status == IncidentStatus.TRIGGERED


def test_an_open_page_says_that_its_session_ended(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    Session.delete().execute()

    expect(page.get_by_text("Your session has ended.")).to_be_visible()


def test_a_double_click_acts_once(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    page.get_by_role("button", name="Acknowledge").dblclick()

    expect(page.get_by_text("acknowledged", exact=True).first).to_be_visible()
    logged = IncidentLog.select().where(IncidentLog.incident == load(), IncidentLog.what == "acknowledged")
    assert logged.count() == 1


def test_the_back_button_after_an_action_offers_it_no_more(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("resolved", exact=True).first).to_be_visible()
    page.go_back()
    if page.get_by_role("button", name="Acknowledge").count():
        page.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_role("heading", name="Incident #1 changed meanwhile")).to_be_visible()

    assert load().status == IncidentStatus.RESOLVED


def test_who_was_slower_sees_both_versions_and_decides(sign_in, world):
    alice, bob = sign_in(world.alice), sign_in(world.bob, "desktop")
    # Without its script, the page of the slower person stays as it was.
    slow = sign_in(world.alice, java_script_enabled=False)
    slow.goto("/incidents/1/")
    bob.goto("/incidents/1/")
    bob.get_by_role("button", name="Acknowledge").click()
    expect(bob.get_by_text("acknowledged", exact=True).first).to_be_visible()
    slow.get_by_role("button", name="Resolve").click()

    expect(slow.get_by_role("heading", name="Incident #1 changed meanwhile")).to_be_visible()
    expect(slow.get_by_role("row", name=re.compile("Status triggered acknowledged"))).to_be_visible()
    assert load().status == IncidentStatus.ACKNOWLEDGED
    slow.get_by_role("button", name="Do it anyway").click()
    alice.goto("/incidents/1/")
    expect(alice.get_by_text("resolved", exact=True).first).to_be_visible()


def test_hostile_texts_are_shown_and_do_nothing(sign_in, world):
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>{{7*7}}"
    Incident.update(title=hostile).where(Incident.incident_number == 1).execute()
    page = sign_in(world.alice)
    for path in ("/", "/incidents/1/", "/incidents/1/postmortem/", "/why/"):
        page.goto(path)

        assert "taken" not in page.title()
        assert page.problems == [], path
    page.goto("/")
    expect(page.get_by_text(hostile).first).to_be_visible()


def test_a_link_of_another_account_leads_nowhere(sign_in, world):
    page = sign_in(world.mallory)
    schedule = Schedule.select().first().unique_id
    for path in ("/incidents/1/", f"/on-call/{schedule}/", "/incidents/1/postmortem/"):
        assert page.goto(path).status == 404
        assert "Disk full" not in page.content()


def test_the_keys_move_mark_and_acknowledge(sign_in, world):
    page = sign_in(world.alice, "desktop")
    page.goto("/")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Disk full on db1")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_label("Mark incident 1")).to_be_checked()
    page.keyboard.press("a")

    expect(page.get_by_text("1 incident acknowledged.")).to_be_visible()
    assert load().status == IncidentStatus.ACKNOWLEDGED


def test_a_question_mark_shows_the_keys_and_does_not_disturb_who_types(sign_in, world):
    page = sign_in(world.alice, "desktop")
    page.goto("/incidents/1/")
    page.get_by_label("New note").press("a")
    page.get_by_label("New note").press("?")
    expect(page.get_by_label("New note")).to_have_value("a?")
    page.get_by_role("heading", name="Disk full on db1").click()
    page.keyboard.press("?")

    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert load().status == IncidentStatus.TRIGGERED


def test_the_icon_has_a_dot_while_something_is_triggered(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("triggered"))
    page.get_by_role("button", name="Acknowledge").click()

    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("quiet"))


@pytest.mark.parametrize(
    ("width", "height", "least"), [(390, 844, 8), (1920, 1080, 20)], ids=["phone", "wide screen"]
)
def test_enough_incidents_are_on_one_screen(sign_in, world, width, height, least):
    for number in range(21):
        accept(
            world,
            datetime.now(UTC),
            message=f"Disk {number} full",
            alert_type="critical",
            entity_id=str(number),
        )
    process_lane.run(world.service.id)
    page = sign_in(world.alice)
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/")
    menu = page.get_by_role("navigation", name="Pages").bounding_box()
    # On a phone, the menu is at the bottom.
    bottom = menu["y"] if menu["y"] > 0 else height
    rows = [row.bounding_box() for row in page.locator("tbody tr").all()]

    assert sum(row["y"] + row["height"] <= bottom for row in rows) >= least


def test_ages_go_on_without_a_reload(sign_in, world):
    page = sign_in(world.alice, "desktop")
    page.clock.install()
    page.goto("/")
    expect(page.locator("td.since time")).to_have_text("4 min")
    page.clock.fast_forward("10:00")

    expect(page.locator("td.since time")).to_have_text("14 min")


def test_the_focus_on_a_time_shows_the_exact_one(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/incidents/1/")
    since = page.locator("#head time").first
    since.focus()

    shown = since.evaluate("each => getComputedStyle(each, '::after').content")
    assert "attr(title)" in shown or since.get_attribute("title") in shown


def test_a_schedule_on_a_phone_begins_at_now(sign_in, world):
    page = sign_in(world.alice)
    page.goto("/on-call/")
    page.get_by_role("link", name="Payments on call").click()
    strip = page.get_by_role("region", name="Seven days from").first
    box, now = strip.bounding_box(), strip.locator("line.now").bounding_box()
    name = strip.locator("li").first.bounding_box()

    assert box["x"] <= now["x"] <= box["x"] + box["width"]
    # The names of its rows stay at the left edge.
    assert box["x"] <= name["x"] <= box["x"] + 16
