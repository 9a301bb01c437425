"""Taking alerts: committed before the answer, many requests in one commit (law 1, design section 5).

Requests that arrive while a commit runs wait for the next one together, and one of them commits for
all. An alert that comes alone waits for nobody.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from models import bulk
from models.accounts import Account
from models.applications import HEARTBEAT
from models.base import STORE_ERRORS, connection, store
from models.enums import IntegrationType
from models.events import Receipt
from models.prepared import Prepared, among
from models.routers import GlobalRouter
from models.services import Integration, Service
from models.teams import Team
from pipeline.sources import heartbeat
from tocsin import metrics
from workers import bell


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where a key leads: an integration with what an answer shows of it, and the lane behind it; or a
    router, whose lane decides which integrations it leads to."""

    account: int
    account_identifier: str
    integration: int | None = None
    service: int | None = None
    shown: Mapping[str, object] = field(default_factory=dict)
    router: int | None = None
    takes_pings: bool = False


@dataclass(slots=True)
class Offer:
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
    entrance: Entrance | None = None
    received_at: datetime | None = None
    settled: bool = False
    error: Exception | None = None
    kept: bool = False
    # Set when it is settled, or when it is this request's turn to commit.
    called: threading.Event = field(default_factory=threading.Event)


class NotKeptError(Exception):
    """The store did not take the alert, or did not say that it did: the sender must send it again."""


# How many requests one commit carries at most.
GROUP = 500


class GroupCommit:
    """Commits offers in groups; one instance per web process.

    One request at a time leads: it commits for all that wait, calls them, and hands the lead to one
    that came meanwhile. Nobody whose alert is kept waits for a later commit.
    """

    def __init__(self) -> None:
        self._waiting: list[Offer] = []
        self._led = False
        self._lock = threading.Lock()

    def take(self, offer: Offer) -> None:
        """Return once the offer is settled. Raises NotKeptError when it is not known to be kept."""
        with self._lock:
            self._waiting.append(offer)
            leads, self._led = not self._led, True
        if not leads:
            offer.called.wait()
        if not offer.settled:
            self._lead(offer)
        if offer.error is not None:
            raise NotKeptError from offer.error

    def _lead(self, offer: Offer) -> None:
        try:
            while not offer.settled:
                self._settle_group()
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        with self._lock:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].called.set()

    def _settle_group(self) -> None:
        group: list[Offer] = []
        try:
            with connection(), store().writing():
                # Not before: who comes while the store is busy with others goes along.
                group = self._next_group()
                _keep(group)
        except Exception as error:
            if group and not isinstance(error, STORE_ERRORS):
                # One bad row must fail alone, whatever is wrong with it.
                for offer in group:
                    _keep_alone(offer)
            else:
                # Without a group, whatever it was that failed came before any row.
                group = group or self._next_group()
                _fail(group, error)
        for offer in group:
            offer.settled = True
            offer.called.set()
        _ring([offer.entrance for offer in group if offer.entrance and not offer.error])
        _count(group)

    def _next_group(self) -> list[Offer]:
        with self._lock:
            group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
        return group


def _count(group: Sequence[Offer]) -> None:
    kept: Counter[str] = Counter()
    for offer in group:
        if offer.kept and not offer.error:
            kept[offer.source] += offer.alerts
    metrics.count_accepted(kept)


def _ring(entrances: Sequence[Entrance]) -> None:
    for service in {entrance.service for entrance in entrances if entrance.service is not None}:
        bell.ring_road(service)
    for router in {entrance.router for entrance in entrances if entrance.router is not None}:
        bell.ring_router(router)


def _keep_alone(offer: Offer) -> None:
    offer.entrance, offer.kept = None, False
    try:
        _keep([offer])
    except Exception as error:
        _fail([offer], error)


def _fail(group: list[Offer], error: Exception) -> None:
    for offer in group:
        offer.error = error


def _keep(group: list[Offer]) -> None:
    """Look up the keys and insert the receipts in one transaction: a change of a key counts at once."""
    with connection(), store().writing():
        entrances = _entrances({offer.key for offer in group})
        # By the clock that due work is judged by: what follows is due so long after this moment.
        received_at = store().now()
        records = []
        for offer in group:
            entrance = entrances.get(offer.key)
            if entrance is None or offer.account_identifier not in (None, entrance.account_identifier):
                continue
            offer.entrance, offer.received_at = entrance, received_at
            offer.kept = _is_taken(offer, entrance)
            if offer.kept:
                records.append(_record(offer, entrance, received_at))
        bulk.insert(Receipt, records)


def _is_taken(offer: Offer, entrance: Entrance) -> bool:
    if entrance.takes_pings and offer.for_heartbeats:
        offer.source, offer.alerts = heartbeat.EXTENSION, 1
        return True
    return offer.for_routers if entrance.router is not None else offer.for_integrations


def _record(offer: Offer, entrance: Entrance, received_at: datetime) -> dict[str, object]:
    return {
        "trace_id": offer.trace_id,
        "account": entrance.account,
        "integration": entrance.integration,
        "service": entrance.service,
        "router": entrance.router,
        "source": offer.source,
        "body": offer.body,
        "alerts": offer.alerts,
        "received_at": received_at,
    }


def _entrances(keys: set[str]) -> dict[str, Entrance]:
    """What is open behind these keys: integrations that take alerts (contract 4.1, row 17), or routers."""
    found = {row[0]: _entrance(*row) for row in _INTEGRATIONS.rows(keys=keys)}
    others = keys - found.keys()
    return found | _routers(others) if others else found


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
            among(Integration.integration_key, "keys"),
            Integration.is_enabled,
            Integration.integration_type == IntegrationType.ALERT,
        )
    )
)


def _routers(keys: set[str]) -> dict[str, Entrance]:
    query = (
        GlobalRouter.select(GlobalRouter, Account)
        .join(Account)
        .where(GlobalRouter.integration_key.in_(keys), GlobalRouter.is_enabled)
    )
    return {
        row.integration_key: Entrance(row.account_id, row.account.account_identifier, router=row.id)
        for row in query
    }


def _entrance(
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
) -> Entrance:
    shown = {
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
    return Entrance(account, account_identifier, row, service, shown, takes_pings=application == HEARTBEAT)
