"""Decide whether a source that used to send alerts regularly went silent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

# The time before the last alert that says what is usual: a week, and a day, so that a whole weekend is in it.
REGULAR_TIME = timedelta(days=8)
# A source is regular if it sent alerts on this number of days of that time.
MIN_DAYS = 3
# No shorter time without alerts is reported.
MIN_SILENCE = timedelta(days=1)
# How many times the longest usual gap a silence is.
FACTOR = 3

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence that is unusual for its source. `usual_gap`: the longest time without alerts before it."""

    last_at: datetime
    usual_gap: timedelta


def find_silence(moments: Sequence[datetime], now: datetime) -> Silence | None:
    """Return the silence of a source that sent alerts at these times, newest first; None: it is not unusual.

    A source that never sent alerts, or not regularly, is never silent. Times that are REGULAR_TIME or
    more before the last alert do not count.
    """
    if not moments:
        return None
    last = moments[0]
    earlier = [at for at in moments if last - at < REGULAR_TIME]
    days = {(last - at) // _DAY for at in earlier}
    if len(days) < MIN_DAYS:
        return None
    usual_gap = max(newer - older for newer, older in pairwise(earlier))
    return Silence(last, usual_gap) if now - last > max(MIN_SILENCE, FACTOR * usual_gap) else None
