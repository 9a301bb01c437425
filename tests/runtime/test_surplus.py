"""Memory that a process has got for large bodies goes back to the system."""

from runtime import garbage
from runtime.garbage import EVERY_S, MIN_SURPLUS_BYTES, Surplus, measure_memory

BLOCK = 1024


def test_memory_that_was_freed_is_given_back():
    surplus = Surplus()
    assert not surplus.give_back(0.0)
    before = measure_memory()
    blocks = [b"x" * BLOCK for _ in range(3 * MIN_SURPLUS_BYTES // BLOCK)]
    # Each block in use keeps the pages around it, and the last one all pages before it.
    kept = blocks[:: 64 * 4]
    kept.append(blocks[-1])
    del blocks

    assert surplus.give_back(1.0)

    assert measure_memory() - before < MIN_SURPLUS_BYTES
    assert len(kept) > 1


def test_a_process_that_has_not_grown_gives_nothing_back(monkeypatch):
    sizes = iter([100, 100 + MIN_SURPLUS_BYTES - 1, 50, 50 + MIN_SURPLUS_BYTES, 60, 70])
    monkeypatch.setattr(garbage, "measure_memory", lambda: next(sizes))
    surplus = Surplus()

    assert [surplus.give_back(float(second)) for second in range(4)] == [False, False, False, True]
    assert not surplus.give_back(3.0 + EVERY_S - 0.1)
    assert not surplus.give_back(3.0 + EVERY_S)
    assert list(sizes) == []


def test_a_process_that_needs_its_memory_tries_more_and_more_rarely(monkeypatch):
    sizes = iter([1, *[MIN_SURPLUS_BYTES * 2] * 100])
    monkeypatch.setattr(garbage, "measure_memory", lambda: next(sizes))
    surplus = Surplus()
    tries = [second for second in range(100) if surplus.give_back(float(second))]

    assert tries == [1, 21, 61]
