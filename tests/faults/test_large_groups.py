"""A body of 10,000 critical alerts: a killed worker continues it, and other services do not wait for it."""

import json
import random
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from bench.servers.sink import Sink
from models.domain.enums import WorkState
from models.store.store import connection
from models.tables.events import Event, Receipt, ReceiptProgress
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from tests.faults.lengths import length
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import is_done
from tests.support.faults.rounds import create_other_service
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

ALERTS = 10_000
KILLS = length(2, 5)


def test_kills_within_a_receipt_of_many_pieces_lose_and_repeat_no_alert(
    launch: Callable[..., Installation], sink: Sink, chance: random.Random, report: Callable[[str], None]
) -> None:
    instance = launch()
    send(instance.credentials()["webhook_urls"]["prometheus"][1], build_body(ALERTS))
    killed_at: list[int] = []
    for _ in range(KILLS):
        at_least = max(killed_at, default=0) + chance.randint(1, ALERTS // KILLS - 1_000)
        killed_at.append(wait_until(partial(get_progress, at_least), seconds=60))
        wait_until(lambda: instance.kill_one("worker", chance))
    wait_until(is_done, seconds=120, every=0.2)

    report(f"the worker was killed after {killed_at} of {ALERTS} alerts; {len(sink.mails)} mails")
    assert read_outcome() == (WorkState.DONE, list(range(ALERTS)), ALERTS, ALERTS)
    assert len({mail.message_id for mail in sink.mails}) <= 2
    assert len(sink.mails) <= 2 + KILLS


def test_an_alert_of_another_service_is_processed_before_a_large_receipt_is_done(
    launch: Callable[..., Installation], sink: Sink, report: Callable[[str], None]
) -> None:
    instance = launch()
    other = create_other_service(instance)
    send(instance.credentials()["webhook_urls"]["prometheus"][1], build_body(ALERTS))
    wait_until(lambda: get_progress(1), seconds=60)
    send(other, json.dumps({"message": "urgent", "alert_type": "critical"}).encode())
    wait_until(lambda: has_incident("urgent"), seconds=60)
    done = get_progress(1)
    wait_until(is_done, seconds=120, every=0.2)

    report(f"the other alert was processed after {done} of {ALERTS} alerts; {len(sink.mails)} mails")
    assert 0 < done < ALERTS
    urgent = [mail for mail in sink.mails if "urgent" in mail.text]
    assert len(urgent) == 1
    assert len(sink.mails) - len(urgent) <= 2


def build_body(count: int) -> bytes:
    alerts = [
        {"fingerprint": f"f{n}", "labels": {"alertname": f"Disk{n}", "severity": "critical"}}
        for n in range(count)
    ]
    return json.dumps({"alerts": alerts}).encode()


def send(url: str, body: bytes) -> None:
    split = urlsplit(url)
    conn = HTTPConnection(split.hostname or "", split.port, timeout=60)
    try:
        conn.request("POST", split.path, body, {"Content-Type": "application/json"})
        answer = conn.getresponse()
        answer.read()
    finally:
        conn.close()
    assert answer.status in (200, 201, 202)


def get_progress(at_least: int) -> int:
    """Return how many alerts of the receipt are done, or 0 if they are fewer than `at_least`."""
    with connection():
        found = ReceiptProgress.select(ReceiptProgress.alerts_done).scalar() or 0
    return found if found >= at_least else 0


def has_incident(title: str) -> bool:
    with connection():
        return Incident.select().where(Incident.title == title).exists()


def read_outcome() -> tuple[WorkState, list[int], int, int]:
    """Return the state of the receipt, the positions of its alerts, and its incidents and notifications."""
    with connection():
        positions = sorted(position for (position,) in Event.select(Event.position).tuples())
        counts = Incident.select().count(), Notification.select().count()
        return (WorkState(Receipt.get().state), positions, *counts)
