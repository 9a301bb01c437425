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

from models import metrics as kept
from models.accounts import Heartbeat
from models.base import STORE_ERRORS, connection, store
from models.metrics import Backlog
from tocsin.metrics import count_outside
from tocsin.settings import Settings
from workers import bell

log = structlog.get_logger()

# In all, the look-up of the name included.
PATIENCE_S = 5.0

# What is worth an alarm (docs/operating.md): pages are late by then.
ALERTS_WAIT = timedelta(seconds=30)
TIMERS_WAIT = timedelta(seconds=30)
MESSAGES_WAIT = timedelta(seconds=300)
NEEDED = ("web", "worker")


class Pinger:
    """Says once when pings begin to arrive, and once when they do not any more, and why."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._said: str | None = None
        self._sending: threading.Thread | None = None

    def ping(self) -> None:
        """Ping, unless something is wrong here. Raises nothing that a network or a store does."""
        wrong = problems()
        outcome, why = ("withheld", ", ".join(wrong)) if wrong else self._sent()
        count_outside(outcome)
        self._say(outcome, why)

    def _say(self, outcome: str, why: str) -> None:
        if (now := f"{outcome}: {why}") == self._said:
            return
        self._said = now
        if outcome == "sent":
            log.info("the heartbeat URL is pinged")
        else:
            log.warning("the heartbeat URL is not pinged", outcome=outcome, why=why)

    def _sent(self) -> tuple[str, str]:
        """In a thread of its own, which is not waited for longer: a name may take half a minute to find."""
        if self._sending is not None and self._sending.is_alive():
            return "failed", "the last one still hangs"
        answers: list[str] = []
        self._sending = threading.Thread(
            target=lambda: answers.append(_answer(self._url)), name="heartbeat URL", daemon=True
        )
        self._sending.start()
        self._sending.join(PATIENCE_S)
        why = answers[0] if answers else "no answer in time"
        return ("failed", why) if why else ("sent", "")


def _answer(url: str) -> str:
    """What is wrong with the answer to a GET; nothing if it is a 2xx. Where it leads is not followed."""
    parts = urlsplit(url)
    kind: Any = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    there = kind(parts.hostname, parts.port, timeout=PATIENCE_S)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        there.request("GET", target, headers={"User-Agent": "Tocsin"})
        status = there.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return type(error).__name__
    finally:
        there.close()
    return "" if 200 <= status < 300 else f"answered {status}"


# --- whether all is well -----------------------------------------------------------------------------


def problems() -> list[str]:
    """What is wrong with this installation, in few words of ours; empty when all is well."""
    try:
        with connection():
            now = store().now()
            _commit(now)
            living = {life.kind for life in kept.living(now)}
            found = list(_late(kept.backlog(now), now)) + list(_gone(living))
    except STORE_ERRORS:
        return ["the database cannot be used"]
    return found if bell.reachable() else [*found, "the broker is away"]


def _commit(now: datetime) -> None:
    """As an alert would be: a store that can only be read is not well."""
    with store().writing():
        query: Any = Heartbeat.insert(process="outside", at=now, detail={})
        query.on_conflict(conflict_target=[Heartbeat.process], update={Heartbeat.at: now}).execute()


def _late(backlog: Backlog, now: datetime) -> Iterator[str]:
    messages = [late.since for late in backlog.messages.values() if late.since is not None]
    waits = (
        ("alerts wait", backlog.oldest, ALERTS_WAIT),
        ("timers are late", backlog.timers.since, TIMERS_WAIT),
        ("messages are late", min(messages, default=None), MESSAGES_WAIT),
    )
    for what, since, most in waits:
        if since is not None and now - since > most:
            yield what
    if any(unsent.failed for unsent in backlog.messages.values()):
        yield "messages cannot be sent"


def _gone(living: Collection[str]) -> Iterator[str]:
    for kind in NEEDED:
        if kind not in living:
            yield f"no {kind} process lives"


# --- for the clock -----------------------------------------------------------------------------------

_pinger: Pinger | None = None


def configure(settings: Settings) -> None:
    """Ping what these settings name from now on; once, when a process starts."""
    global _pinger
    _pinger = Pinger(settings.heartbeat_url) if settings.heartbeat_url else None


def ping() -> None:
    """The clock's job. A function without arguments: the schedule, which others may read, has its name."""
    if _pinger is not None:
        _pinger.ping()
