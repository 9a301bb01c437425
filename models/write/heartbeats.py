"""Write when heartbeat integrations expect their next ping."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from models.domain.effects import ExpectPing
from models.store import bulk
from models.store.bulk import Record
from models.store.prepared import Prepared, in_bound
from models.tables.services import Integration


def write_pings(effects: Iterable[ExpectPing], _: Mapping[str, int]) -> None:
    """Record a ping of each integration (row number), with the time when the next ping is overdue.

    Stored pings and times that are later stay unchanged. The caller holds the lock of the service.
    """
    expected: dict[int, datetime] = {}
    for effect in effects:
        expected[effect.integration] = max(effect.at, expected.get(effect.integration, effect.at))
    rows = _INTEGRATIONS.rows(integrations=list(expected))
    records = [_build_record(*row, at=expected[row[0]]) for row in rows]
    bulk.update(Integration, [record for record in records if record is not None])


_INTEGRATIONS = Prepared(
    lambda: Integration.select(
        Integration.id,
        Integration.heartbeat_interval,
        Integration.heartbeat_grace,
        Integration.expected_at,
        Integration.last_ping_at,
    ).where(in_bound(Integration.id, "integrations"), Integration.heartbeat_interval > 0)
)


def _build_record(
    row: int,
    interval: int,
    grace: int,
    expected_at: datetime | None,
    last_ping_at: datetime | None,
    *,
    at: datetime,
) -> Record | None:
    ping_at = at - timedelta(seconds=interval + grace)
    if last_ping_at is not None and ping_at < last_ping_at:
        return None
    return {
        "id": row,
        "expected_at": max(at, expected_at or at),
        "last_ping_at": ping_at,
        "is_missing": False,
        "is_extended": False,
    }
