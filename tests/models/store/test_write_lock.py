"""The lock of SQLite's writers: a wait has a limit, and a caller that gave up leaves nothing behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.store.write_lock import LockFile, LockTimeoutError, WriteLock
from tests.support.polling import PATIENCE_S, wait_until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "write.lock"


@pytest.fixture
def lock(path):
    return WriteLock(path)


@pytest.fixture
def other(path):
    """Return the file of another process."""
    return LockFile(path)


def count_lock_threads():
    return sum(thread.name == "write lock" for thread in threading.enumerate())


def test_a_free_lock_needs_no_thread(lock, other):
    file = lock.acquire(0.0)

    assert count_lock_threads() == 0
    assert not other.lock_if_free()
    file.unlock()
    assert other.lock_if_free()


def test_the_lock_is_passed_on_as_soon_as_it_is_free(lock, other):
    other.lock()
    with ThreadPoolExecutor(1) as pool:
        acquired = pool.submit(lock.acquire, 30.0)
        wait_until(lambda: count_lock_threads() == 1)
        other.unlock()
        acquired.result(timeout=PATIENCE_S).unlock()

    assert other.lock_if_free()


def test_a_caller_that_gave_up_does_not_get_the_lock(lock, other):
    other.lock()
    with pytest.raises(LockTimeoutError):
        lock.acquire(0.01)
    other.unlock()

    wait_until(lambda: count_lock_threads() == 0)
    assert other.lock_if_free()


def test_callers_that_gave_up_leave_one_thread_for_all(lock, other):
    other.lock()
    for _ in range(20):
        with pytest.raises(LockTimeoutError):
            lock.acquire(0.001)

    assert count_lock_threads() == 1
    other.unlock()
    wait_until(lambda: count_lock_threads() == 0)


def test_a_new_caller_takes_over_the_place_of_one_that_gave_up(lock, other):
    other.lock()
    with pytest.raises(LockTimeoutError):
        lock.acquire(0.01)
    with ThreadPoolExecutor(1) as pool:
        acquired = pool.submit(lock.acquire, 30.0)
        other.unlock()
        acquired.result(timeout=PATIENCE_S).unlock()

    # If the new caller found the lock free, the thread of the first one gets it now, and releases it at once.
    wait_until(other.lock_if_free)


def test_one_thread_at_a_time_has_the_lock(lock, path):
    """Also when callers give up all the time."""
    inside, most, outcomes = [], [], []

    def work(seconds):
        for _ in range(50):
            try:
                file = lock.acquire(seconds)
            except LockTimeoutError:
                outcomes.append("gave up")
                continue
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            outcomes.append("locked")
            file.unlock()

    threads = [threading.Thread(target=work, args=(n * 0.0005,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(most) == 1
    assert len(outcomes) == 400
    wait_until(lambda: count_lock_threads() == 0)
