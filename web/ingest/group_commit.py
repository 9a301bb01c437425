"""Taking alerts: committed before the answer, many requests in one commit (law 1, design section 5).

Requests that arrive while a commit runs wait for the next one together, and one of them commits for
all. An alert that comes alone waits for nobody.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from models.domain.applications import HEARTBEAT
from models.domain.enums import IntegrationType
from models.store import bulk
from models.store.base import STORE_ERRORS, connection, store
from models.store.prepared import Prepared, in_bound
from models.tables.accounts import Account
from models.tables.events import Receipt
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources import heartbeat
from runtime import metrics
from workers import queue


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """Where a key leads: an integration with what an answer shows of it, and the lane behind it; or a
    router, whose lane decides which integrations it leads to."""

    account: int
    account_identifier: str
    integration: int | None = None
    service: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    router: int | None = None
    accepts_pings: bool = False


@dataclass(slots=True)
class Submission:
    """One request's alerts on their way into the store.

    After `GroupCommit.take` either `entrance` is set, or it is None and the key is unknown, disabled, or
    not of the account in the path (contract 4.1, rows 12 and 16). The receipt is committed unless the key
    leads to what does not take such a body: `entrance` says what it was. Where the address names no
    application, a body may be `for_heartbeats`: such a key has it read by its own source, not by `source`.
    """

    key: str
    account_identifier: str | None
    source: str
    body: bytes
    alerts: int
    trace_id: str
    for_integrations: bool = True
    for_routers: bool = True
    for_heartbeats: bool = False
    target: KeyTarget | None = None
    received_at: datetime | None = None
    is_done: bool = False
    error: Exception | None = None
    is_stored: bool = False
    # Set when it is settled, or when it is this request's turn to commit.
    ready: threading.Event = field(default_factory=threading.Event)


class NotStoredError(Exception):
    """The store did not take the alert, or did not say that it did: the sender must send it again."""


# How many requests one commit carries at most.
MAX_GROUP = 500


class GroupCommit:
    """Commits offers in groups; one instance per web process.

    One request at a time leads: it commits for all that wait, calls them, and hands the lead to one
    that came meanwhile. Nobody whose alert is kept waits for a later commit.
    """

    def __init__(self) -> None:
        self._pending: list[Submission] = []
        self._has_leader = False
        self._lock = threading.Lock()

    def submit(self, submission: Submission) -> None:
        """Return once the offer is settled. Raises NotKeptError when it is not known to be kept."""
        with self._lock:
            self._pending.append(submission)
            is_leader, self._has_leader = not self._has_leader, True
        if not is_leader:
            submission.ready.wait()
        if not submission.is_done:
            self._lead(submission)
        if submission.error is not None:
            raise NotStoredError from submission.error

    def _lead(self, submission: Submission) -> None:
        try:
            while not submission.is_done:
                self._commit_group()
        finally:
            self._wake_leader()

    def _wake_leader(self) -> None:
        with self._lock:
            self._has_leader = bool(self._pending)
            if self._has_leader:
                self._pending[0].ready.set()

    def _commit_group(self) -> None:
        group: list[Submission] = []
        try:
            with connection(), store().write_transaction():
                # Not before: who comes while the store is busy with others goes along.
                group = self._take_group()
                _store_group(group)
        except Exception as error:
            if group and not isinstance(error, STORE_ERRORS):
                # One bad row must fail alone, whatever is wrong with it.
                for submission in group:
                    _store_alone(submission)
            else:
                # Without a group, whatever it was that failed came before any row.
                group = group or self._take_group()
                _fail(group, error)
        for submission in group:
            submission.is_done = True
            submission.ready.set()
        _enqueue([submission.target for submission in group if submission.target and not submission.error])
        _count(group)

    def _take_group(self) -> list[Submission]:
        with self._lock:
            group, self._pending = self._pending[:MAX_GROUP], self._pending[MAX_GROUP:]
        return group


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


def _store_alone(submission: Submission) -> None:
    submission.target, submission.is_stored = None, False
    try:
        _store_group([submission])
    except Exception as error:
        _fail([submission], error)


def _fail(group: list[Submission], error: Exception) -> None:
    for submission in group:
        submission.error = error


def _store_group(group: list[Submission]) -> None:
    """Look up the keys and insert the receipts in one transaction: a change of a key counts at once."""
    with connection(), store().write_transaction():
        targets = _find_targets({submission.key for submission in group})
        # By the clock that due work is judged by: what follows is due so long after this moment.
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
    if target.accepts_pings and submission.for_heartbeats:
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
    }


def _find_targets(keys: set[str]) -> dict[str, KeyTarget]:
    """What is open behind these keys: integrations that take alerts (contract 4.1, row 17), or routers."""
    found = {row[0]: _build_target(*row) for row in _INTEGRATIONS.rows(keys=keys)}
    unmatched = keys - found.keys()
    return found | _find_routers(unmatched) if unmatched else found


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


def _build_target(
    key: str,
    row: int,
    name: str,
    creation_date: datetime,
    summary: str,
    unique_id: str,
    kind: int,
    application: str,
    service: int,
    service_id: str,
    team_id: str,
    account: int,
    account_identifier: str,
) -> KeyTarget:
    details = {
        "name": name,
        "creation_date": creation_date,
        "summary": summary,
        "unique_id": unique_id,
        "service": service_id,
        "team": team_id,
        "integration_key": key,
        "is_enabled": True,
        "integration_type": kind,
    }
    return KeyTarget(
        account, account_identifier, row, service, details, accepts_pings=application == HEARTBEAT
    )
