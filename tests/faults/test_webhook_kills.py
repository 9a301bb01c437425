"""Workers are killed, or frozen, after a webhook arrived and before they recorded it.

None is lost. Each kill repeats at most one, with the same id, and soon; to freeze a worker repeats none.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from models.domain.enums import NotificationStatus, OtherContactType
from models.people import provisioning
from models.store.store import connection, store
from models.tables.accounts import User
from models.tables.notifications import Attempt, Notification
from models.tables.users import NotificationRule
from tests.support.delivery.webhook_server import WebhookServer, start_webhook_server
from tests.support.faults.installation import Installation
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

MESSAGES = 4
# The messages at which the workers are killed.
KILLS = (0, 1)
# A claim ends within 5 s after the death of its worker. Here, the next worker has to start first.
REPEATED_WITHIN_S = 12.0
FROZEN_FOR_S = 8.0


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with start_webhook_server() as server:
        yield server


def test_a_worker_that_is_killed_after_a_webhook_arrived_repeats_it_with_its_id(
    launch: Callable[..., Installation], server: WebhookServer, report: Callable[[str], None]
) -> None:
    instance = launch(webhook_networks="127.0.0.0/8")
    _notify_owner_at(f"{server.url}/hook")
    killed: list[str] = []
    killed_at: list[float] = []

    def kill_workers() -> None:
        """Kill the worker that waits for the answer to this request."""
        server.before_answer = None
        killed.append(server.received[-1].headers["webhook-id"])
        instance.kill_each("worker")
        killed_at.append(monotonic())

    def is_repeated() -> bool:
        return len(killed_at) == len(killed) and _count_ids(server)[killed[-1]] == 2

    took: list[float] = []
    alerts = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    for number in range(MESSAGES):
        if number in KILLS:
            server.before_answer = kill_workers
        assert alerts.send({"message": f"Disk {number}", "alert_type": "critical", "entity_id": str(number)})
        wait_until(lambda number=number: len(_count_ids(server)) > number, seconds=30)
        if number in KILLS:
            wait_until(is_repeated, seconds=60)
            took.append(monotonic() - killed_at[-1])
    alerts.close()
    wait_until(lambda: _count_sent() == MESSAGES, seconds=60)

    counts = _count_ids(server)
    report(
        f"{len(killed)} kills, {MESSAGES} messages, {counts.total()} requests,"
        f" repeated after {', '.join(f'{each:.1f} s' for each in took)}"
    )
    assert max(took) < REPEATED_WITHIN_S
    assert len(counts) == MESSAGES
    assert counts == {one: 2 if one in killed else 1 for one in counts}
    with connection():
        # The first requests of the killed workers are not recorded.
        assert Attempt.select().count() == MESSAGES


def test_a_worker_that_is_frozen_while_it_sends_leads_to_no_repeat(
    launch: Callable[..., Installation], server: WebhookServer
) -> None:
    instance = launch(webhook_networks="127.0.0.0/8")
    _notify_owner_at(f"{server.url}/hook")
    frozen = threading.Event()

    def freeze_workers() -> None:
        server.before_answer = None
        _signal(instance, signal.SIGSTOP)
        frozen.set()

    server.before_answer = freeze_workers
    alerts = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    assert alerts.send({"message": "Disk", "alert_type": "critical", "entity_id": "disk"})
    alerts.close()
    assert frozen.wait(30)
    until = monotonic() + FROZEN_FOR_S
    pids = [one.pid for one in instance.processes() if one.kind == "worker"]
    started = instance.read_output().count('"working"')
    # It looks for dead workers, and would send what they had claimed.
    awake = instance.run("worker")
    wait_until(lambda: instance.read_output().count('"working"') > started)
    wait_until(lambda: monotonic() > until)
    _signal(instance, signal.SIGCONT)
    wait_until(lambda: _count_sent() == 1, seconds=30)

    assert awake.poll() is None
    assert [one.pid for one in instance.processes() if one.kind == "worker"] == pids
    assert list(_count_ids(server).values()) == [1]
    awake.terminate()
    awake.wait(30)


def _signal(instance: Installation, number: signal.Signals) -> None:
    for one in instance.processes():
        if one.kind == "worker":
            os.kill(one.pid, number)


def _notify_owner_at(url: str) -> None:
    """Notify the owner only by webhook."""
    with connection(), store().write_transaction():
        owner, now = User.get(), store().now()
        contact = provisioning.create_contact(
            owner, "Webhook", OtherContactType.WEBHOOK, url, now, is_verified=True
        )
        NotificationRule.update(contact=contact).where(NotificationRule.user == owner).execute()


def _count_ids(server: WebhookServer) -> Counter[str]:
    with server.changed:
        return Counter(each.headers["webhook-id"] for each in server.received)


def _count_sent() -> int:
    with connection():
        return int(Notification.select().where(Notification.state == NotificationStatus.SENT).count())
