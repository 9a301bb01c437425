"""A mail relay that accepts connections and never answers delays only its own mail."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from bench.servers.instance import Instance
from models.store.store import connection
from models.tables.events import Event
from models.tables.notifications import Notification
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(90)]


@pytest.fixture
def silent_relay() -> Iterator[int]:
    """Start a server that never answers, and return its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening.getsockname()[1]


def test_an_alert_becomes_an_incident_at_once_while_mail_hangs(
    launch: Callable[..., Instance], silent_relay: int, report: Callable[[str], None]
) -> None:
    instance = launch(relay=silent_relay)
    connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    delays = [seconds_until_incident(connection_to, f"db{number}") for number in range(60)]
    connection_to.close()

    report(f"accepted to incident at most {max(delays) * 1000:.0f} ms")
    assert max(delays) < 1
    assert count_notifications() == 60
    assert instance.get_readiness() == 200


def seconds_until_incident(connection_to: Connection, entity: str) -> float:
    connection_to.send({"message": "Disk full", "alert_type": "critical", "entity_id": entity})
    taken = time.monotonic()
    wait_until(lambda: has_incident(entity), seconds=5)
    return time.monotonic() - taken


def has_incident(entity: str) -> bool:
    with connection():
        return Event.select().where(Event.entity_id == entity, Event.incident_created).exists()


def count_notifications() -> int:
    with connection():
        return Notification.select().count()
