"""Dead-man's switch: request a URL of an external service while this installation is healthy.

The external service raises an alarm if the requests stop, because an installation cannot report that all its
processes have stopped (decision 0024). The clock processes together send one request per period. The URL may
contain a token. So no log contains the URL, or the text of an error that may quote it.
"""

import threading
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import structlog

from models.processes.pause import is_paused
from models.reports.backlog import Backlog, list_live, measure_backlog
from models.store.store import STORE_ERRORS, connection, store
from models.tables.accounts import Liveness
from runtime.metrics import count_dead_mans_switch
from runtime.settings import Settings
from workers import queue

log = structlog.get_logger()

# For the whole request, including the name resolution.
TIMEOUT_S = 5.0

# With a longer delay, notifications are late (docs/operators/monitoring.md alerts on the same limits).
MAX_ALERT_DELAY = timedelta(seconds=30)
MAX_TIMER_DELAY = timedelta(seconds=30)
MAX_MESSAGE_DELAY = timedelta(seconds=300)
REQUIRED_PROCESSES = ("web", "worker")


class DeadMansSwitch:
    """Requests the URL, and logs each change of the outcome once, with the reason."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last_report: str | None = None
        self._sending: threading.Thread | None = None

    def ping(self) -> None:
        """Request the URL if this installation is healthy. Raise no error of the network or the database."""
        issues = find_problems()
        outcome, why = ("withheld", ", ".join(issues)) if issues else self._send()
        count_dead_mans_switch(outcome)
        self._report(outcome, why)

    def _report(self, outcome: str, why: str) -> None:
        if (now := f"{outcome}: {why}") == self._last_report:
            return
        self._last_report = now
        if outcome == "sent":
            log.info("dead-man's switch requested")
        else:
            log.warning(
                "the request to the dead-man's switch was not sent or failed", outcome=outcome, why=why
            )

    def _send(self) -> tuple[str, str]:
        """Request the URL in a thread and return outcome and reason after at most TIMEOUT_S seconds.

        The thread is needed because a name resolution, which has no timeout, may take half a minute.
        """
        if self._sending is not None and self._sending.is_alive():
            return "failed", "the previous request is still running"
        results: list[str] = []
        self._sending = threading.Thread(
            target=lambda: results.append(_request(self._url)), name="dead man's switch", daemon=True
        )
        self._sending.start()
        self._sending.join(TIMEOUT_S)
        why = results[0] if results else "no answer in time"
        return ("failed", why) if why else ("sent", "")


def _request(url: str) -> str:
    """Send a GET request and return its error; empty for a 2xx. Redirects are not followed."""
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


# --- health ------------------------------------------------------------------------------------------


def find_problems() -> list[str]:
    """Return the problems of this installation in fixed texts; empty if it is healthy."""
    try:
        with connection():
            now = store().now()
            _test_write(now)
            if is_paused():
                return ["this restored copy is paused"]
            live_kinds = {liveness.kind for liveness in list_live(now)}
            found = list(_find_backlogs(measure_backlog(now), now)) + list(
                _find_missing_processes(live_kinds)
            )
    except STORE_ERRORS:
        return ["the database cannot be used"]
    return found if queue.is_reachable() else [*found, "Redis does not answer"]


def _test_write(now: datetime) -> None:
    """Write a row, as an accepted alert would: a database that is read-only is not healthy."""
    with store().write_transaction():
        query: Any = Liveness.insert(process="dead_mans_switch", at=now, detail={})
        query.on_conflict(conflict_target=[Liveness.process], update={Liveness.at: now}).execute()


def _find_backlogs(backlog: Backlog, now: datetime) -> Iterator[str]:
    messages = [late.since for late in backlog.messages.values() if late.since is not None]
    backlogs = (
        ("alerts are late", backlog.oldest, MAX_ALERT_DELAY),
        ("timers are late", backlog.timers.since, MAX_TIMER_DELAY),
        ("messages are late", min(messages, default=None), MAX_MESSAGE_DELAY),
    )
    for what, since, limit in backlogs:
        if since is not None and now - since > limit:
            yield what
    if any(backlog_of_channel.failed for backlog_of_channel in backlog.messages.values()):
        yield "messages cannot be sent"


def _find_missing_processes(live_kinds: Collection[str]) -> Iterator[str]:
    for kind in REQUIRED_PROCESSES:
        if kind not in live_kinds:
            yield f"no {kind} process is running"


# --- for the clock process ---------------------------------------------------------------------------

_switch: DeadMansSwitch | None = None


def configure(settings: Settings) -> None:
    """Set up the dead-man's switch from the settings; called once, when a process starts."""
    global _switch
    _switch = DeadMansSwitch(settings.dead_mans_switch_url) if settings.dead_mans_switch_url else None


def ping() -> None:
    """Run the job of the clock process. It has no argument: Redis would store it, readable."""
    if _switch is not None:
        _switch.ping()
