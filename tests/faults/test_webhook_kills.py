"""Workers are killed after a webhook arrived, and before they recorded it.

None is lost, and each kill repeats at most one, with the same id.
"""

from collections import Counter
from collections.abc import Callable, Iterator

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
# The messages at which the workers are killed. Their claims end 20 s later.
KILLS = (0, 1)


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

    def kill_workers() -> None:
        """Kill the worker that waits for the answer to this request."""
        server.before_answer = None
        killed.append(server.received[-1].headers["webhook-id"])
        instance.kill_each("worker")

    alerts = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    for number in range(MESSAGES):
        if number in KILLS:
            server.before_answer = kill_workers
        assert alerts.send({"message": f"Disk {number}", "alert_type": "critical", "entity_id": str(number)})
        wait_until(lambda number=number: len(_count_ids(server)) > number, seconds=30)
    alerts.close()
    wait_until(lambda: _count_sent() == MESSAGES, seconds=60)

    counts = _count_ids(server)
    report(f"{len(killed)} kills, {MESSAGES} messages, {counts.total()} requests")
    assert len(counts) == MESSAGES
    assert counts == {one: 2 if one in killed else 1 for one in counts}
    with connection():
        # The first requests of the killed workers are not recorded.
        assert Attempt.select().count() == MESSAGES


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
