"""A provider or a host that hangs delays only its own messages."""

from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.store.store import connection
from models.tables.notifications import Attempt, Message
from models.tables.users import NotificationRule
from tests.support.delivery.http_channels import (
    ChannelOfTwo,
    HostsChannel,
    HttpChannel,
    add_channel,
    add_contact,
    alert_at,
    start_inbox,
)
from tests.support.polling import wait_until
from tests.support.relays import hang, relay, start_silent_server
from tests.support.scenarios.delivery import MAIL, deliver_to
from workers.delivery import deliver
from workers.delivery.channel_runtime import PROVIDER_PAUSE_S, ChannelRuntime
from workers.delivery.transport.channel import Provider
from workers.delivery.transport.host_gates import (
    BUSY_PAUSE_S,
    MAX_GATES,
    THREADS_PER_HOST_AND_ACCOUNT,
    EnteredHost,
    HostGates,
)
from workers.delivery.transport.relay_gate import FAILURE_THRESHOLD, MAX_THREADS, PAUSE_S, RelayGate

__all__ = ["deliver_to"]

FIRST, SECOND = 190, 191


@pytest.fixture
def threads(deliver_to):
    """The threads of the channels, as in a worker."""
    deliver.threads.start()
    yield deliver.threads
    deliver.threads.stop()
    deliver.threads.join(30)


def send_to_only(user, number, *values):
    NotificationRule.delete().where(NotificationRule.user == user).execute()
    return [add_contact(user, number, value) for value in values]


def count_sent(channel):
    with connection():
        return Message.select().where(
            Message.channel == channel, Message.state == MessageStatus.SENT
        ).count()  # fmt: skip


def test_mail_and_alerts_go_on_while_all_other_providers_hang(world, now, deliver_to, threads, monkeypatch):
    with start_silent_server(hang) as dead, relay() as box:
        deliver_to(box.port)
        url = f"http://127.0.0.1:{dead.port}"
        for number in (FIRST, SECOND):
            add_channel(monkeypatch, number, HttpChannel(url, deadline_s=25))
            add_contact(world.alice, number, "a")
        for number in range(4):
            alert_at(world, now, f"db{number}")
        for _ in range(4):
            for channel in (FIRST, SECOND, MAIL):
                deliver.hand_over(channel)
        alert_at(world, now, "db9")
        deliver.hand_over(MAIL)
        # The providers would hang for longer.
        wait_until(lambda: len(box.mails) == 5, seconds=20)
        assert count_sent(FIRST) == count_sent(SECOND) == 0
        threads.stop()
    threads.join(30)
    # Each of four threads tried one message; all of them had stopped before another one.
    assert {row.channel: row.attempts for row in Message.select().where(Message.attempts > 0)} == {
        FIRST: 1, SECOND: 1, MAIL: 1
    }  # fmt: skip


def test_without_threads_the_caller_sends(world, now, deliver_to):
    with relay() as box:
        deliver_to(box.port)
        alert_at(world, now)
        deliver.hand_over_due()

        assert len(box.mails) == 1


def test_the_second_provider_takes_all_messages_after_one_failure_of_the_first(
    world, now, deliver_to, monkeypatch
):
    with start_inbox(503) as first, start_inbox() as second:
        runtime = add_channel(monkeypatch, FIRST, ChannelOfTwo([first.url, second.url]))
        send_to_only(world.alice, FIRST, "a")
        for number in range(5):
            alert_at(world, now, f"db{number}")
        deliver.send_due(FIRST, now)

        assert (first.requests, len(second.taken)) == (1, 4)
        deliver.send_due(FIRST, now + 6 * deliver.timedelta(seconds=1))
        assert (first.requests, len(second.taken)) == (1, 5)

    assert [(one.provider, one.outcome) for one in Attempt.select().order_by(Attempt.id)] == [
        ("p0", "retry"), *[("p1", "sent")] * 5
    ]  # fmt: skip
    assert runtime.enter().provider.name == "p1"


def test_one_thread_tries_the_first_provider_again_after_a_minute():
    moment = [0.0]
    runtime = ChannelRuntime("test", ChannelOfTwo(["http://a", "http://b"]), "")
    for name in ("p0", "p1"):
        runtime._provider_gates[name] = RelayGate(lambda: moment[0], threshold=1, pause_s=PROVIDER_PAUSE_S)
    runtime._provider_gates["p0"].record_failure()
    assert runtime.enter().provider.name == "p1"

    moment[0] = PROVIDER_PAUSE_S
    assert [runtime.enter().provider.name for _ in range(3)] == ["p0", "p1", "p1"]


def test_with_all_providers_down_one_thread_tries_each():
    moment = [0.0]
    runtime = ChannelRuntime("test", ChannelOfTwo(["http://a", "http://b"]), "")
    for name in ("p0", "p1"):
        gate = RelayGate(lambda: moment[0], threshold=1, pause_s=PROVIDER_PAUSE_S)
        runtime._provider_gates[name] = gate
        gate.record_failure()
    assert runtime.enter() is None

    moment[0] = PROVIDER_PAUSE_S
    assert [entered and entered.provider.name for entered in (runtime.enter() for _ in range(3))] == [
        "p0", "p1", None
    ]  # fmt: skip


def test_a_busy_provider_is_not_replaced():
    runtime = ChannelRuntime("test", ChannelOfTwo(["http://a", "http://b"]), "")

    entries = [runtime.enter() for _ in range(MAX_THREADS + 1)]

    assert [entered and entered.provider.name for entered in entries] == ["p0"] * MAX_THREADS + [None]
    assert not runtime.get_gate(Provider("p1", lambda: None)).is_down()


