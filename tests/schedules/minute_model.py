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
SET_BACK_AT_MOST = 4 * 60


def shown(zone, moment):
    """What the clock shows."""
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def furthest(zone, moment):
    """The latest time that the clock has shown so far: it stands still when the clock is set back, until the
    clock has caught up with it. A local time has come when it is this or later."""
    minute = moment.replace(second=0, microsecond=0)
    return max(shown(zone, moment), _furthest_before(zone, minute))


@lru_cache(maxsize=100_000)
def _furthest_before(zone, minute):
    """Clocks are changed between minutes, so that the latest time of each is shown at its very end."""
    return max(shown(zone, minute - ago * MINUTE - INSTANT) for ago in range(SET_BACK_AT_MOST))


def on_call(schedule, moment):
    """The (username, id of layer or override) of everyone who is on call at this moment, as a set."""
    return {(username, unique_id) for username, unique_id, _ in duties(schedule, moment)}


def duties(schedule, moment):
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
        turn = _turn(layer, schedule, moment)
        if turn is not None and layer.usernames and _counts(layer, furthest(schedule.time_zone, moment)):
            found.add((layer.usernames[turn % len(layer.usernames)], layer.unique_id, turn))
    return found


def _turn(layer, schedule, moment):
    """How many turns of a layer are over; None before the first and when the rotation has ended."""
    if moment < layer.start or (layer.end is not None and moment >= layer.end):
        return None
    if schedule.by_local_time:
        return _handoffs(shown(schedule.time_zone, layer.start), furthest(schedule.time_zone, moment), layer)
    return _handoffs(layer.start, moment, layer)


def _handoffs(start, until, layer):
    turn, following = 0, start + layer.shift_length
    while following <= until:
        turn, following = turn + 1, following + layer.shift_length
    return turn


def _counts(layer, time):
    """Whether a layer's restrictions let this local time through."""
    if layer.restriction_type == 0 or not layer.restrictions:
        return True
    return any(
        _holds(restriction, day, time)
        for restriction in layer.restrictions
        for day in _days_up_to(time, restriction.duration)
        if layer.restriction_type == 1 or day.isoweekday() == restriction.day
    )


def _days_up_to(time, duration):
    """Midnights of the days on which something can have begun that lasts so long and has not ended."""
    day = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - by the clock on the wall
    while day + DAY + duration > time:
        yield day
        day -= DAY


def _holds(restriction, day, time):
    opens = day + restriction.time_of_day
    return opens <= time < opens + restriction.duration


def first_moment(zone, time, around):
    """The first second by which the clock has shown this local time or a later one: walks there from two days
    before `around`."""
    moment = around - 2 * DAY
    assert furthest(zone, moment) < time
    for step in (60 * MINUTE, MINUTE, SECOND):
        while furthest(zone, moment + step) < time:
            moment += step
    return moment + SECOND
