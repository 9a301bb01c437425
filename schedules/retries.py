"""When a message that could not be sent is tried again, and when it is given up."""

from datetime import datetime, timedelta

# Soon at first, since most troubles are short; then calmly.
DELAYS_S = (5, 10, 20, 40, 60)
LAST_DELAY_S = 120

# Promised are thirty minutes; an outage of a mail relay is often mended within the hour.
GIVEN_UP_AFTER = timedelta(minutes=60)


def next_try(tries: int, first_tried_at: datetime, now: datetime) -> datetime | None:
    """When to try again after `tries` tries in vain; None when that is enough."""
    if now - first_tried_at >= GIVEN_UP_AFTER:
        return None
    delay = DELAYS_S[tries - 1] if tries <= len(DELAYS_S) else LAST_DELAY_S
    return now + timedelta(seconds=delay)
