"""Buttons whose request has the signed token of the message: ntfy and web push."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import IncidentStatus, OtherContactType
from models.links import signed_links
from models.links.signed_links import IncidentLink
from models.people import provisioning
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.teams import EscalationPolicy, TeamMember
from models.tables.users import ContactMethod
from tests.support.alerts import accept
from workers.alerts import process_lane

CHANNELS = {"ntfy": OtherContactType.NTFY, "web_push": OtherContactType.WEB_PUSH}


@pytest.fixture(params=CHANNELS)
def button(request, world, now):
    """button(action): the path of a button in the message to a contact of Alice about a new incident."""
    name = request.param
    contact = provisioning.create_contact(
        world.alice, name, CHANNELS[name], "oncall-alice", now, is_verified=True
    )
    accept(world, now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    Notification.update(contact=contact).execute()

    def button(action: str = "acknowledge", at: datetime | None = None) -> str:
        found = Notification.get()
        link = IncidentLink(found.incident_id, found.user_id, found.id)
        token = signed_links.get_signer().sign(link, at or datetime.now(UTC))
        return f"/callbacks/{name}/{token}/{action}/"

    button.channel, button.contact = name, contact
    return button


def test_a_button_acknowledges_in_the_name_of_the_person(ask, button):
    answer = ask("POST", button(), who=None)

    assert (answer.status_code, answer.mimetype) == (200, "text/plain")
    assert answer.text == "Acknowledged: #1 Disk full on db1\n"
    incident = Incident.get()
    assert (incident.status, incident.assigned_to.first_name) == (IncidentStatus.ACKNOWLEDGED, "Alice")
    entry = IncidentLog.select().where(IncidentLog.what == "acknowledged").get()
    channel = button.channel.replace("_", " ")
    assert str(entry.reason) == f"Acknowledged by Alice in {channel}."


def test_a_button_resolves(ask, button):
    assert ask("POST", button("resolve"), who=None).text == "Resolved: #1 Disk full on db1\n"
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_a_second_press_says_who_was_faster(ask, button):
    ask("POST", button(), who=None)
    again = ask("POST", button(), who=None)

    assert again.status_code == 409
    assert again.text.startswith("You already have #1 since ")


def test_no_other_method_acts(ask, button):
    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        ask(method, button(), who=None)

    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_the_request_needs_no_cookie_and_gets_none(ask, button):
    answer = ask("POST", button(), who=None, headers={"Origin": "https://elsewhere.example.org"})

    assert "Set-Cookie" not in answer.headers
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("action", ["snooze", "%00", "x" * 1_000])
def test_an_unknown_action_does_nothing(ask, button, action):
    assert ask("POST", button(action), who=None).status_code == 404
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_button_ends_with_its_link(ask, button):
    late = ask("POST", button(at=datetime.now(UTC) - timedelta(days=7, seconds=1)), who=None)
    wrong = ask("POST", button().replace("/acknowledge/", "x/acknowledge/"), who=None)

    assert (late.status_code, wrong.status_code) == (410, 404)
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_button_ends_with_the_contact_and_with_the_right_of_the_person(ask, button, world):
    path = button()
    ContactMethod.update(verified_value=None).where(ContactMethod.id == button.contact.id).execute()
    unverified = ask("POST", path, who=None)
    ContactMethod.update(verified_value=ContactMethod.value).where(
        ContactMethod.id == button.contact.id
    ).execute()
    User.update(removed_at=datetime.now(UTC)).where(User.id == world.alice.id).execute()
    removed = ask("POST", path, who=None)
    User.update(removed_at=None).execute()
    ContactMethod.delete().where(ContactMethod.id == button.contact.id).execute()
    deleted = ask("POST", path, who=None)

    assert [each.status_code for each in (unverified, removed, deleted)] == [404, 404, 404]
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_the_token_of_a_message_in_another_channel_does_not_act(ask, button, world):
    mail = ContactMethod.get(ContactMethod.user == world.alice, ContactMethod.contact_type == 1)
    path = button()
    Notification.update(contact=mail).execute()

    assert ask("POST", path, who=None).status_code == 404


def test_a_person_who_left_the_team_and_its_policy_cannot_act(ask, button, world):
    path = button()
    bob = world.bob
    Notification.update(user=bob).execute()
    ContactMethod.update(user=bob).where(ContactMethod.id == button.contact.id).execute()
    path = button()
    TeamMember.delete().where(TeamMember.user == bob).execute()
    EscalationPolicy.update(rules=[]).execute()

    assert ask("POST", path, who=None).status_code == 404
    assert Incident.get().status == IncidentStatus.TRIGGERED
