"""On PostgreSQL the database's clock counts, so a host with a wrong clock works like the others."""

from datetime import timedelta

import pytest
import time_machine

from models.domain.enums import TimerKind
from models.links.signed_links import IncidentLink, get_signer
from models.store.ids import digest
from models.tables.accounts import Token
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.timers import Timer
from tests.support.scenarios.timers import set_policy
from tests.support.stores import SERVER
from tests.web.conftest import app, ask
from workers.alerts import process_lane
from workers.delivery.outbox import list_due_accounts
from workers.timers import fire

__all__ = ["app", "ask"]

HOUR = timedelta(hours=1)
HALF = timedelta(minutes=30)
SOON = timedelta(seconds=20)


@pytest.fixture(params=[-HOUR, HOUR], ids=["behind", "ahead"])
def host_offset(request, store):
    """Set the host's clock wrong and return the time of the database's clock."""
    if not SERVER:
        pytest.skip("an embedded store has no clock but the host's")
    database_time = store.now()
    with time_machine.travel(database_time + request.param, tick=True):
        yield database_time


@pytest.fixture
def opened_incident(host_offset, world, ask):
    """An incident that notifies Alice at once and Bob in ten minutes."""
    set_policy(world, (0, world.alice), (10, world.bob))
    key = world.integration.integration_key
    alert = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}
    assert ask("POST", f"/api/events/{key}/", alert, who=None).status_code == 201
    process_lane.run(world.service.id)
    return Incident.get()


def test_an_alert_is_accepted_and_notified_at_the_present_time(opened_incident, host_offset):
    moments = (Receipt.get().received_at, opened_incident.creation_date, Message.get().next_attempt_at)

    assert all(host_offset <= moment < host_offset + SOON for moment in moments)
    message = Message.get()
    assert list_due_accounts(message.channel, host_offset + SOON) == [message.account_id]


def test_a_timer_fires_neither_early_nor_late(opened_incident, host_offset):
    fire.fire_due()
    pending_timer = Timer.get(Timer.kind == TimerKind.ESCALATE, Timer.done_at.is_null())
    assert timedelta(0) <= pending_timer.due_at - host_offset - timedelta(minutes=10) < SOON

    Incident.update(run_started_at=host_offset - timedelta(minutes=10)).execute()
    Timer.update(due_at=host_offset).where(Timer.id == pending_timer.id).execute()
    fire.fire_due()

    assert host_offset <= Timer.get_by_id(pending_timer.id).done_at < host_offset + SOON
    assert Notification.select().count() == 2


def test_a_status_change_has_the_present_time(opened_incident, host_offset, ask):
    assert ask("PATCH", "/api/incidents/1/", {"status": 2}).status_code == 200

    assert host_offset <= Incident.get().acknowledged_date < host_offset + SOON


def test_a_link_works_for_seven_days(opened_incident, host_offset, ask):
    notification = Notification.get()
    link = IncidentLink(opened_incident.id, notification.user_id, notification.id)

    def opens(age):
        return ask(
            "GET", f"/i/{get_signer().sign(link, host_offset - timedelta(days=7) + age)}", who=None
        ).status_code

    assert (opens(HALF), opens(-HALF)) == (200, 410)


def test_a_token_works_until_it_expires(host_offset, world, ask):
    mine = Token.update(expires_at=host_offset + HALF).where(Token.digest == digest(world.tokens["alice"]))
    bobs = Token.update(expires_at=host_offset - HALF).where(Token.digest == digest(world.tokens["bob"]))
    assert (mine.execute(), bobs.execute()) == (1, 1)

    teams = "/api/account/teams/"
    assert [ask("GET", teams, who=who).status_code for who in ("alice", "bob")] == [200, 401]
