"""When integrations of heartbeats expect their next ping, to rows."""

from collections.abc import Mapping
from datetime import datetime

from models import bulk
from models.prepared import Prepared, among
from models.services import Integration


def expect_pings(expected: Mapping[int, datetime]) -> None:
    """Later moments take the place of earlier ones. All who write them hold the lock of the service."""
    if expected:
        known = dict(_EXPECTED_AT.rows(integrations=list(expected)))
        later = [(row, at) for row, at in expected.items() if row in known and (known[row] or at) <= at]
        bulk.update(Integration, [{"id": row, "expected_at": at} for row, at in later])


_EXPECTED_AT = Prepared(
    lambda: Integration.select(Integration.id, Integration.expected_at).where(
        among(Integration.id, "integrations"), Integration.heartbeat_every > 0
    )
)
