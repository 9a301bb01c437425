"""Limit how often an account may use an operation. The store counts, so that all processes count together.

Redis would be faster, but Tocsin must work without it: docs/decisions/0011.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from flask import has_request_context, request

from models.store.store import store
from models.tables.accounts import Account, RateLimit
from models.write.rates import lock_rate
from web.http.errors import Throttled
from web.server_interface import require_body

# Pairs: the largest number of requests, and the seconds in which this number is allowed.
Limits = Sequence[tuple[int, float]]

# How far the times of simultaneous requests may be out of order. A time further in the future was recorded
# before the clock was set back.
MAX_CLOCK_SKEW_S = 1.0


def enforce(limits: Limits, account: Account, operation: str, at: datetime) -> None:
    """Count a request of this account at this time, or raise Throttled. A refused request does not count."""
    now_s = at.timestamp()
    counted = RateLimit.select().where(RateLimit.account == account, RateLimit.operation == operation)
    # Check first without a lock, so that a client with far too many requests does not block others.
    _check_limits(limits, counted.first(), now_s)
    # A request with a large body is served once more with it.
    if has_request_context():
        require_body(request.environ)
    with store().write_transaction():
        row = lock_rate(account, operation)
        recent = _check_limits(limits, row, now_s)
        max_count = max(count for count, _ in limits)
        newest = sorted([*recent, now_s])[-max_count:]
        RateLimit.update(recent=newest, used_at=at).where(RateLimit.id == row.id).execute()


def _check_limits(limits: Limits, row: RateLimit | None, now_s: float) -> list[float]:
    recent = [moment for moment in row.recent if moment < now_s + MAX_CLOCK_SKEW_S] if row else []
    retry_after_s = compute_retry_after_s(limits, recent, now_s)
    if retry_after_s > 0:
        raise Throttled(math.ceil(retry_after_s))
    return recent


def compute_retry_after_s(limits: Limits, recent: Sequence[float], now_s: float) -> float:
    """Return the seconds until the next request is allowed; 0 or less if it is allowed now.

    `recent` are the times of the served requests, oldest first.
    """
    free_at = (recent[-count] + window_s for count, window_s in limits if len(recent) >= count)
    return max(free_at, default=now_s) - now_s
