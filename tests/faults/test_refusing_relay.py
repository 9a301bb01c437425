"""A mail relay that refuses all recipients for some time delays messages, and loses none."""

from collections.abc import Callable

import peewee
import pytest

from bench.servers.instance import Instance
from models.domain.enums import NotificationStatus
from models.store.base import connection
from models.tables.notifications import Message, Notification
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until
from tests.support.relays import relay

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

ALERTS = 52


def test_every_message_is_sent_after_a_relay_refused_everybody(
    launch: Callable[..., Instance], report: Callable[[str], None]
) -> None:
    with relay({"RCPT": "550 5.7.1 no"}) as box:
        instance = launch(relay=box.port)
        connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
        for number in range(ALERTS):
            alert = {
                "message": f"Disk full on db{number}.",
                "alert_type": "critical",
                "entity_id": f"db{number}",
            }
            connection_to.send(alert)
        connection_to.close()
        # 20 s of refusals: the attempts after 0, 5 and 15 s.
        wait_until(lambda: count_notifications() == ALERTS and get_fewest_attempts() >= 3, seconds=60)
        box.responses.clear()
        wait_until(lambda: count_notifications(NotificationStatus.SENT) == ALERTS, seconds=60)

    report(f"{ALERTS} alerts, {len(box.mails)} mails after at least {get_fewest_attempts()} attempts")
    assert len({mail["Message-ID"] for _, mail in box.mails}) == len(box.mails)
    text = "".join(mail.get_content() for _, mail in box.mails)
    assert all(f"Disk full on db{number}." in text for number in range(ALERTS))


def get_fewest_attempts() -> int:
    with connection():
        return Message.select(peewee.fn.MIN(Message.attempts)).scalar() or 0


def count_notifications(*states: NotificationStatus) -> int:
    with connection():
        return (
            Notification.select().where(Notification.state.in_(states or tuple(NotificationStatus))).count()
        )
