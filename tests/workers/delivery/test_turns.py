"""Accounts take turns, and none has more than half of the threads: a slow target delays only its account."""

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.notifications import Message
from tests.support.delivery.http_channels import HostsChannel, add_channel, add_contact, start_inbox
from tests.support.polling import wait_until
from tests.support.relays import AnsweringRelay, hang, hang_after_mail, relay, start_silent_server
from tests.support.scenarios.delivery import MAIL, deliver_to
from workers.delivery import deliver
from workers.delivery.outbox import list_due_accounts
from workers.delivery.threads import MAX_THREADS as THREADS_ELSEWHERE
from workers.delivery.transport.relay_gate import FAILURE_THRESHOLD, MAX_THREADS, PAUSE_S
from workers.delivery.turns import (
    KNOWN_FOR_S,
    THREADS_PER_ACCOUNT,
    THREADS_PER_ACCOUNT_ELSEWHERE,
    Flight,
    Turns,
    choose_account,
    find_full,
    find_full_elsewhere,
)

__all__ = ["deliver_to"]

SECOND = timedelta(seconds=1)
SLOW = "slow.example.org"
ALICE, MALLORY, BOB = 1, 2, 3


@pytest.mark.parametrize(
    ("due", "full", "served", "without", "chosen"),
    [
        ([], (), {}, (), None),
        ([ALICE], (), {ALICE: 7}, (), ALICE),
        ([ALICE, MALLORY], (), {ALICE: 1}, (), MALLORY),
        ([ALICE, MALLORY, BOB], (), {ALICE: 3, MALLORY: 1, BOB: 2}, (), MALLORY),
        ([ALICE, MALLORY], {MALLORY}, {ALICE: 1}, (), ALICE),
        ([ALICE, MALLORY], (), {ALICE: 1}, {MALLORY}, ALICE),
        ([MALLORY], {MALLORY}, {}, (), None),
    ],
)
def test_the_account_that_waited_longest_is_chosen(due, full, served, without, chosen):
    assert choose_account(due, full, served, without) == chosen


def test_an_account_is_full_with_its_share_of_the_channel():
    flights = [Flight(5, MALLORY)] * 4 + [Flight(5, BOB)] * 3 + [Flight(6, BOB)] * 4

    assert find_full(5, flights, 4) == {MALLORY}


def test_an_account_is_full_with_its_share_of_all_channels_but_mail():
    few = [Flight(5 + number % 3, MALLORY) for number in range(THREADS_PER_ACCOUNT_ELSEWHERE)]

    assert find_full_elsewhere(5, few) == {MALLORY}
    assert find_full_elsewhere(MAIL, few) == set()
    assert find_full_elsewhere(5, [*few[1:], Flight(MAIL, MALLORY)]) == set()


def test_at_most_half_of_the_threads_are_for_one_account():
    assert THREADS_PER_ACCOUNT <= MAX_THREADS // 2
    assert THREADS_PER_ACCOUNT_ELSEWHERE <= THREADS_ELSEWHERE // 2


def test_the_accounts_with_due_messages_are_asked_for_once_in_a_moment():
    moment, asked = [0.0], []

    def list_due(channel, now):
        asked.append(channel)
        return [ALICE]

    turns = Turns(list_due, lambda: moment[0])
    assert turns.list_known(5) == []
    turns.read(5, None)
    assert (turns.list_known(5), asked) == ([ALICE], [5])
    moment[0] += KNOWN_FOR_S
    assert turns.list_known(5) == []


def write_message(user, contact, now, *, channel=MAIL):
    """Write a pending test message."""
    return Message.create(
        message_id=make_uuid(), account=user.account_id, user=user, contact=contact, channel=channel,
        created_at=now, next_attempt_at=now, requested_by="Somebody", requested_address=contact.value,
    )  # fmt: skip


def test_accounts_with_claimable_messages_are_found(world, now, store):
    mine = add_contact(world.alice, MAIL, "a@example.org")
    theirs = add_contact(world.mallory, MAIL, "m@example.org")
    later, claimed = (write_message(world.alice, mine, now) for _ in range(2))
    Message.update(next_attempt_at=now + SECOND).where(Message.id == later.id).execute()
    Message.update(claimed_until=now + SECOND).where(Message.id == claimed.id).execute()
    write_message(world.mallory, theirs, now)

    assert list_due_accounts(MAIL, now) == [world.mallory.account_id]
    assert list_due_accounts(MAIL, now + SECOND) == sorted([world.alice.account_id, world.mallory.account_id])
    assert list_due_accounts(MAIL + 1, now + SECOND) == []


