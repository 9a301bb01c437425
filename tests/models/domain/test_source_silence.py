"""A silence is unusual if it is much longer than the gaps before it."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.source_silence import Silence, find_silence

# A Wednesday.
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at_each(step, count, last=NOON):
    return [last - number * step for number in range(count)]


def in_office_hours(last):
    """Every hour from 8 to 18 o'clock, from Monday to Friday."""
    hours = at_each(HOUR, 14 * 24, last)
    return [at for at in hours if at.weekday() < 5 and 8 <= at.hour <= 18]


FRIDAY_EVENING = datetime(2026, 3, 6, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moments", "silent_for", "usual_gap"),
    [
        pytest.param([], 30 * DAY, None, id="it never sent an alert"),
        pytest.param([NOON], 30 * DAY, None, id="it sent one alert"),
        pytest.param(at_each(HOUR, 48), 30 * DAY, None, id="it sent alerts on two days only"),
        pytest.param([NOON, NOON - 9 * DAY, NOON - 10 * DAY], 90 * DAY, None, id="before its history"),
        pytest.param(at_each(HOUR, 72), DAY, None, id="not longer than a day"),
        pytest.param(at_each(HOUR, 72), DAY + HOUR, HOUR, id="each hour, then none for more than a day"),
        pytest.param(at_each(DAY, 7), 3 * DAY, None, id="each day, then none for three days"),
        pytest.param(at_each(DAY, 7), 3 * DAY + HOUR, DAY, id="each day, then none for longer"),
        pytest.param(
            [NOON, NOON - HOUR, NOON - 4 * DAY, NOON - 5 * DAY],
            10 * DAY,
            None,
            id="it was silent for almost four days before",
        ),
        pytest.param(in_office_hours(FRIDAY_EVENING), 65 * HOUR, None, id="a weekend after office hours"),
        pytest.param(in_office_hours(FRIDAY_EVENING), 8 * DAY, 62 * HOUR, id="a week without office hours"),
    ],
)
def test_a_silence_is_compared_with_the_longest_gap_before_it(moments, silent_for, usual_gap):
    last = moments[0] if moments else NOON

    found = find_silence(moments, last + silent_for)

    assert found == (None if usual_gap is None else Silence(last, usual_gap))
