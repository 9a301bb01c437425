"""The URL outside that is pinged while this installation is well: who expects the pings hears when it is not.

Nobody inside can tell that everything has stopped (decision 0017). The clock pings, beside its ticks, once a
period however many clocks there are. The URL may carry a token: it stands in no log, nor do texts of errors,
which may quote it.
"""

import threading
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import structlog

from models.reports import backlog as kept
from models.reports.backlog import Backlog
from models.store.base import STORE_ERRORS, connection, store
from models.tables.accounts import Liveness
from runtime.metrics import count_dead_mans_switch
from runtime.settings import Settings
from workers import queue

log = structlog.get_logger()

# In all, the look-up of the name included.
TIMEOUT_S = 5.0

# What is worth an alarm (docs/operating.md): pages are late by then.
MAX_ALERT_WAIT = timedelta(seconds=30)
MAX_TIMER_WAIT = timedelta(seconds=30)
MAX_MESSAGE_WAIT = timedelta(seconds=300)
REQUIRED_PROCESSES = ("web", "worker")


class DeadMansSwitch:
    """Says once when pings begin to arrive, and once when they do not any more, and why."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last_report: str | None = None
        self._sending: threading.Thread | None = None

    def ping(self) -> None:
        """Ping, unless something is wrong here. Raises nothing that a network or a store does."""
        issues = find_problems()
        outcome, why = ("withheld", ", ".join(issues)) if issues else self._send()
        count_dead_mans_switch(outcome)
        self._report(outcome, why)

    def _report(self, outcome: str, why: str) -> None:
        if (now := f"{outcome}: {why}") == self._last_report:
            return
        self._last_report = now
        if outcome == "sent":
            log.info("the heartbeat URL is pinged")
        else:
            log.warning("the heartbeat URL is not pinged", outcome=outcome, why=why)

    def _send(self) -> tuple[str, str]:
        """In a thread of its own, which is not waited for longer: a name may take half a minute to find."""
        if self._sending is not None and self._sending.is_alive():
            return "failed", "the last one still hangs"
        results: list[str] = []
        self._sending = threading.Thread(
            target=lambda: results.append(_request(self._url)), name="dead man's switch", daemon=True
        )
        self._sending.start()
        self._sending.join(TIMEOUT_S)
        why = results[0] if results else "no answer in time"
        return ("failed", why) if why else ("sent", "")


def _request(url: str) -> str:
    """What is wrong with the answer to a GET; nothing if it is a 2xx. Where it leads is not followed."""
    url_parts = urlsplit(url)
    kind: Any = HTTPSConnection if url_parts.scheme == "https" else HTTPConnection
    client = kind(url_parts.hostname, url_parts.port, timeout=TIMEOUT_S)
    target = (url_parts.path or "/") + (f"?{url_parts.query}" if url_parts.query else "")
    try:
        client.request("GET", target, headers={"User-Agent": "Tocsin"})
        status = client.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return type(error).__name__
    finally:
        client.close()
    return "" if 200 <= status < 300 else f"answered {status}"


# --- whether all is well -----------------------------------------------------------------------------


def find_problems() -> list[str]:
    """What is wrong with this installation, in few words of ours; empty when all is well."""
    try:
        with connection():
            now = store().now()
            _test_write(now)
            living = {liveness.kind for liveness in kept.list_live(now)}
            found = list(_find_backlogs(kept.measure_backlog(now), now)) + list(
                _find_missing_processes(living)
            )
    except STORE_ERRORS:
        return ["the database cannot be used"]
    return found if queue.is_reachable() else [*found, "the broker is away"]


def _test_write(now: datetime) -> None:
    """As an alert would be: a store that can only be read is not well."""
    with store().write_transaction():
        query: Any = Liveness.insert(process="dead_mans_switch", at=now, detail={})
        query.on_conflict(conflict_target=[Liveness.process], update={Liveness.at: now}).execute()


def _find_backlogs(backlog: Backlog, now: datetime) -> Iterator[str]:
    messages = [late.since for late in backlog.messages.values() if late.since is not None]
    backlogs = (
        ("alerts wait", backlog.oldest, MAX_ALERT_WAIT),
        ("timers are late", backlog.timers.since, MAX_TIMER_WAIT),
        ("messages are late", min(messages, default=None), MAX_MESSAGE_WAIT),
    )
    for what, since, limit in backlogs:
        if since is not None and now - since > limit:
            yield what
    if any(backlog_of_channel.failed for backlog_of_channel in backlog.messages.values()):
        yield "messages cannot be sent"


def _find_missing_processes(living: Collection[str]) -> Iterator[str]:
    for kind in REQUIRED_PROCESSES:
        if kind not in living:
            yield f"no {kind} process lives"


# --- for the clock -----------------------------------------------------------------------------------

_switch: DeadMansSwitch | None = None


def configure(settings: Settings) -> None:
    """Ping what these settings name from now on; once, when a process starts."""
    global _switch
    _switch = DeadMansSwitch(settings.dead_mans_switch_url) if settings.dead_mans_switch_url else None


def ping() -> None:
    """The clock's job. A function without arguments: the schedule, which others may read, has its name."""
    if _switch is not None:
        _switch.ping()
