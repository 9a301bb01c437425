"""What an account may not ask for too often: counted in the store, so that all processes count together.

Redis would be quicker, but it may be away: docs/decisions/0011.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from models.store.base import store
from models.tables.accounts import Account
from models.tables.rate_limits import RateLimit
from web.http.errors import Throttled

# How many requests in how many seconds, at most.
Limits = Sequence[tuple[int, float]]

# By how much the moments of requests that come together may be in disorder. What lies further ahead was
# counted by a clock that has been set back since.
MAX_CLOCK_SKEW_S = 1.0


def enforce(limits: Limits, account: Account, operation: str, at: datetime) -> None:
    """Count a request of this account at this moment, or raise Throttled: what is refused does not count."""
    now_s = at.timestamp()
    counted = RateLimit.select().where(RateLimit.account == account, RateLimit.operation == operation)
    # Who asks much too often waits for no lock, and keeps nobody else waiting for one.
    _check_limits(limits, counted.first(), now_s)
    with store().write_transaction():
        RateLimit.insert(account=account, operation=operation, recent=[]).on_conflict_ignore().execute()
        row = store().for_update(counted).get()
        recent = _check_limits(limits, row, now_s)
        max_count = max(count for count, _ in limits)
        newest = sorted([*recent, now_s])[-max_count:]
        RateLimit.update(recent=newest).where(RateLimit.id == row.id).execute()


def _check_limits(limits: Limits, row: RateLimit | None, now_s: float) -> list[float]:
    recent = [moment for moment in row.recent if moment < now_s + MAX_CLOCK_SKEW_S] if row else []
    wait_s = compute_wait_s(limits, recent, now_s)
    if wait_s > 0:
        raise Throttled(math.ceil(wait_s))
    return recent


def compute_wait_s(limits: Limits, recent: Sequence[float], now_s: float) -> float:
    """In how many seconds there is room for one more; 0 or less when there is now.

    `recent` are the moments of those that were served, oldest first.
    """
    free_at = (recent[-count] + window_s for count, window_s in limits if len(recent) >= count)
    return max(free_at, default=now_s) - now_s
