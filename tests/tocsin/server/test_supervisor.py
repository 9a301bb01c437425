"""`tocsin up` with killed processes, signals and other programs, as real processes."""

import json
import os
import signal
import socket

import pytest
import redis

from runtime.redis_socket import get_socket_path
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, is_running, list_descendants, start_tocsin, tocsin

ALL = {"web", "worker", "clock", "redis"}


def is_serving(up):
    return lambda: up.is_ready() and set(up.list_children()) == ALL


def test_a_killed_process_is_started_again(home):
    with start_tocsin(home, "up") as up:
        wait_until(is_serving(up))
        before = up.list_children()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)

        wait_until(lambda: is_serving(up)() and not set(up.list_children().values()) & set(before.values()))
        wait_until(lambda: up.get("/readyz")[1].get("broker") == "ok")


def test_a_killed_supervisor_leaves_nothing_running(home):
    with start_tocsin(home, "up") as up:
        wait_until(is_serving(up))
        below = list_descendants(up.process.pid)

        up.signal(signal.SIGKILL)

        assert len(below) == 4
        wait_until(lambda: not any(is_running(pid) for pid in below))

    assert "Traceback" not in up.log


def test_a_stop_is_clean_and_a_second_start_finds_its_data(home):
    credentials = home / "credentials.json"
    stored = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with start_tocsin(home, "up") as up:
            wait_until(is_serving(up))
            below = list_descendants(up.process.pid)
            assert up.signal(number) == 0
            assert not any(is_running(pid) for pid in below)
        stored.append(credentials.read_text())

    assert stored[0] == stored[1]
    assert '"level": "error"' not in up.log
    assert "Traceback" not in up.log


@pytest.fixture(scope="module")
def shared_instance(tmp_path_factory):
    """A running installation, shared by the tests that do not stop it."""
    with start_tocsin(tmp_path_factory.mktemp("one") / "home", "up") as up:
        wait_until(is_serving(up))
        wait_until(lambda: "ready" in up.out)
        yield up


def test_a_second_supervisor_on_the_same_folder_is_an_error(shared_instance):
    second = tocsin(shared_instance.home, "up", TOCSIN_PORT=str(find_free_port()))

    assert second.returncode == 1
    assert (
        second.stderr
        == f"tocsin: Tocsin already runs on {shared_instance.home} (process {shared_instance.process.pid})\n"
    )


def test_without_a_terminal_only_the_path_of_the_credentials_is_printed(shared_instance):
    stored = json.loads((shared_instance.home / "credentials.json").read_text())

    output = shared_instance.out + shared_instance.log
    assert str(shared_instance.home / "credentials.json") in output
    assert not [value for value in (stored["token"], stored["integration_key"]) if value in output]


def test_due_scans_continue_after_redis_is_emptied(shared_instance):
    client = redis.Redis(unix_socket_path=str(get_socket_path(shared_instance.home)))
    slot = wait_until(lambda: client.zscore("tocsin:clock", "tocsin-due-scan"))
    client.flushall()

    wait_until(lambda: (client.zscore("tocsin:clock", "tocsin-due-scan") or 0) >= slot + 2)
    wait_until(lambda: shared_instance.get("/readyz")[1].get("clock") == "ok")
    client.close()


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_port_in_use_is_an_error_in_one_sentence(home, command):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        refused = tocsin(home, command, TOCSIN_PORT=str(port))

    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"tocsin: cannot listen on 127.0.0.1 port {port}: Address already in use")
    assert "Traceback" not in refused.stderr


def test_web_processes_of_one_folder_share_a_port(home):
    with start_tocsin(home, "web") as first:
        wait_until(first.is_ready)
        with start_tocsin(home, "web", port=first.port) as second:
            wait_until(
                lambda: "sharing the port" in second.log and second.log.count('"event": "serving"') == 2
            )
            assert first.signal(signal.SIGTERM) == 0
            wait_until(second.is_ready)
