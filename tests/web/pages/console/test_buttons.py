"""A page shows a button if and only if what it sends is not answered by 403."""

import re

import pytest

from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.tables.events import Event
from models.tables.teams import Team, TeamMember
from pipeline.messages.content import ACTIONS as STATUS_ACTIONS
from tests.support.schedules.stored import layer, schedule
from web.pages.console.incident_actions import ACTIONS

BUTTON = re.compile(r'<button[^>]* name="act" value="(\w+)"')
INCIDENT = "/incidents/1/"
POSTMORTEM = f"{INCIDENT}postmortem/"
ALL_ACTIONS = (*STATUS_ACTIONS, *ACTIONS)
READ = ["incident_read", "postmortem_read", "schedule_read"]
WRITE = [*READ, "incident_write"]


@pytest.fixture
def share(world):
    """share(["incident_read"]): give these permissions in Alice's team to all members, also to Charlie."""

    def share(permissions: list[str]) -> None:
        Team.update(account_permissions=permissions).where(Team.id == world.team.id).execute()

    return share


def list_refused(browser, path, actions):
    return {act for act in actions if browser.post(path, act=act, target="person:x").status_code == 403}


@pytest.mark.parametrize(
    ("who", "shared", "may_write"),
    [("alice", [], True), ("bob", [], True), ("charlie", WRITE, True), ("charlie", READ, False)],
)  # fmt: skip
def test_the_actions_on_an_incident_are_shown_to_those_who_may_do_them(
    sign_in, share, open_incident, who, shared, may_write
):
    open_incident()
    share(shared)
    browser = sign_in(who)
    shown = set(BUTTON.findall(browser.get(INCIDENT).text))
    refused = list_refused(browser, INCIDENT, ALL_ACTIONS)

    assert refused == (set() if may_write else set(ALL_ACTIONS))
    assert shown.isdisjoint(refused)
    assert ({"acknowledge", "note", "page", "reassign", "merge"} <= shown) is may_write


def test_who_may_only_read_an_incident_reads_who_can_change_it(sign_in, share, open_incident, world):
    open_incident()
    share(READ)

    assert f"for example a manager of {world.team.name}." in sign_in("charlie").get(INCIDENT).text


@pytest.mark.parametrize(
    ("who", "shared", "is_shown"),
    [("bob", [], True), ("charlie", READ, False), ("charlie", WRITE, True)],
)  # fmt: skip
def test_actions_on_a_list_are_shown_to_those_who_may_do_them(
    sign_in, share, open_incident, world, who, shared, is_shown
):
    open_incident()
    TeamMember.delete().where(TeamMember.user == world.charlie).execute()
    share(shared)
    browser = sign_in(who)
    shown = BUTTON.findall(browser.get("/").text)
    answer = browser.post("/", act="acknowledge", incident="1")

    assert bool(shown) is is_shown
    assert (answer.status_code == 303) is is_shown


@pytest.mark.parametrize(
    ("who", "may_write"), [("alice", True), ("bob", False), ("charlie", False)]
)  # fmt: skip
def test_a_postmortem_has_a_form_for_those_who_may_write_it(sign_in, share, open_incident, who, may_write):
    open_incident()
    share(READ)
    browser = sign_in(who)
    page = browser.get(POSTMORTEM).text
    answer = browser.post(POSTMORTEM, title="Disk", text="Full.")

    assert ("<textarea" in page) is may_write
    assert (answer.status_code != 403) is may_write


@pytest.mark.parametrize(("who", "may_write"), [("alice", True), ("bob", False), ("charlie", False)])
def test_a_schedule_has_a_form_for_overrides_for_those_who_may_change_it(
    sign_in, share, world, who, may_write
):
    share(READ)
    path = f"/on-call/{schedule(world.team, layer(world.alice)).unique_id}/"
    browser = sign_in(who)
    page = browser.get(path).text
    answer = browser.post(path, user=world.bob.username, hours="4")

    assert ("Who takes over" in page) is may_write
    assert (answer.status_code != 403) is may_write


@pytest.mark.parametrize(
    ("who", "shared", "may_write"),
    [("alice", [], True), ("bob", [], True), ("charlie", READ, False), ("charlie", WRITE, True)],
)  # fmt: skip
def test_a_dead_letter_has_a_button_for_those_who_may_replay_it(
    sign_in, share, open_incident, who, shared, may_write
):
    open_incident()
    event = Event.get()
    Event.update(state=WorkState.DEAD_LETTER, error=make_reason("requested", by="x")).execute()
    share(shared)
    browser = sign_in(who)
    page = browser.get("/why/").text
    answer = browser.post(f"/why/dead-letters/{event.unique_id}/replay/")

    assert event.message in page
    assert (f"/why/dead-letters/{event.unique_id}/replay/" in page) is may_write
    assert (answer.status_code != 403) is may_write


@pytest.mark.parametrize(
    "shared", [["integration_read"], ["incident_read"], ["integration_read", "incident_read"]]
)
def test_the_simulation_offers_the_integrations_for_which_it_is_not_refused(sign_in, share, world, shared):
    share(shared)
    browser = sign_in("charlie")
    page = browser.get("/why/simulate/").text
    answer = browser.post("/why/simulate/", integration=world.integration.unique_id, message="Disk full")

    assert (answer.status_code != 403) is ("incident_read" in shared)
    assert (world.integration.unique_id in page) is (len(shared) == 2)
