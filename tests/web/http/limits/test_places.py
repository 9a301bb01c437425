"""Dear work holds one of few places while it computes; accounts take turns."""

import threading
from contextlib import contextmanager

import pytest

from runtime import waiting
from tests.support.polling import wait_until
from tests.support.web.places import held_elsewhere
from web.http.errors import Busy, Throttled
from web.http.limits import places as module
from web.http.limits.places import MAX_PENDING, MAX_PENDING_OF_ACCOUNT, NoPlaceError, Places, hold_place


@contextmanager
def waiting_for(places: Places, *accounts: str):
    """Let a thread for each account wait for a place, one after the other. Yield the order of their turns."""
    served, threads = [], []

    def take(account: str) -> None:
        with places.hold(account):
            served.append(account)

    for number, account in enumerate(accounts, 1):
        threads.append(threading.Thread(target=take, args=(account,)))
        threads[-1].start()
        wait_until(lambda number=number: len(places._waiting) == number)
    yield served
    for thread in threads:
        thread.join()


def test_a_free_place_is_taken_at_once():
    places = Places(2)

    with held_elsewhere(places, "a"), places.hold("b", 0.0):
        assert places._free == 0
    assert (places._free, +places._held, places._served) == (2, {}, {})


def test_without_a_free_place_a_request_waits_only_for_a_time():
    places = Places(1)

    with held_elsewhere(places, "a"), pytest.raises(NoPlaceError), places.hold("b", 0.0):
        pass
    assert (places._free, places._waiting, places._served) == (1, [], {})


def test_accounts_take_turns():
    places = Places(1)

    with held_elsewhere(places, "a"):
        stack = waiting_for(places, "a", "a", "b", "a", "c")
        served = stack.__enter__()
    stack.__exit__(None, None, None)

    assert served == ["b", "c", "a", "a", "a"]


def test_an_account_has_one_place_at_a_time():
    places = Places(2)

    with held_elsewhere(places, "a"):
        stack = waiting_for(places, "a")
        served = stack.__enter__()
        with places.hold("b", 0.0):
            pass
        assert served == []
    stack.__exit__(None, None, None)
    assert served == ["a"]


def test_no_account_takes_all_places_in_the_queue():
    places = Places(1)

    with held_elsewhere(places, "a"):
        with waiting_for(places, *["a"] * MAX_PENDING_OF_ACCOUNT):
            with pytest.raises(NoPlaceError) as error, places.hold("a"):
                pass
            assert error.value.is_own
            with pytest.raises(NoPlaceError) as error, places.hold("b", 0.0):
                pass
            assert not error.value.is_own
            assert len(places._waiting) == MAX_PENDING_OF_ACCOUNT < MAX_PENDING
            places._give_back("a")
        with places._lock:
            places._grant("a")


def test_a_thread_that_waits_has_no_place():
    places = Places(1)

    with places.hold("a"):
        resume = waiting.get_pause()()
        with held_elsewhere(places, "b"):
            pass
        resume(True)
        assert places._free == 0
    assert places._free == 1
    assert waiting.get_pause() is None


def test_a_thread_with_locks_goes_on_at_once_and_another_one_takes_its_turn(monkeypatch):
    monkeypatch.setattr(module, "RETURN_S", 0.001)
    places = Places(1)

    for may_wait in (False, True):
        with places.hold("a"):
            resume = waiting.get_pause()()
            with held_elsewhere(places, "b"):
                resume(may_wait)
                assert places._free == -1
        assert places._free == 1


def test_work_in_work_needs_no_other_place():
    places = Places(1)

    with places.hold("a"), places.hold("a", 0.0):
        assert places._free == 0
    assert places._free == 1


def test_the_refusals_say_when_to_send_again(monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.0)

    with held_elsewhere(module.places, "a", "b"):
        with pytest.raises(Busy) as busy, hold_place("c"):
            pass
        monkeypatch.setattr(module, "MAX_PENDING_OF_ACCOUNT", 0)
        with pytest.raises(Throttled) as throttled, hold_place("c"):
            pass

    assert busy.value.headers == throttled.value.headers == {"Retry-After": "1"}
