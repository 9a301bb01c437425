"""A person acknowledges in the channel where the message is. The contact names the person, nothing else."""

from datetime import timedelta

import pytest

from models.domain.enums import ContactType, IncidentStatus
from models.people import provisioning
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.users import ContactMethod
from tests.support.scenarios.delivery import alert
from web.callbacks.answer import NOT_FOUND, answer, find_contacts

SLACK = ContactType.SLACK


@pytest.fixture
def slack(world, now):
    """Alice's verified contact."""
    return provisioning.create_contact(world.alice, "Slack", SLACK, "U1", now, is_verified=True)


@pytest.fixture
def notification(world, now):
    """The notification of Alice about an incident that is triggered."""
    alert(world, now)
    return Notification.get().id


def test_an_answer_acknowledges_in_the_name_of_the_person(world, now, slack, notification):
    found = answer(slack, notification, "acknowledge", now)

    assert (found.text, found.is_done) == ("Acknowledged: #1 Disk full on db1", True)
    incident = Incident.get()
    assert (incident.status, incident.assigned_to) == (IncidentStatus.ACKNOWLEDGED, world.alice)
    entry = IncidentLog.select().order_by(IncidentLog.id.desc()).first()
    assert (entry.user, str(entry.reason)) == (world.alice, "Acknowledged by Alice in Slack.")


def test_an_answer_that_is_too_late_says_who_was_faster(world, now, slack, notification):
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    columns = {"status": IncidentStatus.ACKNOWLEDGED, "assigned_to": world.bob, "acknowledged_date": now}
    Incident.update(columns).execute()

    found = answer(slack, notification, "acknowledge", now + timedelta(minutes=1))

    assert (found.text, found.is_done) == ("You are too late, Bob has #1 since 13:00.", False)


def test_an_incident_that_is_resolved_stays_resolved(now, slack, notification):
    answer(slack, notification, "resolve", now)

    assert (
        answer(slack, notification, "acknowledge", now).text
        == "You are too late, #1 is resolved since 12:00."
    )
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_the_contact_of_somebody_else_cannot_answer(world, now, notification):
    of_bob = provisioning.create_contact(world.bob, "Slack", SLACK, "U2", now, is_verified=True)

    assert answer(of_bob, notification, "acknowledge", now) == NOT_FOUND
    assert Incident.get().status == IncidentStatus.TRIGGERED


@pytest.mark.parametrize(
    "change",
    [
        lambda world: ContactMethod.update(value="U9").where(ContactMethod.contact_type == SLACK),
        lambda world: User.update(removed_at=world.team.creation_date).where(User.id == world.alice.id),
    ],
    ids=["the contact is not verified any more", "the person was removed"],
)
def test_an_answer_counts_only_if_the_contact_still_speaks_for_the_person(
    world, now, slack, notification, change
):
    change(world).execute()

    assert answer(ContactMethod.get_by_id(slack.id), notification, "acknowledge", now) == NOT_FOUND
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_an_unknown_action_or_notification_does_nothing(now, slack, notification):
    assert answer(slack, notification, "delete", now) == NOT_FOUND
    assert answer(slack, notification + 1, "acknowledge", now) == NOT_FOUND
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_contacts_are_found_by_their_verified_address(world, now, slack):
    provisioning.create_contact(world.bob, "Slack", SLACK, "U1", now)

    assert [contact.user for contact in find_contacts(SLACK, "U1")] == [world.alice]
    assert find_contacts(ContactType.SMS, "U1") == []
