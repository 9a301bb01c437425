"""Compute when to retry a message that could not be sent, and when to give up."""

from datetime import datetime, timedelta

# Short delays first, since most failures are short; longer ones later.
DELAYS_S = (5, 10, 20, 40, 60)
LAST_DELAY_S = 120

# Retries for thirty minutes are guaranteed; an outage of a mail relay often ends within the hour.
GIVE_UP_AFTER = timedelta(minutes=60)


def get_next_attempt(attempts: int, first_attempt_at: datetime, now: datetime) -> datetime | None:
    """Return when to retry after this many failed attempts; None to give up."""
    if now - first_attempt_at >= GIVE_UP_AFTER:
        return None
    delay = DELAYS_S[attempts - 1] if attempts <= len(DELAYS_S) else LAST_DELAY_S
    return now + timedelta(seconds=delay)
