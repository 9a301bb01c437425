"""Whether Redis answers, if several clients of a process report it."""

import math
from time import monotonic

import pytest

from runtime.redis import RedisStatus


@pytest.fixture
def redis_status():
    return RedisStatus()


def test_an_error_of_a_request_from_before_the_last_answer_is_no_new_outage(redis_status):
    began_at = monotonic()
    redis_status.report_down(ConnectionError(), began_at)
    redis_status.report_up(monotonic())

    redis_status.report_down(ConnectionError(), began_at)
    assert redis_status.up

    redis_status.report_down(ConnectionError(), monotonic())
    assert not redis_status.up


def test_an_answer_to_a_request_from_before_the_outage_does_not_end_it(redis_status):
    began_at = monotonic()
    redis_status.report_down(ConnectionError(), began_at)

    redis_status.report_up(math.nextafter(began_at, 0.0))
    redis_status.report_up(began_at)
    assert not redis_status.up

    redis_status.report_up(monotonic())
    assert redis_status.up
