"""The active listener is killed: the second one takes over, no update is lost, and none acts twice."""

import os
import signal
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from models.domain.enums import IncidentStatus, NotificationStatus
from models.people import provisioning
from models.store.store import connection, store
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import MessageUpdate, Notification
from models.tables.users import NotificationRule
from tests.support.delivery.chat_servers import TelegramServer, start_telegram
from tests.support.faults.installation import Installation
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

ALICE = 4711
INCIDENTS = 6
# The life of a lease, the pause before the next try, and some time for a slow machine.
TAKEOVER_S = 8.0 + 4.0


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with start_telegram() as server:
        yield server


def test_a_killed_listener_is_replaced_and_each_press_acts_once(
    launch: Callable[..., Installation], telegram: TelegramServer, report: Callable[[str], None]
) -> None:
    instance = launch(telegram_token=telegram.token, telegram_url=telegram.url)
    _link_owner()
    second = instance.run("listener")
    alerts = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    for number in range(INCIDENTS):
        assert alerts.send({"message": f"Disk {number}", "alert_type": "critical", "entity_id": str(number)})
    alerts.close()
    wait_until(lambda: _count_sent() == INCIDENTS, seconds=60)
    telegram.wait_for("getUpdates", seconds=30)
    with connection():
        rows = [row for (row,) in Notification.select(Notification.id).order_by(Notification.id).tuples()]

    longest = 0.0
    for place, row in enumerate(rows):
        # Two presses of one button, as by an impatient person.
        telegram.press(ALICE, f"a:{row}")
        telegram.press(ALICE, f"a:{row}")
        began = monotonic()
        if place in (1, 3):
            _kill(instance.get_pid("listener"))
        if place == 2:
            _kill(second.pid)
            second.wait()
            second = instance.run("listener")
        wait_until(lambda place=place: _count_acknowledgements() > place, seconds=40)
        longest = max(longest, monotonic() - began)
    wait_until(lambda: telegram.pending == 0, seconds=40)
    wait_until(lambda: not _count_changes(), seconds=30)
    second.terminate()
    assert second.wait(20) == 0

    report(f"longest time from a press to its effect, over three kills: {longest:.1f} s")
    with connection():
        assert {each.status for each in Incident.select()} == {IncidentStatus.ACKNOWLEDGED}
    assert _count_acknowledgements() == INCIDENTS
    assert len(telegram.list_calls("editMessageText")) >= len(telegram.list_calls("sendMessage"))
    assert longest < TAKEOVER_S


def _link_owner() -> None:
    """Notify the owner only in Telegram."""
    with connection(), store().write_transaction():
        owner, now = User.get(), store().now()
        contact = provisioning.create_contact(owner, "Telegram", 101, str(ALICE), now, is_verified=True)
        NotificationRule.update(contact=contact).where(NotificationRule.user == owner).execute()


def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _count_acknowledgements() -> int:
    with connection():
        return int(IncidentLog.select().where(IncidentLog.what == "acknowledged").count())


def _count_sent() -> int:
    with connection():
        return int(Notification.select().where(Notification.state == NotificationStatus.SENT).count())


def _count_changes() -> int:
    with connection():
        return int(MessageUpdate.select().count())
