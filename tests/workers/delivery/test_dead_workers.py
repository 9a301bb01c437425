"""What a worker had claimed is sent again soon after it is known to be dead, and not while it may live."""

from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.processes.claim_holders import OwnHold
from models.store.store import connection
from models.tables.callbacks import ClaimHolder
from models.tables.notifications import Message
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, alert, deliver_to
from workers.delivery import dead_workers, deliver, outbox
from workers.delivery.dead_workers import DeadWorkers

__all__ = ["deliver_to"]


@pytest.fixture
def other(store):
    """The hold of another process."""
    hold = OwnHold()
    with connection():
        hold.keep()
    yield hold
    hold.release()


@pytest.fixture
def claimed(world, now, store, other):
    """A message that the other process has claimed."""
    alert(world, now)
    with store.write_transaction():
        return outbox.claim(MAIL, world.account.id, now, by=other.number)


def look(times):
    """Look for the dead so many times. Return how often claims were ended."""
    ended = []
    finder = DeadWorkers(lambda: ended.append(True))
    for _ in range(times):
        finder.look()
    return len(ended)


def test_the_claims_of_a_dead_process_end(world, now, store, other, claimed, deliver_to):
    other.release()

    assert look(store.looks_until_dead) == 1
    assert not ClaimHolder.select().exists()
    with relay() as box:
        deliver_to(box.port)
        assert deliver.send_due(MAIL, now) == 1
    assert len(box.mails) == 1


def test_the_claims_of_a_living_process_stay(now, store, claimed):
    assert look(5) == 0
    assert Message.get().claimed_until == now + outbox.CLAIM


def test_a_claim_of_an_unknown_process_stays(world, now, store, other):
    alert(world, now)
    with store.write_transaction():
        outbox.claim(MAIL, world.account.id, now)
    other.release()

    assert look(5) == 0
    assert Message.get().claimed_until == now + outbox.CLAIM


def test_a_message_that_the_dead_process_has_sent_stays_sent(store, other, claimed):
    Message.update(state=MessageStatus.SENT, claimed_until=None).execute()
    other.release()

    assert look(5) == 0
    assert Message.get().state == MessageStatus.SENT


def test_a_process_that_holds_its_number_again_in_time_is_not_dead(store, other, claimed, monkeypatch):
    """PostgreSQL was started again: all sessions have ended, and no process has."""
    monkeypatch.setattr(type(store), "looks_until_dead", 2)
    number, ended = other.number, []
    finder = DeadWorkers(lambda: ended.append(True))
    other.release()
    finder.look()
    other.keep()
    finder.look()
    other.release()
    finder.look()

    assert other.number is None
    assert not ended
    other.keep()
    assert other.number == number


def test_a_message_in_flight_names_its_process(world, now, store, deliver_to, monkeypatch):
    alert(world, now)
    named = []
    real = deliver.render_message

    def render(*given):
        named.append(Message.get().claimed_by)
        return real(*given)

    monkeypatch.setattr(deliver, "render_message", render)
    dead_workers.own.keep()
    try:
        with relay() as box:
            deliver_to(box.port)
            deliver.send_due(MAIL, now + timedelta(seconds=1))
        assert named == [dead_workers.own.number]
        assert named[0] is not None
    finally:
        dead_workers.own.release()
