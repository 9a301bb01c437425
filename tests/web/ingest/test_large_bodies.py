"""Large bodies are parsed one after the other."""

import threading
from contextlib import ExitStack

import pytest

from tests.support.polling import wait_until
from web.ingest import large_bodies
from web.ingest.large_bodies import LARGE_BYTES, MAX_PENDING, LargeBodies, TooManyError


def test_large_bodies_take_turns_and_small_ones_pass_at_once():
    bodies, running, most, may_end = LargeBodies(), [], [], threading.Event()

    def parse():
        with bodies.take_turn(LARGE_BYTES + 1):
            running.append(1)
            most.append(len(running))
            may_end.wait(10)
            running.pop()

    threads = [threading.Thread(target=parse) for _ in range(1 + MAX_PENDING)]
    for thread in threads:
        thread.start()
    wait_until(lambda: bodies._admitted._value == 0 and running)

    with bodies.take_turn(LARGE_BYTES):
        assert len(running) == 1
    with pytest.raises(TooManyError), bodies.take_turn(LARGE_BYTES + 1):
        pass
    may_end.set()
    for thread in threads:
        thread.join()
    assert most == [1] * (1 + MAX_PENDING)
    with bodies.take_turn(LARGE_BYTES + 1):
        pass


def test_a_body_waits_for_its_turn_only_for_a_time(monkeypatch):
    monkeypatch.setattr(large_bodies, "TIMEOUT_S", 0.0)
    bodies = LargeBodies()
    with ExitStack() as first:
        first.enter_context(bodies.take_turn(LARGE_BYTES + 1))
        with pytest.raises(TooManyError), bodies.take_turn(LARGE_BYTES + 1):
            pass
    with bodies.take_turn(LARGE_BYTES + 1):
        pass
