"""Commit alerts before the answer, many requests in one commit.

Invariant 1 (design, section 2) and design, section 5. Requests that arrive while a commit runs share the next
commit: one of them commits for all. A single request does not wait.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import structlog

from models.domain.applications import accepts_pings
from models.domain.enums import IntegrationType
from models.store import bulk
from models.store.limits import Use
from models.store.prepared import Prepared, in_bound
from models.store.store import STORE_ERRORS, connection, store
from models.tables.accounts import Account
from models.tables.events import Receipt
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources import heartbeat
from runtime import metrics
from web.ingest.known_keys import KnownKeys
from workers import queue

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """The integration or router of a key.

    `details` are the fields of the integration that answers show; `service` is its lane. A router has its own
    lane, in which its rules choose the integrations.
    """

    account: int
    account_identifier: str
    integration: int | None = None
    service: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    router: int | None = None
    accepts_pings: bool = False


@dataclass(slots=True)
class Submission:
    """The alerts of one request, before and after the commit.

    After `GroupCommit.submit`, `target` is None if the key is unknown, disabled, or not of the account in the
    path (contract 4.1, rows 12 and 16). If `target` is set, the receipt is committed, unless the target does
    not accept such a body: `is_stored` shows this.

    `is_ping` may be set only if the address names no application. If the key is then that of a
    heartbeat integration and `is_ping` returns True, the body is a ping and `source` is not used.
    """

    key: str
    account_identifier: str | None
    source: str
    body: bytes
    alerts: int
    trace_id: str
    headers: Mapping[str, str] | None = None
    for_integrations: bool = True
    for_routers: bool = True
    is_ping: Callable[[], bool] = lambda: False
    target: KeyTarget | None = None
    received_at: datetime | None = None
    is_done: bool = False
    error: Exception | None = None
    is_stored: bool = False
    # The items of the body that are no alerts.
    left_out: int = 0
    # What was taken from fields of other forms, in sentences.
    assumed: Sequence[str] = ()
    # The monotonic time at which the request was complete.
    arrived_at: float = field(default_factory=time.monotonic)
    # Set when the result is known, or when this request must commit. None: no thread waits for the result.
    ready: threading.Event | None = None
    # Called when the result is known, in the thread that committed.
    on_done: Callable[["Submission"], None] | None = None


class NotStoredError(Exception):
    """The store did not confirm the commit of the alert, so the sender must send it again."""


# The largest number of requests in one commit.
MAX_GROUP = 500
# A request that is not committed so long after its arrival gets 503. A commit that was begun before may have
# succeeded: a sender that sends again then sends the alert twice.
DEADLINE_S = 10.0
# A commit after one that reached its deadline gets at least this time: a store that works needs less.
MIN_DEADLINE_S = 0.5
# Requests with less time left are committed before the others and without them, so that their short deadline
# does not end the commit of the others.
URGENT_S = 3.0
# PostgreSQL: a receipt waits for a request that deletes its integration. The others of the group must not
# wait for long.
ROW_LOCK_S = 1.0
ROW_LOCK_ALONE_S = 0.1


def get_remaining_s(arrived_at: float) -> float:
    """Return how long the work for an alert that arrived at this monotonic time may still take."""
    return max(arrived_at + DEADLINE_S - time.monotonic(), MIN_DEADLINE_S)


class GroupCommit:
    """Commits submissions in groups; one instance per web process.

    One request at a time is the leader: it commits for all pending requests and wakes them. Then a request
    that arrived meanwhile becomes the leader. No request waits for a commit after its own.
    """

    def __init__(self) -> None:
        self._pending: list[Submission] = []
        self._has_leader = False
        self._lock = threading.Lock()
        self._keys = KnownKeys(_find_account)

    def has_accepted(self, key: str, account_identifier: str | None) -> bool:
        """Return whether this process has found this key in the store before. Does not read the store."""
        return self._keys.has_accepted(key, account_identifier)

    def accepts_key(self, key: str, account_identifier: str | None, arrived_at: float) -> bool:
        """Return whether the store has this key, so that its body is worth parsing.

        `submit` looks the key up again and decides. NotStoredError if the store cannot be read in time.
        """
        if self._keys.has_accepted(key, account_identifier):
            return True
        try:
            with store().deadline(get_remaining_s(arrived_at)):
                return self._keys.accepts(key, account_identifier)
        except (*STORE_ERRORS, OSError) as error:
            raise NotStoredError from error

    def get_account(self, key: str) -> str:
        """Return what identifies the account of a key that is accepted, for its share of the work."""
        # Not remembered: this process has found very many other keys meanwhile.
        return self._keys.get_account(key) or key

    def submit(self, submission: Submission) -> None:
        """Commit a submission and return when the result is known.

        NotStoredError if the commit failed or is not confirmed.
        """
        submission.ready = threading.Event()
        if not self._add(submission):
            submission.ready.wait()
        if not submission.is_done:
            self._lead(submission)
        if submission.error is not None:
            raise NotStoredError from submission.error

    def submit_later(self, submission: Submission, on_done: Callable[[Submission], None]) -> None:
        """Commit a submission and call `on_done` when the result is known.

        No thread waits for each request: to wake it would cost as much as its part of the commit. If no
        request commits at the moment, this thread does, for all such requests until none is pending.
        """
        submission.on_done = on_done
        if self._add(submission):
            self._lead_all()

    def _add(self, submission: Submission) -> bool:
        """Add a submission to the next group, and return whether its thread is the leader."""
        with self._lock:
            self._pending.append(submission)
            is_leader, self._has_leader = not self._has_leader, True
        return is_leader

    def _lead(self, submission: Submission) -> None:
        try:
            while not submission.is_done:
                self._commit_group()
        finally:
            if not self._pass_on():
                # Nobody waits for the next group, and this request must be answered.
                threading.Thread(target=self._lead_all, name="group commit", daemon=True).start()

    def _lead_all(self) -> None:
        """Commit groups until none is pending, or until a thread that waits can commit."""
        while not self._pass_on():
            try:
                self._commit_group()
            except Exception as error:  # the group is answered; others must not remain without a leader
                log.error("a group of alerts was not enqueued", error=type(error).__name__)

    def _pass_on(self) -> bool:
        """Pass the leadership on to the next request, or to nobody. False if that request has no thread."""
        with self._lock:
            if not self._pending:
                self._has_leader = False
                return True
            ready = self._pending[0].ready
        if ready is None:
            return False
        ready.set()
        return True

    def _commit_group(self) -> None:
        with store().deadline(self._compute_deadline_s()):
            group = self._store_pending()
        for submission in group:
            submission.is_done = True
            if submission.ready is not None:
                submission.ready.set()
            if submission.on_done is not None:
                # The function refers to the submission. Without the cycle, both are freed at once.
                on_done, submission.on_done = submission.on_done, None
                _call(on_done, submission)
        self._remember_keys(group)
        _enqueue([submission.target for submission in group if submission.target and not submission.error])
        _count(group)

    def _compute_deadline_s(self) -> float:
        with self._lock:
            arrivals = [submission.arrived_at for submission in self._pending]
        return get_remaining_s(min(arrivals, default=time.monotonic()))

    def _store_pending(self) -> list[Submission]:
        """Commit the pending submissions and return them with their results."""
        group: list[Submission] = []
        try:
            with connection(Use.RESERVED), store().write_transaction(_get_lock_s(ROW_LOCK_S)):
                # Take the group only now: requests that arrived during the wait for the store join it.
                group = self._take_group()
                _store_group(group)
        except Exception as error:
            if not group:
                # The transaction failed before it wrote a row.
                group = self._take_group()
                _fail(group, error)
            elif store().is_lock_timeout(error):
                # Something locks rows of one integration; alerts of others must not fail because of it.
                _store_separately(_group_by_key(group))
            elif isinstance(error, STORE_ERRORS):
                _fail(group, error)
            else:
                # A bad row must fail alone.
                _store_separately([[submission] for submission in group])
        return group

    def _take_group(self) -> list[Submission]:
        urgent_since = time.monotonic() - DEADLINE_S + URGENT_S
        with self._lock:
            urgent = [one for one in self._pending if one.arrived_at < urgent_since]
            group = (urgent or self._pending)[:MAX_GROUP]
            # The group is mostly all of them.
            taken = set(map(id, group)) if len(group) < len(self._pending) else None
            self._pending = [one for one in self._pending if id(one) not in taken] if taken else []
        return group

    def _remember_keys(self, group: Sequence[Submission]) -> None:
        for submission in group:
            if not submission.error:
                target = submission.target
                self._keys.remember(submission.key, target.account_identifier if target else None)


def _call(on_done: Callable[[Submission], None], submission: Submission) -> None:
    try:
        on_done(submission)
    except Exception as error:  # the other requests of the group must get their answers
        log.error("an alert could not be answered", error=type(error).__name__)


def _count(group: Sequence[Submission]) -> None:
    stored: Counter[str] = Counter()
    for submission in group:
        if submission.is_stored and not submission.error:
            stored[submission.source] += submission.alerts
    metrics.count_accepted(stored)


def _enqueue(targets: Sequence[KeyTarget]) -> None:
    for service in {target.service for target in targets if target.service is not None}:
        queue.enqueue_lane(service)
    for router in {target.router for target in targets if target.router is not None}:
        queue.enqueue_router(router)


def _get_lock_s(seconds: float) -> float | None:
    # SQLite has only the lock for writers, and the deadline limits the wait for it.
    return None if store().has_single_writer else seconds


def _group_by_key(group: Sequence[Submission]) -> list[list[Submission]]:
    found: dict[str, list[Submission]] = defaultdict(list)
    for submission in group:
        found[submission.key].append(submission)
    return list(found.values())


def _store_separately(groups: Sequence[list[Submission]]) -> None:
    """Give each group its own commit. After the deadline, the others fail at once."""
    for index, group in enumerate(groups):
        for submission in group:
            submission.target, submission.is_stored = None, False
        try:
            with connection(Use.RESERVED), store().write_transaction(_get_lock_s(ROW_LOCK_ALONE_S)):
                _store_group(group)
        except Exception as error:
            if isinstance(error, STORE_ERRORS) and not store().is_lock_timeout(error):
                for remaining in groups[index:]:
                    _fail(remaining, error)
                return
            _fail(group, error)


def _fail(group: list[Submission], error: Exception) -> None:
    for submission in group:
        submission.error = error


def _store_group(group: list[Submission]) -> None:
    """Find the keys and insert the receipts in one transaction, so that a changed key counts at once."""
    with store().write_transaction():
        targets = _find_targets({submission.key for submission in group})
        # Due times count from this time, so it comes from the same clock as all due times.
        received_at = store().now()
        records = []
        for submission in group:
            target = targets.get(submission.key)
            if target is None or submission.account_identifier not in (None, target.account_identifier):
                continue
            submission.target, submission.received_at = target, received_at
            submission.is_stored = _is_accepted(submission, target)
            if submission.is_stored:
                records.append(_build_record(submission, target, received_at))
        bulk.insert(Receipt, records)


def _is_accepted(submission: Submission, target: KeyTarget) -> bool:
    if target.accepts_pings and submission.is_ping():
        submission.source, submission.alerts = heartbeat.EXTENSION, 1
        return True
    return submission.for_routers if target.router is not None else submission.for_integrations


def _build_record(submission: Submission, target: KeyTarget, received_at: datetime) -> dict[str, object]:
    return {
        "trace_id": submission.trace_id,
        "account": target.account,
        "integration": target.integration,
        "service": target.service,
        "router": target.router,
        "source": submission.source,
        "body": submission.body,
        "alerts": submission.alerts,
        "received_at": received_at,
        "headers": submission.headers,
    }


def _find_account(key: str) -> str | None:
    """Return the account identifier of a key that accepts alerts, else None."""
    with connection(Use.KEYS):
        target = _find_targets({key}).get(key)
    return target.account_identifier if target is not None else None


def _find_targets(keys: set[str]) -> dict[str, KeyTarget]:
    """Find the enabled integrations for alerts (contract 4.1, row 17) or routers with these keys."""
    found = {row[0]: _build_target(_IntegrationRow(*row)) for row in _INTEGRATIONS.rows(keys=keys)}
    unmatched = keys - found.keys()
    return found | _find_routers(unmatched) if unmatched else found


class _IntegrationRow(NamedTuple):
    """An integration of a key, as _INTEGRATIONS selects it."""

    key: str
    row: int
    name: str
    creation_date: datetime
    summary: str
    unique_id: str
    integration_type: int
    application: str
    kind: str | None
    service: int
    service_id: str
    team_id: str
    account: int
    account_identifier: str


_INTEGRATIONS = Prepared(
    lambda: (
        Integration.select(
            Integration.integration_key,
            Integration.id,
            Integration.name,
            Integration.creation_date,
            Integration.summary,
            Integration.unique_id,
            Integration.integration_type,
            Integration.application,
            Integration.kind,
            Service.id,
            Service.unique_id,
            Team.unique_id,
            Account.id,
            Account.account_identifier,
        )
        .join(Service)
        .join(Team)
        .join(Account)
        .where(
            in_bound(Integration.integration_key, "keys"),
            Integration.is_enabled,
            Integration.integration_type == IntegrationType.ALERT,
        )
    )
)


def _find_routers(keys: set[str]) -> dict[str, KeyTarget]:
    query = (
        GlobalRouter.select(GlobalRouter, Account)
        .join(Account)
        .where(GlobalRouter.integration_key.in_(keys), GlobalRouter.is_enabled)
    )
    return {
        row.integration_key: KeyTarget(row.account_id, row.account.account_identifier, router=row.id)
        for row in query
    }


def _build_target(found: _IntegrationRow) -> KeyTarget:
    details = {
        "name": found.name,
        "creation_date": found.creation_date,
        "summary": found.summary,
        "unique_id": found.unique_id,
        "service": found.service_id,
        "team": found.team_id,
        "integration_key": found.key,
        "is_enabled": True,
        "integration_type": found.integration_type,
    }
    return KeyTarget(
        found.account,
        found.account_identifier,
        found.row,
        found.service,
        details,
        accepts_pings=accepts_pings(found.application, found.kind),
    )
