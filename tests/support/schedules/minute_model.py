"""Who is on call at a moment, found slowly: a second reading of contract 4.5 and decision 0013.

Nothing is computed of when shifts begin. The clock on the wall is watched from minute to minute, turns are
counted one by one, and of each restriction it is asked for each day whether it has begun and not ended by
what the clock has shown. Knows clocks that are changed on full minutes, and set back by four hours at most,
as all have been since February 1972 but one in Antarctica, in 1994.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
INSTANT = timedelta(microseconds=1)
MAX_SET_BACK = 4 * 60


def get_local_time(zone, moment):
    """What the clock shows."""
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def get_latest_local_time(zone, moment):
    """The latest time that the clock has shown so far: it stands still when the clock is set back, until the
    clock has caught up with it. A local time has come when it is this or later."""
    minute = moment.replace(second=0, microsecond=0)
    return max(get_local_time(zone, moment), _get_latest_before(zone, minute))


@lru_cache(maxsize=100_000)
def _get_latest_before(zone, minute):
    """Clocks are changed between minutes, so that the latest time of each is shown at its very end."""
    return max(get_local_time(zone, minute - ago * MINUTE - INSTANT) for ago in range(MAX_SET_BACK))


def on_call(schedule, moment):
    """The (username, id of layer or override) of everyone who is on call at this moment, as a set."""
    return {(username, unique_id) for username, unique_id, _ in list_duties(schedule, moment)}


def list_duties(schedule, moment):
    """The same, each with the number of the turn, which is None for overrides."""
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
    """How many turns of a layer are over; None before the first and when the rotation has ended."""
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
    """Whether a layer's restrictions let this local time through."""
    if layer.restriction_type == 0 or not layer.restrictions:
        return True
    return any(
        _is_within(restriction, day, time)
        for restriction in layer.restrictions
        for day in _list_days(time, restriction.duration)
        if layer.restriction_type == 1 or day.isoweekday() == restriction.day
    )


def _list_days(time, duration):
    """Midnights of the days on which something can have begun that lasts so long and has not ended."""
    day = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - by the clock on the wall
    while day + DAY + duration > time:
        yield day
        day -= DAY


def _is_within(restriction, day, time):
    opens = day + restriction.time_of_day
    return opens <= time < opens + restriction.duration


def find_first_moment(zone, time, near):
    """The first second by which the clock has shown this local time or a later one: walks there from two days
    before `around`."""
    moment = near - 2 * DAY
    assert get_latest_local_time(zone, moment) < time
    for step in (60 * MINUTE, MINUTE, SECOND):
        while get_latest_local_time(zone, moment + step) < time:
            moment += step
    return moment + SECOND
