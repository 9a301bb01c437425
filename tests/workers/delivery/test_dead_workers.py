"""What a worker had claimed is sent again soon after it is known to be dead, and not while it may live."""

from datetime import timedelta

import pytest

from models.domain.enums import ContactType, MessageStatus
from models.processes.claim_holders import OwnHold
from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.callbacks import ClaimHolder
from models.tables.incidents import Incident
from models.tables.notifications import Message, MessageUpdate
from models.tables.outbound import OutboundDelivery, OutboundTarget
from runtime.settings import load
from tests.support.delivery.chat_servers import start_slack
from tests.support.relays import relay
from tests.support.scenarios.chats import ALICE_IN_SLACK, add_contact
from tests.support.scenarios.delivery import MAIL, alert, deliver_to
from tests.support.scenarios.timers import open_incident
from workers.delivery import changes, dead_workers, deliver, outbox
from workers.delivery.dead_workers import DeadWorkers
from workers.outbound import outbox as outbound

__all__ = ["deliver_to"]

SLACK = int(ContactType.SLACK)
FAILURE = (200, {}, {"ok": False, "error": "internal_error"})
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


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


def test_the_change_of_a_sent_message_is_due_at_once_when_its_process_is_dead(store, other):
    MessageUpdate.create(message_row=1, channel=SLACK, due_at=store.now())
    assert changes.claim(SLACK, store.now(), other.number) is not None
    assert look(5) == 0
    assert changes.claim(SLACK, store.now()) is None
    other.release()

    assert look(store.looks_until_dead) == 1
    assert changes.claim(SLACK, store.now()) is not None


def test_a_change_that_was_put_off_is_not_due_earlier_when_its_process_is_dead(store, other):
    MessageUpdate.create(message_row=1, channel=SLACK, due_at=store.now())
    claimed = changes.claim(SLACK, store.now(), other.number)
    later = store.now() + timedelta(minutes=5)
    changes._postpone(claimed, later)
    other.release()
    look(store.looks_until_dead)

    assert MessageUpdate.get().due_at == later


def test_a_delivery_of_a_dead_process_is_sent_by_another_one_at_once(world, now, store, other):
    incident = open_incident(world, now)
    target = OutboundTarget.create(
        integration=world.integration, url="https://example.org/", secret="s", creation_date=now
    )
    OutboundDelivery.create(
        unique_id=make_uuid(), target=target, incident=incident, event="triggered", created_at=now,
        next_attempt_at=now,
    )  # fmt: skip
    with store.write_transaction():
        killed = outbound.claim(now, by=other.number)
        assert outbound.claim(now) is None
    assert look(5) == 0
    other.release()

    assert look(store.looks_until_dead) == 1
    with store.write_transaction():
        assert outbound.claim(now).delivery == killed.delivery


def list_titles(slack):
    return [call["text"] for call in slack.list_calls("chat.postMessage")]


@pytest.fixture
def slack(world, home):
    """Slack, where Alice gets her messages."""
    with start_slack() as server:
        add_contact(world.alice, SLACK, ALICE_IN_SLACK)
        settings = {"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1", "TOCSIN_SLACK_URL": server.api}
        public = {"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}
        deliver.configure(load({**settings, **public}))
        yield server
        deliver._runtimes.clear()


def test_a_chat_message_is_marked_if_its_worker_died_before_it_recorded_the_first(
    world, now, store, other, slack
):
    alert(world, now)
    title = Incident.get().title
    with store.write_transaction():
        outbox.claim(SLACK, world.account.id, now, by=other.number)
    other.release()
    look(store.looks_until_dead)
    # Slack refuses the repeated one for now: it may still be the second.
    slack.prepared["chat.postMessage"] = [FAILURE]
    deliver.send_due(SLACK, store.now() + SECOND)
    deliver.send_due(SLACK, store.now() + MINUTE)

    first, second = list_titles(slack)
    assert first.startswith("(again) ")
    assert second == first
    assert title in second
    assert Message.get().state == MessageStatus.SENT


def test_a_chat_message_is_marked_if_the_claim_of_the_first_ended_without_a_record(world, now, store, slack):
    alert(world, now)
    with store.write_transaction():
        outbox.claim(SLACK, world.account.id, now)
    deliver.send_due(SLACK, now + outbox.CLAIM)

    (title,) = list_titles(slack)
    assert title.startswith("(again) ")


def test_a_chat_message_is_not_marked_after_a_known_failure(world, now, slack):
    alert(world, now)
    slack.prepared["chat.postMessage"] = [FAILURE]
    deliver.send_due(SLACK, now)
    deliver.send_due(SLACK, now + MINUTE)

    titles = list_titles(slack)
    assert len(titles) == 2
    assert not any("again" in title for title in titles)


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
        # It is rendered once more if the relay is slow.
        assert set(named) == {dead_workers.own.number}
        assert dead_workers.own.number is not None
    finally:
        dead_workers.own.release()
