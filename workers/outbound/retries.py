"""Decide when to retry a delivery to an outbound integration, and when to give up."""

from datetime import datetime, timedelta

# A delivery is retried for this long.
GIVE_UP_AFTER = timedelta(hours=24)
# The delay doubles from the first to the last one.
FIRST_DELAY = timedelta(seconds=5)
LAST_DELAY = timedelta(minutes=10)


def get_delay(failures: int, retry_after: timedelta | None = None) -> timedelta:
    """Return how long to wait after this number of failures: at least as long as the receiver asks.

    A receiver can ask for at most an hour.
    """
    usual = min(FIRST_DELAY * 2 ** min(failures - 1, 20), LAST_DELAY)
    return max(usual, min(retry_after or timedelta(), timedelta(hours=1)))


def is_over(created_at: datetime, at: datetime) -> bool:
    return at - created_at >= GIVE_UP_AFTER
