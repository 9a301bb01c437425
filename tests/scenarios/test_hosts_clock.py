"""On PostgreSQL the database's clock decides: a host whose own is an hour off works like the others."""

from datetime import timedelta

import pytest
import time_machine

from models.accounts import Token
from models.enums import TimerKind
from models.events import Receipt
from models.ids import digest
from models.incidents import Incident
from models.links import Link, signer
from models.notices import Message, Notice
from models.timers import Timer
from tests.web.conftest import app, ask
from tests.workers.test_timers import set_policy
from workers import road, timers
from workers.outbox import is_due

__all__ = ["app", "ask"]

HOUR = timedelta(hours=1)
HALF = timedelta(minutes=30)
SOON = timedelta(seconds=20)


@pytest.fixture(params=[-HOUR, HOUR], ids=["behind", "ahead"])
def off(request, store):
    """The host's clock is wrong; the moment by the database's."""
    if store.name == "sqlite":
        pytest.skip("an embedded store has no clock but the host's")
    right = store.now()
    with time_machine.travel(right + request.param, tick=True):
        yield right


@pytest.fixture
def opened(off, world, ask):
    """An incident, told to Alice at once and to Bob in ten minutes."""
    set_policy(world, (0, world.alice), (10, world.bob))
    key = world.integration.integration_key
    alert = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}
    assert ask("POST", f"/api/events/{key}/", alert, who=None).status_code == 201
    road.run(world.service.id)
    return Incident.get()


def test_an_alert_is_accepted_and_told_of_now(opened, off):
    moments = (Receipt.get().received_at, opened.creation_date, Message.get().next_at)

    assert all(off <= moment < off + SOON for moment in moments)
    assert is_due(Message.get().channel, off + SOON)


def test_a_timer_fires_neither_early_nor_late(opened, off):
    timers.run_due()
    waiting = Timer.get(Timer.kind == TimerKind.ESCALATE, Timer.done_at.is_null())
    assert timedelta(0) <= waiting.due_at - off - timedelta(minutes=10) < SOON

    Incident.update(chain_started_at=off - timedelta(minutes=10)).execute()
    Timer.update(due_at=off).where(Timer.id == waiting.id).execute()
    timers.run_due()

    assert off <= Timer.get_by_id(waiting.id).done_at < off + SOON
    assert Notice.select().count() == 2


def test_a_move_is_made_now(opened, off, ask):
    assert ask("PATCH", "/api/incidents/1/", {"status": 2}).status_code == 200

    assert off <= Incident.get().acknowledged_date < off + SOON


def test_a_link_works_for_seven_days(opened, off, ask):
    notice = Notice.get()
    link = Link(opened.id, notice.user_id, notice.id)

    def opens(age):
        return ask("GET", f"/i/{signer().sign(link, off - timedelta(days=7) + age)}", who=None).status_code

    assert (opens(HALF), opens(-HALF)) == (200, 410)


def test_a_token_works_until_it_expires(off, world, ask):
    mine = Token.update(expires_at=off + HALF).where(Token.digest == digest(world.tokens["alice"]))
    bobs = Token.update(expires_at=off - HALF).where(Token.digest == digest(world.tokens["bob"]))
    assert (mine.execute(), bobs.execute()) == (1, 1)

    teams = "/api/account/teams/"
    assert [ask("GET", teams, who=who).status_code for who in ("alice", "bob")] == [200, 401]
