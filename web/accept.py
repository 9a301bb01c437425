"""Taking alerts: committed before the answer, many requests in one commit (law 1, design section 5).

Requests that arrive while a commit runs wait for the next one together, and one of them commits for
all. An alert that comes alone waits for nobody.
"""

import threading
from dataclasses import dataclass, field
from datetime import datetime

from models import bulk
from models.accounts import Account
from models.base import STORE_ERRORS, connection, store
from models.enums import IntegrationType
from models.events import Receipt
from models.services import Integration, Service
from models.teams import Team
from workers import bell


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where a key leads: the integration with what an answer shows of it, and the lane behind it."""

    account: int
    account_identifier: str
    integration: int
    service: int
    shown: dict[str, object]


@dataclass(slots=True)
class Offer:
    """One request's alerts on their way into the store.

    After `GroupCommit.take` either `entrance` is set and the receipt is committed, or it is None and
    the key is unknown, disabled, or not of the account in the path (contract 4.1, rows 12 and 16).
    """

    key: str
    account_identifier: str | None
    source: str
    body: bytes
    alerts: int
    trace_id: str
    entrance: Entrance | None = None
    received_at: datetime | None = None
    settled: bool = False
    error: Exception | None = None
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
        for service in {offer.entrance.service for offer in group if offer.entrance and not offer.error}:
            bell.ring_road(service)

    def _next_group(self) -> list[Offer]:
        with self._lock:
            group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
        return group


def _keep_alone(offer: Offer) -> None:
    offer.entrance = None
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
            records.append(_record(offer, entrance, received_at))
        bulk.insert(Receipt, records)


def _record(offer: Offer, entrance: Entrance, received_at: datetime) -> dict[str, object]:
    return {
        "trace_id": offer.trace_id,
        "account": entrance.account,
        "integration": entrance.integration,
        "service": entrance.service,
        "source": offer.source,
        "body": offer.body,
        "alerts": offer.alerts,
        "received_at": received_at,
    }


def _entrances(keys: set[str]) -> dict[str, Entrance]:
    """The enabled integrations behind these keys; outbound ones take no alerts (contract 4.1, row 17)."""
    query = (
        Integration.select(Integration, Service, Team, Account)
        .join(Service)
        .join(Team)
        .join(Account)
        .where(
            Integration.integration_key.in_(keys),
            Integration.is_enabled,
            Integration.integration_type == IntegrationType.ALERT,
        )
    )
    return {row.integration_key: _entrance(row) for row in query}


def _entrance(row: Integration) -> Entrance:
    service, account = row.service, row.service.team.account
    shown = {
        "name": row.name,
        "creation_date": row.creation_date,
        "summary": row.summary,
        "unique_id": row.unique_id,
        "service": service.unique_id,
        "team": service.team.unique_id,
        "integration_key": row.integration_key,
        "is_enabled": row.is_enabled,
        "integration_type": row.integration_type,
    }
    return Entrance(account.id, account.account_identifier, row.id, service.id, shown)
