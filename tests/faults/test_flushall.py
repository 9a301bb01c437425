"""Redis loses all its data: due timers fire on time (invariant 2, design, section 2)."""

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.domain.enums import TimerKind
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.accounts import ConfigVersion
from models.tables.incidents import Incident
from models.tables.teams import EscalationPolicy
from models.tables.timers import Timer
from tests.faults.lengths import length
from tests.support.faults.senders import Connection
from tests.support.polling import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

# The part of the timer's minute that has passed at the first FLUSHALL.
ALREADY = timedelta(seconds=length(40, 0))


def test_a_timer_due_in_a_minute_fires_on_time_after_a_flushall(
    launch: Callable[..., Instance],
    sink: Sink,
    flushall: Callable[[Instance], None],
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    instance = launch()
    add_second_step(minutes=1)
    connection_to = Connection(instance.credentials()["webhook_urls"]["generic"][1])
    connection_to.send({"message": "Disk full", "alert_type": "critical", "entity_id": "db1"})
    connection_to.close()
    wait_until(lambda: len(sink.mails) == 1)

    time_passes(ALREADY)
    flushall(instance)
    threading.Event().wait(chance.uniform(1, 50 - ALREADY.total_seconds()))
    flushall(instance)
    wait_until(lambda: len(sink.mails) == 2, seconds=75, every=0.1)

    timer = get_second_step()
    arrived = datetime.fromtimestamp(sink.mails[1].at, UTC)
    late, mail_late = timer.done_at - timer.due_at, arrived - timer.due_at
    report(f"timer {late.total_seconds():.2f} s late, its mail {mail_late.total_seconds():.2f} s")
    assert timedelta(0) <= late <= timedelta(seconds=2)
    assert timedelta(0) <= mail_late <= timedelta(seconds=2)


def time_passes(by: timedelta) -> None:
    """Move all stored times back."""
    with connection(), store().write_transaction():
        timer = Timer.get(Timer.done_at.is_null())
        Timer.update(due_at=timer.due_at - by).where(Timer.id == timer.id).execute()
        begun = timer.incident.run_started_at - by
        Incident.update(run_started_at=begun, creation_date=begun).execute()


def add_second_step(minutes: int) -> None:
    """Add a second step to the policy, with the person of the first."""
    with connection(), store().write_transaction():
        policy = EscalationPolicy.get()
        first: dict[str, Any] = policy.rules[0]
        policy.rules = [first, {**first, "unique_id": make_uuid(), "position": 2, "delay": minutes}]
        policy.save(only=[EscalationPolicy.rules])
        ConfigVersion.update(version=ConfigVersion.version + 1).execute()


def get_second_step() -> Timer:
    with connection():
        query = Timer.select().where(Timer.kind == TimerKind.ESCALATE, Timer.done_at.is_null(False))
        return query.order_by(Timer.due_at.desc()).get()
