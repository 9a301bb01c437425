"""A failure is remembered, with a delay that grows; the number of failures is limited."""

from datetime import timedelta

from workers.timers import backoff
from workers.timers.backoff import Failures

SECOND = timedelta(seconds=1)


def create_failures():
    return Failures[str](2 * SECOND, 10 * SECOND)


def test_the_delay_grows_to_its_maximum(now):
    failed = create_failures()

    delays = [failed.add("a", ValueError(), now).delay / SECOND for _ in range(5)]
    assert delays == [2, 4, 8, 10, 10]


def test_a_failure_with_retry_soon_gets_the_first_delay(now):
    failed = create_failures()

    delays = [failed.add("a", ValueError(), now, retry_soon=True).delay / SECOND for _ in range(3)]
    assert delays == [2, 2, 2]


def test_a_key_is_retryable_after_its_delay(now):
    failed = create_failures()
    failed.add("a", ValueError(), now)

    assert [failed.is_backing_off("a", now + seconds * SECOND) for seconds in (0, 1, 2)] == [
        True,
        True,
        False,
    ]
    assert [failed.list_retryable(now + seconds * SECOND) for seconds in (0, 1, 2)] == [[], [], ["a"]]
    assert "a" in failed
    assert failed.list_keys() == {"a"}


def test_a_failure_is_new_unless_the_error_is_the_same(now):
    failed = create_failures()
    errors = [ValueError(), ValueError(), KeyError(), KeyError(), ValueError()]

    assert [failed.add("a", error, now).is_new for error in errors] == [True, False, True, False, True]


def test_a_success_resets_the_delay(now):
    failed = create_failures()
    for _ in range(3):
        failed.add("a", ValueError(), now)
    failed.remove("a")
    failed.remove("never heard of")

    assert "a" not in failed
    assert failed.add("a", ValueError(), now).delay == 2 * SECOND


def test_the_number_of_remembered_failures_is_limited(now, monkeypatch):
    monkeypatch.setattr(backoff, "MAX_KEYS", 2)
    failed = create_failures()
    for key in "abac":
        failed.add(key, ValueError(), now)

    assert failed.list_keys() == {"b", "c"}
