"""Decide when to retry a message that was not sent, at which address, and when to give up."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# Short delays first, since most failures are short; longer ones later.
DELAYS_S = (5, 10, 20, 40, 60)
LAST_DELAY_S = 120
# The delay by the age of a message that is still retried because its incident is triggered.
LATER_DELAYS = (
    (timedelta(days=1), timedelta(minutes=30)),
    (timedelta(hours=1), timedelta(minutes=5)),
)

# Retries for thirty minutes are guaranteed; an outage of a mail relay often ends within the hour.
GIVE_UP_AFTER = timedelta(minutes=60)

# The longest delay that a provider can ask for (Retry-After).
MAX_RETRY_AFTER = timedelta(hours=1)

# A message of high urgency also goes to the next contact of the person after so many attempts, or so long
# after the first one. A person who sleeps must not wait for a provider that hangs.
FAIL_OVER_ATTEMPTS = 3
FAIL_OVER_AFTER = timedelta(minutes=1)

# An attempt takes at most this long (DEADLINE_S in workers/delivery/transport/channel.py). A refusal counts
# against an address only if the attempt began this much later than an attempt that another address accepted:
# a relay that refuses everybody may recover between two simultaneous attempts.
SETTLED_AFTER = timedelta(seconds=10)

# While the message to the other address is tried, this one is held. The record of the other attempt ends the
# hold; the limit counts only if that attempt is never recorded. It is longer than a claim.
HOLD = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """What is known after an attempt at `at` that did not send a message.

    - `attempts`: the number of attempts, with this one. `first_attempt_at`: the time of the first one.
    - `is_refusal`: the relay refused the address.
    - `others_accepted`: between the first refusal and this one, the relay accepted another address.
    - `is_awaited`: an incident of the message is triggered, and nobody has acknowledged it.
    - `is_test`: a test message, which somebody waits for.
    - `retry_after`: the provider asks not to be tried earlier.
    """

    at: datetime
    attempts: int
    first_attempt_at: datetime
    is_refusal: bool = False
    others_accepted: bool = False
    is_awaited: bool = False
    is_test: bool = False
    retry_after: timedelta | None = None

    @property
    def age(self) -> timedelta:
        return self.at - self.first_attempt_at


def get_next_attempt(failed: FailedAttempt) -> datetime | None:
    """Return when to retry; None to give up.

    A refusal is permanent only if the relay accepts other addresses. Otherwise the relay may refuse
    everybody, so it is retried. Retries end after an hour, but not while an incident is triggered.
    """
    if is_permanent(failed):
        return None
    if failed.age >= GIVE_UP_AFTER and not failed.is_awaited:
        return None
    return failed.at + get_delay(failed)


def is_permanent(failed: FailedAttempt) -> bool:
    """Return whether the address is the cause, so that retries are useless."""
    return failed.is_refusal and (failed.others_accepted or failed.is_test)


def needs_other_address(failed: FailedAttempt) -> bool:
    """Return whether to try the user's own e-mail address in turn with this address."""
    return failed.is_refusal or failed.age >= GIVE_UP_AFTER


def get_evidence_times(first_refused_at: datetime, at: datetime) -> tuple[datetime, datetime] | None:
    """Return the times between which an accepted message to another address shows that the relay works.

    None: the last attempt, at `at`, is too near to the first refusal.
    """
    until = at - SETTLED_AFTER
    return (first_refused_at, until) if until > first_refused_at else None


def get_delay(failed: FailedAttempt) -> timedelta:
    """Return how long to wait after this attempt: as long as the provider asks, but at most an hour."""
    return max(_get_usual_delay(failed), min(failed.retry_after or timedelta(), MAX_RETRY_AFTER))


def _get_usual_delay(failed: FailedAttempt) -> timedelta:
    for age, delay in LATER_DELAYS:
        if failed.age >= age:
            return delay
    return timedelta(
        seconds=DELAYS_S[failed.attempts - 1] if failed.attempts <= len(DELAYS_S) else LAST_DELAY_S
    )
