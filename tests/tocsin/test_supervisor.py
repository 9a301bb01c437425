"""`tocsin up` against kills, signals and neighbours, with real processes."""

import json
import os
import signal
import socket

import pytest
import redis

from tests.processes import descendants, free_port, lives, running, tocsin
from tests.waiting import until
from tocsin.embedded_redis import socket_path

ALL = {"web", "worker", "clock", "redis"}


def is_up(up):
    return lambda: up.ready() and set(up.children()) == ALL


def test_what_is_killed_is_started_again(home):
    with running(home, "up") as up:
        until(is_up(up))
        before = up.children()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)

        until(lambda: is_up(up)() and not set(up.children().values()) & set(before.values()))
        until(lambda: up.get("/readyz")[1].get("broker") == "ok")


def test_a_killed_supervisor_leaves_nothing_running(home):
    with running(home, "up") as up:
        until(is_up(up))
        below = descendants(up.process.pid)

        up.signal(signal.SIGKILL)

        assert len(below) == 4
        until(lambda: not any(lives(pid) for pid in below))


def test_a_stop_is_clean_and_a_second_start_finds_its_data(home):
    credentials = home / "credentials.json"
    kept = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with running(home, "up") as up:
            until(is_up(up))
            below = descendants(up.process.pid)
            assert up.signal(number) == 0
            assert not any(lives(pid) for pid in below)
        kept.append(credentials.read_text())

    assert kept[0] == kept[1]
    assert '"level": "error"' not in up.log
    assert "Traceback" not in up.log


@pytest.fixture(scope="module")
def one_up(tmp_path_factory):
    """One that all tests share which do it no harm."""
    with running(tmp_path_factory.mktemp("one") / "home", "up") as up:
        until(is_up(up))
        until(lambda: "ready" in up.out)
        yield up


def test_a_second_one_on_the_same_folder_says_so(one_up):
    second = tocsin(one_up.home, "up", TOCSIN_PORT=str(free_port()))

    assert second.returncode == 1
    assert second.stderr == f"tocsin: Tocsin runs already on {one_up.home} (process {one_up.process.pid})\n"


def test_where_nobody_reads_along_only_the_path_of_the_credentials_is_told(one_up):
    kept = json.loads((one_up.home / "credentials.json").read_text())

    told = one_up.out + one_up.log
    assert str(one_up.home / "credentials.json") in told
    assert not [value for value in (kept["token"], kept["integration_key"]) if value in told]


def test_ticks_go_on_within_two_seconds_when_redis_is_emptied(one_up):
    client = redis.Redis(unix_socket_path=str(socket_path(one_up.home)))
    slot = until(lambda: client.zscore("tocsin:clock", "tocsin-tick"))
    client.flushall()

    until(lambda: (client.zscore("tocsin:clock", "tocsin-tick") or 0) >= slot + 2, seconds=4)
    until(lambda: one_up.get("/readyz")[1].get("clock") == "ok")
    client.close()


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_port_in_use_is_one_clear_line(home, command):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        refused = tocsin(home, command, TOCSIN_PORT=str(port))

    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"tocsin: cannot listen on 127.0.0.1 port {port}: Address already in use")
    assert "Traceback" not in refused.stderr


def test_web_processes_of_one_folder_share_a_port(home):
    with running(home, "web") as first:
        until(first.ready)
        with running(home, "web", port=first.port) as second:
            until(lambda: "sharing the port" in second.log and second.log.count('"event": "serving"') == 2)
            assert first.signal(signal.SIGTERM) == 0
            until(second.ready)
