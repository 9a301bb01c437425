"""Random ids are never the same, also if several threads or processes make them."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.domain.identity import is_uuid
from models.store.ids import make_trace_id


def test_threads_make_different_trace_ids():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_trace_id(), range(5_000)))

    assert len(set(made)) == len(made)
    assert all(map(is_uuid, made))


@pytest.mark.processes
def test_a_forked_process_makes_other_trace_ids_than_its_parent():
    make_trace_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, "".join(make_trace_id() for _ in range(100)).encode())
        finally:
            os._exit(0)
    mine = {make_trace_id() for _ in range(100)}
    os.waitpid(child, 0)
    text = os.read(reading, 36 * 100).decode()
    os.close(reading)
    os.close(writing)

    theirs = {text[start : start + 36] for start in range(0, len(text), 36)}
    assert len(theirs) == 100
    assert not mine & theirs