def test_a_dead_host_does_not_pause_another_one(world, now, deliver_to, monkeypatch):
    with start_inbox() as alive, start_silent_server(hang) as dead:
        url = f"http://127.0.0.1:{dead.port}/hook"
        add_channel(monkeypatch, FIRST, HostsChannel(hanging=url))
        send_to_only(world.alice, FIRST, url, f"{alive.url}/hook")
        for number in range(FAILURE_THRESHOLD + 3):
            alert_at(world, now, f"db{number}")
        deliver.send_due(FIRST, now)

        assert len(alive.taken) == FAILURE_THRESHOLD + 3
        # The server may accept the last connection after the client has left.
        wait_until(lambda: dead.taken == FAILURE_THRESHOLD)
    pending = list(Message.select().where(Message.state == MessageStatus.PENDING))
    assert len(pending) == FAILURE_THRESHOLD + 3
    # What was not tried is held as long as the gate of the host, and no attempt is counted.
    held = [row for row in pending if not row.attempts]
    assert held
    assert all(0 < (row.next_attempt_at - now).total_seconds() <= PAUSE_S for row in held)


def test_few_threads_send_to_one_host():
    gates = HostGates()
    entered = [gates.enter("a", account) for account in (1, 1, 1, 2, 2, 3)]

    assert [isinstance(each, EnteredHost) for each in entered] == [True, True, False, True, True, False]
    assert isinstance(gates.enter("b", 1), EnteredHost)


def test_a_host_that_fails_for_one_account_pauses_only_its_messages():
    gates = HostGates()
    for _ in range(3 * FAILURE_THRESHOLD):
        if isinstance(host := gates.enter("hooks.example.org", 1), EnteredHost):
            host.record_failure()
            host.leave()

    assert gates.enter("hooks.example.org", 1).is_down
    assert isinstance(gates.enter("hooks.example.org", 2), EnteredHost)


def test_a_host_that_fails_for_three_accounts_pauses_the_messages_of_all():
    gates = HostGates()
    for account in range(1, FAILURE_THRESHOLD + 1):
        host = gates.enter("hooks.example.org", account)
        host.record_failure()
        host.leave()

    assert gates.enter("hooks.example.org", 9).is_down


def test_a_busy_host_only_delays_a_message(world, now, deliver_to, monkeypatch):
    """A message that is late because of its host goes to the next contact; this one does not."""
    with start_inbox() as inbox:
        runtime = add_channel(monkeypatch, FIRST, HostsChannel())
        send_to_only(world.alice, FIRST, f"{inbox.url}/hook")
        add_contact(world.alice, SECOND, "a", delay=60)
        for number in range(3):
            alert_at(world, now, f"db{number}")
        host = runtime.channel.get_host(f"{inbox.url}/hook")
        entered = [
            runtime.hosts.enter(host, world.alice.account_id) for _ in range(THREADS_PER_HOST_AND_ACCOUNT)
        ]
        at = now + timedelta(minutes=2)
        deliver.send_due(FIRST, at)

        messages = list(Message.select().where(Message.channel == FIRST))
        assert {(row.outcome, row.attempts, row.next_attempt_at - at) for row in messages} == {
            (None, 0, timedelta(seconds=BUSY_PAUSE_S))
        }
        deliver.fail_over_late(at)
        assert Message.select().where(Message.failed_over_at.is_null(False)).count() == 0
        for gate in entered:
            gate.leave()
        deliver.send_due(FIRST, at + timedelta(seconds=BUSY_PAUSE_S))
        assert len(inbox.taken) == 3


def test_the_number_of_kept_hosts_is_limited():
    gates = HostGates()
    gates.enter("used", 1)
    for number in range(MAX_GATES):
        gates.enter(f"host{number}", 1).leave()

    assert len(gates) == MAX_GATES
    for _ in range(THREADS_PER_HOST_AND_ACCOUNT - 1):
        assert isinstance(gates.enter("used", 1), EnteredHost)
    assert not isinstance(gates.enter("used", 1), EnteredHost)


def test_an_account_with_dead_hosts_leaves_threads_to_others(world, now, deliver_to, threads, monkeypatch):
    with start_silent_server(hang) as dead, start_inbox() as alive:
        add_channel(monkeypatch, FIRST, HostsChannel(deadline_s=25)).gate.max_threads = 8
        urls = [f"http://127.0.0.{number}:{dead.port}/hook" for number in range(1, 2)]
        send_to_only(world.alice, FIRST, *urls)
        for number in range(12):
            alert_at(world, now, f"db{number}")
        contact = add_contact(world.mallory, FIRST, f"{alive.url}/hook")
        message = Message.select().get()
        Message.create(
            message_id="x", account=world.mallory.account_id, user=world.mallory, contact=contact,
            channel=FIRST, created_at=now, next_attempt_at=now, requested_by="Mallory",
            requested_address=contact.value,
        )  # fmt: skip
        assert message.account_id != world.mallory.account_id
        for _ in range(8):
            deliver.hand_over(FIRST)
        wait_until(lambda: len(alive.taken) == 1, seconds=20)
        assert alive.taken == [("/hook", "[Tocsin] Test message")]
        assert dead.taken <= THREADS_PER_HOST_AND_ACCOUNT
