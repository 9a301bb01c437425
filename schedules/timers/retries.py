"""When a message that could not be sent is tried again, and when it is given up."""

from datetime import datetime, timedelta

# Soon at first, since most troubles are short; then calmly.
DELAYS_S = (5, 10, 20, 40, 60)
LAST_DELAY_S = 120

# Promised are thirty minutes; an outage of a mail relay is often mended within the hour.
GIVE_UP_AFTER = timedelta(minutes=60)


def get_next_attempt(attempts: int, first_attempt_at: datetime, now: datetime) -> datetime | None:
    """When to try again after `tries` tries in vain; None when that is enough."""
    if now - first_attempt_at >= GIVE_UP_AFTER:
        return None
    delay = DELAYS_S[attempts - 1] if attempts <= len(DELAYS_S) else LAST_DELAY_S
    return now + timedelta(seconds=delay)
