"""What an account may not ask for too often: counted in the store, so that all processes count together.

Redis would be quicker, but it may be away: docs/decisions/0011.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from models.accounts import Account
from models.base import store
from models.rate_limits import RateLimit
from web.errors import Throttled

# How many requests in how many seconds, at most.
Limits = Sequence[tuple[int, float]]

# By how much the moments of requests that come together may be in disorder. What lies further ahead was
# counted by a clock that has been set back since.
DISORDER_S = 1.0


def keep_to(limits: Limits, account: Account, operation: str, at: datetime) -> None:
    """Count a request of this account at this moment, or raise Throttled: what is refused does not count."""
    asked_s = at.timestamp()
    counted = RateLimit.select().where(RateLimit.account == account, RateLimit.operation == operation)
    # Who asks much too often waits for no lock, and keeps nobody else waiting for one.
    _require_room(limits, counted.first(), asked_s)
    with store().writing():
        RateLimit.insert(account=account, operation=operation, recent=[]).on_conflict_ignore().execute()
        row = store().for_update(counted).get()
        recent = _require_room(limits, row, asked_s)
        most = max(count for count, _ in limits)
        kept = sorted([*recent, asked_s])[-most:]
        RateLimit.update(recent=kept).where(RateLimit.id == row.id).execute()


def _require_room(limits: Limits, row: RateLimit | None, asked_s: float) -> list[float]:
    recent = [moment for moment in row.recent if moment < asked_s + DISORDER_S] if row else []
    wait_s = wait(limits, recent, asked_s)
    if wait_s > 0:
        raise Throttled(math.ceil(wait_s))
    return recent


def wait(limits: Limits, recent: Sequence[float], asked_s: float) -> float:
    """In how many seconds there is room for one more; 0 or less when there is now.

    `recent` are the moments of those that were served, oldest first.
    """
    full = (recent[-count] + window_s for count, window_s in limits if len(recent) >= count)
    return max(full, default=asked_s) - asked_s
