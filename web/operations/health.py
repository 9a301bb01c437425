"""Report whether this installation is alive and can accept alerts, without secrets and without a token."""

import os
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, Response, current_app, jsonify

from models.domain.channels import CHANNELS, USER_EMAIL_CHANNEL
from models.processes.pause import is_paused
from models.reports import dead_letters
from models.reports.backlog import has_live
from models.reports.locked_services import list_locked_services
from models.store import bulk
from models.store.limits import Use
from models.store.store import connection, db, store
from models.tables.accounts import Account, Liveness
from models.tables.events import Receipt
from runtime.settings import find_unset, needs_listener
from workers import queue

blueprint = Blueprint("health", __name__)

# Longer than any wait for the write lock in an alert storm. A store that needs longer cannot accept alerts.
TIMEOUT_S = 2.0
# A probe writes to the disk, so requests within this time get the same answer.
CACHE_S = 1.0
# How often a probe tests an insert, and the size of its body: more than the free space of most pages.
INSERT_EVERY_S = 10.0
INSERT_BYTES = 5000
# Three times the interval of the liveness rows (design, section 3).
MAX_CLOCK_AGE = timedelta(seconds=15)


@blueprint.get("/healthz")
def healthz() -> Response:
    return jsonify({"status": "alive"})


@dataclass(frozen=True, slots=True)
class Report:
    """The health of the installation: `status` is ready, degraded, paused or unavailable.

    `locked_services`: see ProbeResult.
    """

    status: str
    parts: dict[str, str]
    channels: dict[str, str]
    dead_letters: int | None
    locked_services: tuple[str, ...] = ()


@blueprint.get("/readyz")
def readyz() -> tuple[Response, int]:
    """Answer 200 if alerts can be committed. The body shows other problems; they do not change the status."""
    found = report()
    body = {
        "status": found.status,
        **found.parts,
        "channels": found.channels,
        "dead_letters": found.dead_letters,
        "locked_services": list(found.locked_services),
    }
    return jsonify(body), 503 if found.status == "unavailable" else 200


def report() -> Report:
    """Find out whether alerts can be committed, and which other problems there are."""
    result, settings = probe.check(), current_app.config["SETTINGS"]
    channels = {
        spec.name: "not set" if find_unset(settings, spec.name) else "ok" for spec in CHANNELS.values()
    }
    parts = {
        "database": result.database,
        "broker": "ok" if queue.is_reachable() else "away",
        "clock": result.clock,
        "mail": channels[CHANNELS[USER_EMAIL_CHANNEL].name],
    }
    if needs_listener(settings):
        parts["listener"] = result.listener
    if result.locked_services:
        parts["services"] = "waiting"
    ready = result.database == "ok"
    status = "unavailable" if not ready else "ready" if set(parts.values()) == {"ok"} else "degraded"
    if ready and result.is_paused:
        status = "paused"
    return Report(status, parts, channels, result.dead_letters, result.locked_services)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The states of the database, of the clock and listener processes, and the number of dead letters.

    `is_paused`: this is a restored copy that processes and sends nothing until it is resumed.
    `locked_services`: the unique_ids of services whose work waits for the lock of a process that hangs.
    """

    database: str
    clock: str = "unknown"
    listener: str = "unknown"
    dead_letters: int | None = None
    is_paused: bool = False
    locked_services: tuple[str, ...] = ()


class Probe:
    """Commits a row, as the acceptance of an alert does, in a thread: a commit cannot be interrupted."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="probe")
        self._lock = threading.Lock()
        self._running: Future[ProbeResult] | None = None
        self._last: tuple[float, ProbeResult] | None = None

    def check(self) -> ProbeResult:
        """Return the result of a new probe, or the last one if it is recent."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > CACHE_S:
                result = self._check()
                self._last = (time.monotonic(), result)
            return self._last[1]

    def close(self) -> None:
        self._pool.shutdown()

    def _check(self) -> ProbeResult:
        if self._running is None or self._running.done():
            self._running = self._pool.submit(commit)
        if not wait([self._running], TIMEOUT_S).done:
            return ProbeResult("busy")
        try:
            return self._running.result()
        except Exception as error:  # any failure means the same: alerts cannot be committed
            current_app.logger.warning("writing to the database failed: %s", type(error).__name__)
            return ProbeResult("failed")
        finally:
            self._running = None


def commit() -> ProbeResult:
    """Write and commit a row. Also read what else there is to report."""
    with store().deadline(TIMEOUT_S + 1.0), connection(Use.RESERVED):
        with store().write_transaction():
            now = store().now()
            insert_test.run_if_due(now)
            query: Any = Liveness.insert(process="probe", at=now, detail={})
            query.on_conflict(conflict_target=[Liveness.process], update={Liveness.at: now}).execute()
        liveness = Liveness.get_or_none(Liveness.process == "clock")
        clock = "ok" if liveness is not None and now - liveness.at <= MAX_CLOCK_AGE else "degraded"
        listener = "ok" if has_live("listener", now) else "degraded"
        locked = tuple(list_locked_services(now))
        return ProbeResult("ok", clock, listener, dead_letters.count(), is_paused(), locked)


class InsertTest:
    """Inserts a receipt and rolls it back. To change a row needs no new space, so it succeeds on a full disk.

    On PostgreSQL, the space of the row is free only after a vacuum, so this does not run for each probe.
    """

    def __init__(self) -> None:
        self._succeeded_at: float | None = None

    def run_if_due(self, now: datetime) -> None:
        """Run unless it succeeded a short time ago. Needs a write transaction. Raises errors of the store."""
        if self._succeeded_at is not None and time.monotonic() - self._succeeded_at < INSERT_EVERY_S:
            return
        self._succeeded_at = None
        account = Account.select(Account.id).tuples().first()
        # Without an account, there is no integration that could get an alert.
        if account is not None:
            _insert_and_roll_back(account[0], now)
        self._succeeded_at = time.monotonic()


def _insert_and_roll_back(account: int, now: datetime) -> None:
    record = {
        "trace_id": str(uuid.uuid4()),
        "account": account,
        "source": "probe",
        "body": os.urandom(INSERT_BYTES),
        "alerts": 0,
        "received_at": now,
    }
    with db.atomic() as savepoint:
        bulk.insert(Receipt, [record])
        savepoint.rollback(begin=False)


insert_test = InsertTest()
probe = Probe()
