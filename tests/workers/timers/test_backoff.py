"""What failed rests, longer each time, and is remembered, within bounds."""

from datetime import timedelta

from workers.timers import backoff
from workers.timers.backoff import Failures

SECOND = timedelta(seconds=1)


def resting():
    return Failures[str](2 * SECOND, 10 * SECOND)


def test_the_rest_grows_to_its_longest(now):
    failed = resting()

    rests = [failed.add("a", ValueError(), now).delay / SECOND for _ in range(5)]
    assert rests == [2, 4, 8, 10, 10]


def test_what_is_to_be_tried_soon_rests_as_at_first(now):
    failed = resting()

    rests = [failed.add("a", ValueError(), now, retry_soon=True).delay / SECOND for _ in range(3)]
    assert rests == [2, 2, 2]


def test_it_is_tried_again_when_it_has_rested(now):
    failed = resting()
    failed.add("a", ValueError(), now)

    assert [failed.is_backing_off("a", now + seconds * SECOND) for seconds in (0, 1, 2)] == [
        True,
        True,
        False,
    ]
    assert [failed.list_retryable(now + seconds * SECOND) for seconds in (0, 1, 2)] == [[], [], ["a"]]
    assert "a" in failed
    assert failed.list_keys() == {"a"}


def test_an_error_is_news_until_it_is_the_same_again(now):
    failed = resting()
    errors = [ValueError(), ValueError(), KeyError(), KeyError(), ValueError()]

    assert [failed.add("a", error, now).is_new for error in errors] == [True, False, True, False, True]


def test_whoever_succeeds_begins_anew(now):
    failed = resting()
    for _ in range(3):
        failed.add("a", ValueError(), now)
    failed.remove("a")
    failed.remove("never heard of")

    assert "a" not in failed
    assert failed.add("a", ValueError(), now).delay == 2 * SECOND


def test_only_so_many_are_remembered(now, monkeypatch):
    monkeypatch.setattr(backoff, "MAX_KEYS", 2)
    failed = resting()
    for key in "abac":
        failed.add(key, ValueError(), now)

    assert failed.list_keys() == {"b", "c"}
