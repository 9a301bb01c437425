"""`tocsin health` asks the web process of its settings."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_tocsin, tocsin


def test_it_finds_the_port_in_the_settings_file(home):
    port = find_free_port()
    home.mkdir(mode=0o700)
    (home / "tocsin.toml").touch(0o600)
    (home / "tocsin.toml").write_text(f"port = {port}")

    with start_tocsin(home, "up", port=port, TOCSIN_PORT="") as up:
        wait_until(up.is_ready)
        healthy = tocsin(home, "health")
    stopped = tocsin(home, "health")

    # Without a mail relay, it is healthy with limits.
    assert (healthy.returncode, healthy.stdout) == (0, "degraded\n")
    assert (stopped.returncode, stopped.stderr.count("\n")) == (1, 1)
    assert stopped.stderr.startswith(f"tocsin: no answer of web at port {port}: ")


@pytest.fixture
def answer_as():
    """answer_as(status, body): start a server with this answer and return its port."""
    servers = []

    def start(status, body):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever).start()
        return servers[-1].server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        pytest.param(200, b'{"status": "paused"}', 0, id="a restored copy"),
        pytest.param(503, b'{"status": "unavailable"}', 1, id="no alert can be stored"),
        pytest.param(200, b"<html>", 1, id="another program"),
        pytest.param(200, b"[]", 1, id="JSON of another program"),
    ],
)
def test_the_exit_code_says_whether_alerts_are_accepted(home, answer_as, status, body, code):
    ended = tocsin(home, "health", TOCSIN_PORT=str(answer_as(status, body)))

    assert ended.returncode == code
    assert (ended.stdout + ended.stderr).count("\n") == 1


def test_a_refusal_of_the_server_is_shown(home, answer_as):
    port = answer_as(503, b'{"detail": "Tocsin has too many requests. Send it again."}')

    ended = tocsin(home, "health", TOCSIN_PORT=str(port))

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"tocsin: web at port {port} refuses: 503 Tocsin has too many requests. Send it again.\n"
    )
