"""When integrations of heartbeats expect their next ping, to rows."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from models import bulk
from models.bulk import Record
from models.prepared import Prepared, among
from models.services import Integration


def expect_pings(expected: Mapping[int, datetime]) -> None:
    """A ping came to each of these, after which the next must have come at this moment. Later pings that are
    known, and later moments, stand. All who write them hold the lock of the service."""
    if expected:
        rows = _EXPECTING.rows(integrations=list(expected))
        heard = [_heard(*row, at=expected[row[0]]) for row in rows]
        bulk.update(Integration, [record for record in heard if record is not None])


_EXPECTING = Prepared(
    lambda: Integration.select(
        Integration.id,
        Integration.heartbeat_every,
        Integration.heartbeat_grace,
        Integration.expected_at,
        Integration.heard_at,
    ).where(among(Integration.id, "integrations"), Integration.heartbeat_every > 0)
)


def _heard(
    row: int,
    every: int,
    grace: int,
    expected_at: datetime | None,
    heard_at: datetime | None,
    *,
    at: datetime,
) -> Record | None:
    came_at = at - timedelta(seconds=every + grace)
    if heard_at is not None and came_at < heard_at:
        return None
    return {
        "id": row,
        "expected_at": max(at, expected_at or at),
        "heard_at": came_at,
        "is_missing": False,
        "is_excused": False,
    }
