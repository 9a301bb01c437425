"""Memory that a process has got for large bodies goes back to the system."""

import threading

from runtime import garbage
from runtime.garbage import EVERY_S, KEPT_BYTES, MIN_SURPLUS_BYTES, Surplus, keep_few_blocks, measure_memory

BLOCK = 1024
MIB = 1024 * 1024
THREADS = 4


def test_a_large_block_of_any_thread_is_given_back_when_it_is_freed():
    keep_few_blocks()
    before = measure_memory()
    freed, may_end = threading.Barrier(THREADS + 1), threading.Event()

    def use_blocks():
        # By itself, the allocator remembers the size of the first block, and keeps the next ones.
        for size in (16, 12, 12):
            assert bytearray(size * MIB)[-1] == 0
        freed.wait(20)
        may_end.wait(20)

    threads = [threading.Thread(target=use_blocks) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    freed.wait(20)
    kept = measure_memory() - before
    may_end.set()
    for thread in threads:
        thread.join()

    assert kept < 2 * THREADS * KEPT_BYTES


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
