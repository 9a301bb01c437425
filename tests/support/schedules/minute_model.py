"""A slow second implementation of contract 4.5 and decision 0013: the people on call at a moment.

The model does not compute when shifts begin. It reads the local time minute by minute and counts turns one by
one. For each day it checks whether each restriction has begun and has not ended in local time. It supports
clock changes on full minutes that set the clock back by at most four hours. All changes since February 1972
are such changes, except one in Antarctica in 1994.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
INSTANT = timedelta(microseconds=1)
MAX_SET_BACK = 4 * 60


def get_local_time(zone, moment):
    """Return the local time of a zone at a moment."""
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def get_latest_local_time(zone, moment):
    """Return the latest local time that the clock has shown so far.

    After the clock is set back, the result stays the same until the clock reaches it again. A local time has
    come if it is not later than this.
    """
    minute = moment.replace(second=0, microsecond=0)
    return max(get_local_time(zone, moment), _get_latest_before(zone, minute))


@lru_cache(maxsize=100_000)
def _get_latest_before(zone, minute):
    """Return the latest local time before a minute; clocks change between minutes, so minute ends suffice."""
    return max(get_local_time(zone, minute - ago * MINUTE - INSTANT) for ago in range(MAX_SET_BACK))


def on_call(schedule, moment):
    """Return the set of (username, ID of layer or override) on call at this moment."""
    return {(username, unique_id) for username, unique_id, _ in list_duties(schedule, moment)}


def list_duties(schedule, moment):
    """Return the same with the number of the turn, which is None for overrides."""
    overriding = {
        (override.username, override.unique_id, None)
        for override in schedule.overrides
        if override.start <= moment < override.end
    }
    if overriding:
        return overriding
    found = set()
    for layer in schedule.layers:
        turn = _get_turn(layer, schedule, moment)
        if (
            turn is not None
            and layer.usernames
            and _is_counted(layer, get_latest_local_time(schedule.time_zone, moment))
        ):
            found.add((layer.usernames[turn % len(layer.usernames)], layer.unique_id, turn))
    return found


def _get_turn(layer, schedule, moment):
    """Return how many turns of a layer are over; None before the first and after the end of the rotation."""
    if moment < layer.start or (layer.end is not None and moment >= layer.end):
        return None
    if schedule.by_local_time:
        return _count_handoffs(
            get_local_time(schedule.time_zone, layer.start),
            get_latest_local_time(schedule.time_zone, moment),
            layer,
        )
    return _count_handoffs(layer.start, moment, layer)


def _count_handoffs(start, until, layer):
    turn, following = 0, start + layer.shift_length
    while following <= until:
        turn, following = turn + 1, following + layer.shift_length
    return turn


def _is_counted(layer, time):
    """Return whether a layer's restrictions allow this local time."""
    if layer.restriction_type == 0 or not layer.restrictions:
        return True
    return any(
        _is_within(restriction, day, time)
        for restriction in layer.restrictions
        for day in _list_days(time, restriction.duration)
        if layer.restriction_type == 1 or day.isoweekday() == restriction.day
    )


def _list_days(time, duration):
    """Yield the midnights of the days on which a restriction of this duration may have begun."""
    day = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - local time
    while day + DAY + duration > time:
        yield day
        day -= DAY


def _is_within(restriction, day, time):
    opens = day + restriction.time_of_day
    return opens <= time < opens + restriction.duration


def find_first_moment(zone, time, near):
    """Search from two days before `near` for the first second at which this local time has come."""
    moment = near - 2 * DAY
    assert get_latest_local_time(zone, moment) < time
    for step in (60 * MINUTE, MINUTE, SECOND):
        while get_latest_local_time(zone, moment + step) < time:
            moment += step
    return moment + SECOND