def test_a_message_waits_for_one_message_of_each_other_account(world, now, deliver_to):
    mine = add_contact(world.alice, MAIL, "a@example.org")
    theirs = add_contact(world.mallory, MAIL, "m@example.org")
    for _ in range(5):
        write_message(world.mallory, theirs, now)
    write_message(world.alice, mine, now + SECOND)
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now + SECOND)

    recipients = [to for to, _ in box.mails]
    assert len(recipients) == 6
    assert "a@example.org" in recipients[:2]


class SlowRelay(AnsweringRelay):
    """A relay that answers RCPT for one domain only after `go_on`."""

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if address.endswith(SLOW):
            self.asked += 1
            await server.loop.run_in_executor(None, self.go_on.wait, 30)
        return await super().handle_RCPT(server, session, envelope, address, options)


@contextmanager
def start_slow_relay():
    with relay(kind=SlowRelay) as box:
        box.asked, box.go_on = 0, threading.Event()
        try:
            yield box
        finally:
            box.go_on.set()


@pytest.fixture
def threads(deliver_to):
    """The threads of the channels, as in a worker."""
    deliver.threads.start()
    yield deliver.threads
    deliver.threads.stop()
    deliver.threads.join(30)


def count_sent():
    with connection():
        return Message.select().where(Message.state == MessageStatus.SENT).count()


def test_a_slow_domain_of_one_account_leaves_the_relay_to_others(world, now, deliver_to, threads):
    with start_slow_relay() as box:
        deliver_to(box.port, deadline_s=25)
        for number in range(2 * MAX_THREADS):
            slow = add_contact(world.mallory, MAIL, f"m{number}@{SLOW}")
            write_message(world.mallory, slow, now)
        for _ in range(MAX_THREADS):
            deliver.hand_over(MAIL)
        wait_until(lambda: box.asked == MAX_THREADS // 2)
        write_message(world.alice, add_contact(world.alice, MAIL, "a@example.org"), now)
        deliver.hand_over(MAIL)

        wait_until(lambda: [to for to, _ in box.mails] == ["a@example.org"], seconds=20)
        assert box.asked == MAX_THREADS // 2
        box.go_on.set()
        wait_until(lambda: count_sent() == 2 * MAX_THREADS + 1, seconds=20)


def test_a_domain_that_does_not_answer_pauses_alone(world, now, deliver_to):
    with start_slow_relay() as box:
        runtime = deliver_to(box.port, deadline_s=1.0)
        for number in range(FAILURE_THRESHOLD + 2):
            slow = add_contact(world.mallory, MAIL, f"m{number}@{SLOW}")
            write_message(world.mallory, slow, now)
            other = add_contact(world.mallory, MAIL, f"m{number}@example.org")
            write_message(world.mallory, other, now)
        deliver.send_due(MAIL, now)

        assert len(box.mails) == FAILURE_THRESHOLD + 2
        assert not runtime.is_down()
        pending = list(Message.select().where(Message.state == MessageStatus.PENDING))
        assert sorted(row.attempts for row in pending) == [0, 0, 1, 1, 1]
        held = {row.next_attempt_at - now for row in pending if not row.attempts}
        assert all(timedelta() < each <= timedelta(seconds=PAUSE_S) for each in held)


def test_a_relay_that_hangs_at_every_domain_counts_as_down(world, now, deliver_to):
    with start_silent_server(hang_after_mail) as dead:
        runtime = deliver_to(dead.port, deadline_s=0.2)
        for user, domain in ((world.mallory, "a.org"), (world.mallory, "b.org"), (world.alice, "c.org")):
            assert not runtime.is_down()
            write_message(user, add_contact(user, MAIL, f"one@{domain}"), now)
            deliver.send_due(MAIL, now)

        assert runtime.is_down()


def test_dead_hosts_of_one_account_leave_threads_of_all_channels_to_others(
    world, now, deliver_to, threads, monkeypatch
):
    channels = range(190, 196)
    with start_silent_server(hang) as first, start_silent_server(hang) as second, start_inbox() as alive:
        for channel in channels:
            add_channel(monkeypatch, channel, HostsChannel(deadline_s=25)).gate.max_threads = 12
            for dead in (first, second) * 4:
                contact = add_contact(world.mallory, channel, f"http://127.0.0.1:{dead.port}/hook")
                write_message(world.mallory, contact, now, channel=channel)
        for _ in range(8):
            for channel in channels:
                deliver.hand_over(channel)
        wait_until(lambda: first.taken + second.taken == THREADS_PER_ACCOUNT_ELSEWHERE, seconds=20)
        contact = add_contact(world.alice, channels[-1], f"{alive.url}/hook")
        write_message(world.alice, contact, now, channel=channels[-1])
        deliver.hand_over(channels[-1])

        wait_until(lambda: len(alive.taken) == 1, seconds=20)
        assert first.taken + second.taken == THREADS_PER_ACCOUNT_ELSEWHERE
