"""Report entities whose alert was not sent again in time: their alert ended without a message.

The report is a receipt from Tocsin itself, which the lane of the service processes like any other. An alert
that was accepted before it extends the entity first. An alert that waits in the lane of a router has no
service yet: entities expire only up to the time at which the oldest of these was received.

After an outage, nothing expires until every source had time to send its alerts again.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dramatiq
import structlog

from models.domain.enums import WorkState
from models.domain.identity import derive_uuid
from models.store import bulk
from models.store.bulk import Record
from models.store.prepared import Prepared, in_bound, in_list
from models.store.store import connection, store
from models.tables.events import Entity, Receipt
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources import expired
from pipeline.stages.resent_alerts import EXPIRES_AFTER
from schedules.outages import Coverage
from workers.alerts import lane_actors
from workers.broker import broker
from workers.lane_turns import turns
from workers.periodic.outages import update_coverage

log = structlog.get_logger()

# The largest number of entities in one transaction, and so in one receipt.
BATCH_SIZE = 1_000


def enqueue_expired(now: datetime | None = None) -> None:
    """Enqueue the report of expired entities if there is one. Take no lock."""
    with connection():
        limit = _find_limit(now)
        found = _find_page(limit[1], None) if limit is not None else None
    if found is not None:
        report_entities.send()


@dramatiq.actor(broker=broker, queue_name="expired", actor_name="expired")
def report_entities() -> None:
    """Report expired entities. One thread of this process at a time does this."""
    if turns.work("expired", report_expired):
        report_entities.send()


def report_expired(now: datetime | None = None) -> int:
    """Report the entities that have expired. Return their number.

    Several processes may run this at the same time; together they report each entity once. A service that
    another worker has locked is skipped until the next pass.
    """
    limit = _find_limit(now)
    if limit is None:
        return 0
    total = 0
    page = _find_page(limit[1], None)
    while page is not None:
        # More entities of these services can have expired than those of the page.
        while (count := _report(page.services, *limit)) == BATCH_SIZE:
            total += count
        total += count
        page = _find_page(limit[1], page)
    return total


def _find_limit(now: datetime | None) -> tuple[datetime, datetime] | None:
    """Return the time, and the time until which entities have expired; None: nothing can expire.

    The coverage by web processes is recorded as long as an entity can expire. Otherwise an outage would be
    unknown afterwards.
    """
    if not Entity.select().where(Entity.expires_at.is_null(False)).exists():
        return None
    at = now or store().now()
    covered = update_coverage(at)
    return None if covered is None else (at, _limit(covered, at))


def _limit(covered: Coverage, now: datetime) -> datetime:
    """Return the time until which entities have expired, when web processes took alerts like this.

    In an outage and for some minutes afterwards, that is the start of the outage: earlier times have passed
    while the source could send its alerts again.
    """
    limit = min(covered.until, now)
    for outage in covered.outages:
        if limit < outage.ended_at + EXPIRES_AFTER:
            limit = min(limit, outage.began_at)
    return limit


@dataclass(frozen=True, slots=True)
class _Page:
    """The services of some expired entities, in the order of their expiry; `last` is the last of these."""

    services: Sequence[int]
    last: tuple[datetime, int]


def _find_page(limit: datetime, before: _Page | None) -> _Page | None:
    """Return the next BATCH_SIZE expired entities after a page; None: there are no more.

    Entities of services that cannot be reported now stay in their place, and do not hide those after them.
    """
    query = Entity.select(Entity.expires_at, Entity.id, Entity.integration).where(Entity.expires_at <= limit)
    if before is not None:
        at, row = before.last
        query = query.where(Entity.expires_at >= at, (Entity.expires_at > at) | (Entity.id > row))
    found = list(query.order_by(Entity.expires_at, Entity.id).limit(BATCH_SIZE).tuples())
    if not found:
        return None
    integrations = {integration for *_, integration in found}
    services = Integration.select(Integration.service).where(in_list(Integration.id, integrations)).distinct()
    expires_at, row, _ = found[-1]
    return _Page(sorted(service for (service,) in services.tuples()), (expires_at, row))


# The services that no other worker has locked. A lane that hangs must not delay the reports of others.
_FREE = Prepared(
    lambda: store().for_update(
        Service.select(Service.id).where(in_bound(Service.id, "services")).order_by(Service.id),
        skip_locked=True,
    )
)


def _report(services: Sequence[int], now: datetime, limit: datetime) -> int:
    """Report entities of these services under their locks, so that only one worker reports them."""
    with store().write_transaction():
        free = [row for (row,) in _FREE.rows(services=services)]
        accounts = _load_accounts(free)
        found = _load_expired(_group_by_limit(accounts, limit))
        by_integration: dict[tuple[int, int], list[tuple[int, str, datetime]]] = defaultdict(list)
        for row, name, expires_at, integration, service in found:
            by_integration[integration, service].append((row, name, expires_at))
        receipts = [
            _build_receipt(integration, service, accounts[service], entities, now)
            for (integration, service), entities in by_integration.items()
        ]
        bulk.insert(Receipt, receipts)
        bulk.update(Entity, [{"id": row, "expires_at": None} for row, *_ in found])
    if found:
        log.info("alerts were not sent again", integrations=sorted({key[0] for key in by_integration}))
    for service in sorted({key[1] for key in by_integration}):
        lane_actors.send(service)
    return len(found)


def _group_by_limit(accounts: Mapping[int, int], limit: datetime) -> Mapping[datetime, list[int]]:
    """Return these services by the time until which their entities have expired.

    A body that waits in the lane of a router may extend any entity of its account.
    """
    unrouted = _load_first_unrouted(set(accounts.values()))
    groups: dict[datetime, list[int]] = defaultdict(list)
    for service, account in accounts.items():
        groups[min(limit, unrouted.get(account, limit))].append(service)
    return groups


def _load_first_unrouted(accounts: Collection[int]) -> Mapping[int, datetime]:
    """Return when the first body was received that waits in the lane of a router, by account."""
    first = (
        Receipt.select(Receipt.id)
        .where(Receipt.router == GlobalRouter.id, Receipt.state == WorkState.PENDING)
        .order_by(Receipt.id)
        .limit(1)
    )
    heads = GlobalRouter.select(first).where(in_list(GlobalRouter.account, accounts))
    rows = [row for (row,) in heads.tuples() if row is not None]
    received = Receipt.select(Receipt.account, Receipt.received_at).where(in_list(Receipt.id, rows))
    found: dict[int, datetime] = {}
    for account, received_at in received.tuples():
        found[account] = min(received_at, found.get(account, received_at))
    return found


def _load_expired(groups: Mapping[datetime, list[int]]) -> list[tuple[int, str, datetime, int, int]]:
    """Load at most BATCH_SIZE entities of these services that have expired."""
    found: list[tuple[int, str, datetime, int, int]] = []
    for limit, services in groups.items():
        query = (
            Entity.select(
                Entity.id, Entity.entity_id, Entity.expires_at, Entity.integration, Integration.service
            )
            .join(Integration)
            .where(in_list(Integration.service, services), Entity.expires_at <= limit)
            .order_by(Entity.expires_at)
            .limit(BATCH_SIZE - len(found))
        )
        found.extend(query.tuples())
        if len(found) >= BATCH_SIZE:
            break
    return found


def _load_accounts(services: Collection[int]) -> Mapping[int, int]:
    query = Service.select(Service.id, Team.account).join(Team).where(in_list(Service.id, services))
    return dict(query.tuples())


def _build_receipt(
    integration: int,
    service: int,
    account: int,
    entities: Sequence[tuple[int, str, datetime]],
    now: datetime,
) -> Record:
    """Build the receipt of these entities. Its trace_id is derived from the first of them and the time.

    An entity can expire twice at the same time, if the same alert is replayed after the first report.
    """
    row, _, expires_at = entities[0]
    return {
        "trace_id": derive_uuid("expired", row, expires_at.isoformat(), now.isoformat()),
        "account": account,
        "integration": integration,
        "service": service,
        "source": expired.EXPIRED,
        "body": expired.build_body([name for _, name, _ in entities]),
        "alerts": len(entities),
        "received_at": now,
    }
