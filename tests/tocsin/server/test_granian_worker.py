"""Requests reach the application complete. Bodies that are not complete occupy no threads and end in time."""

import base64
import contextlib
import hashlib
import json
import socket
import threading
import time
from email import message_from_bytes
from importlib.metadata import version

import pytest

from pipeline.sources.table import SOURCES
from runtime.settings import load
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.web.server import Server, read_answer, run_server
from tocsin.server import bodies, connection_limits, connections, granian_worker, shares
from tocsin.server.listening import BACKLOG
from tocsin.server.shares import Shares
from web.pages import refusal

__all__ = ["run_server"]

FITS = "2.8.7"
UNFINISHED = b"POST /api/events/x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_the_installed_granian_is_the_one_that_the_worker_fits():
    found = version("granian")

    if found != FITS:
        pytest.fail(
            f"granian {found} is installed, but tocsin/server/granian_worker.py fits only {FITS}:"
            " docs/decisions/0031-bodies-are-received-without-a-thread.md tells how to change the version.",
            pytrace=False,
        )


def test_the_application_gets_the_whole_request(run_server):
    server = run_server()
    headers, started = {"X-Name": "value", "Content-Type": "text/x"}, time.monotonic()
    answer = server.ask("POST", "/caf%C3%A9/?a=%20b", b"text", **headers)

    assert (answer.status, answer.text, answer.headers["X-Length"]) == (201, b"text", "4")
    (environ,) = server.seen
    expected = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/café/".encode().decode("latin-1"), "QUERY_STRING": "a=%20b",
        "CONTENT_TYPE": "text/x", "CONTENT_LENGTH": "4", "HTTP_X_NAME": "value", "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": f"127.0.0.1:{server.port}", "SERVER_PORT": str(server.port),
    }  # fmt: skip
    assert expected == {name: environ[name] for name in expected}
    assert started <= environ["tocsin.arrived_at"] <= time.monotonic()


def test_repeated_headers_are_joined(run_server):
    server = run_server()
    server.send(b"GET / HTTP/1.0\r\nAccept: a\r\nCookie: c=1\r\nAccept: b\r\nCookie: d=2\r\n\r\n")

    assert (server.seen[0]["HTTP_ACCEPT"], server.seen[0]["HTTP_COOKIE"]) == ("a,b", "c=1;d=2")


@pytest.mark.parametrize("size", [0, 1, bodies.SMALL_BYTES, bodies.SMALL_BYTES + 1, bodies.MAX_BYTES])
def test_a_body_of_any_size_arrives_complete(run_server, size):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    assert run_server().ask("POST", "/", body).text == body


def test_a_chunked_body_arrives_complete(run_server):
    server = run_server()
    status, text = server.send(CHUNKED + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")

    assert status == 201
    assert text.endswith(b"abcdefg")
    assert "CONTENT_LENGTH" not in server.seen[0]


@pytest.mark.parametrize(
    "data",
    [
        UNFINISHED,
        UNFINISHED.replace(b"100", b"100000"),
        CHUNKED + b"3\r\nabc\r\n",
        CHUNKED + b"3\r\nab",
        CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_a_broken_body_does_not_reach_the_application(run_server, data):
    server = run_server()

    assert server.send(data, break_off=True)[0] == 400
    assert server.ask("GET", "/").status == 201
    assert len(server.seen) == 1


def test_the_limit_of_bodies_is_that_of_the_largest_source():
    assert max(source.max_bytes for source in SOURCES.values()) == bodies.MAX_BYTES


def test_a_body_over_the_limit_is_left_to_the_application_unread(run_server):
    server = run_server()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {bodies.MAX_BYTES + 1}\r\n\r\n".encode()

    assert server.send(head)[0] == 201
    assert server.seen[0]["CONTENT_LENGTH"] == str(bodies.MAX_BYTES + 1)


@pytest.mark.parametrize("head", ["Content-Length: 65537", "Transfer-Encoding: chunked"])
def test_a_callback_over_its_limit_is_left_to_the_application_and_not_received(run_server, head):
    server = run_server()
    chunk = b"" if "Length" in head else b"10001\r\n" + bytes(0x10001) + b"\r\n"
    status, _ = server.send(f"POST /callbacks/x/ HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + chunk)

    assert (status, len(server.seen)) == (201, 1)


@pytest.mark.parametrize("is_large", [False, True])
def test_unfinished_bodies_occupy_no_threads_and_get_408(run_server, monkeypatch, is_large):
    """With one thread and 300 of them, everybody else is served at once."""
    server = run_server(threads=1)
    monkeypatch.setattr(bodies, "MAX_LARGE_BYTES", 1_000_000)
    with contextlib.ExitStack() as stack:
        unfinished = [stack.enter_context(server.connect()) for _ in range(300)]
        for sock in unfinished:
            sock.sendall(UNFINISHED.replace(b"100", b"100000") if is_large else UNFINISHED)

        assert server.ask("GET", "/healthz").status == 201
        assert server.ask("POST", "/api/events/x/", b"alert").text == b"alert"
        monkeypatch.setattr(bodies, "SMALL_TIMEOUT_S", 0.0)
        monkeypatch.setattr(bodies, "LARGE_TIMEOUT_S", 0.0)
        assert {read_answer(sock)[0] for sock in unfinished} == {408}
    assert len(server.seen) == 2


def test_a_sender_of_single_bytes_gets_no_more_time(run_server, monkeypatch):
    server = run_server()
    monkeypatch.setattr(bodies, "SMALL_TIMEOUT_S", 0.3)
    with server.connect() as sock:
        sock.sendall(UNFINISHED)
        sock.settimeout(0.01)
        text = b""

        def send_byte() -> bool:
            nonlocal text
            with contextlib.suppress(OSError):
                sock.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                text = text or sock.recv(1000)
            return bool(text)

        wait_until(send_byte)
    assert text.startswith(b"HTTP/1.1 408 ")
    detail = "The body of the request did not arrive in time."
    assert json.loads(text.partition(b"\r\n\r\n")[2]) == {"detail": detail}


BROWSER = b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"


@pytest.fixture
def pages(run_server):
    """Return a server with one thread for each share that refuses browsers with a page."""
    settings = load({"TOCSIN_PUBLIC_URL": "https://example.org/tocsin"})
    return run_server(threads=1, build_refusal=refusal.create_builder(settings))


def split(answer):
    """Return the status, the headers and the body of an answer."""
    head, _, body = answer[1].partition(b"\r\n\r\n")
    return answer[0], message_from_bytes(head.partition(b"\r\n")[2]), body.decode()


def test_a_browser_whose_body_is_late_gets_a_page(pages, monkeypatch):
    monkeypatch.setattr(bodies, "SMALL_TIMEOUT_S", 0.0)
    head = b"POST /join/code/ HTTP/1.1\r\nHost: x\r\n" + BROWSER + b"Content-Length: 100\r\n\r\n{"
    status, headers, text = split(pages.send(head))

    assert (status, headers["content-type"]) == (408, "text/html; charset=utf-8")
    assert "The body of the request did not arrive in time." in text
    assert '<a href="/tocsin/readyz">' in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        pytest.param(b"GET /hang HTTP/1.1\r\n" + BROWSER, "text/html; charset=utf-8", id="a browser"),
        pytest.param(b"GET /hang HTTP/1.1\r\nAccept: */*\r\n", "application/json", id="a program"),
        pytest.param(
            b"POST /api/events/hang HTTP/1.1\r\n" + BROWSER, "application/json", id="an alert of a tool"
        ),
    ],
)
def test_without_a_free_thread_only_a_browser_gets_a_page(pages, monkeypatch, head, kind):
    monkeypatch.setattr("tocsin.server.shares.MAX_DELAY_S", 0.0)
    request = head + b"Host: x\r\nConnection: close\r\n\r\n"
    with pages.connect() as first:
        first.sendall(request)
        wait_until(lambda: len(pages.seen) == 1)

        status, headers, _ = split(pages.send(request))

    assert (status, headers["content-type"], headers["retry-after"]) == (503, kind, "1")


def test_a_body_in_tiny_parts_is_refused(run_server):
    """Each part costs as much as a small body."""
    server = run_server()

    assert server.send(CHUNKED + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n")[0] == 400
    assert server.seen == []


def test_large_bodies_share_a_limited_memory_and_the_oldest_makes_room(run_server, monkeypatch):
    received, reserve = [], bodies.Bodies.reserve
    monkeypatch.setattr(
        bodies.Bodies, "reserve", lambda self, count: (received.append(count), reserve(self, count))[1]
    )
    server = run_server()
    monkeypatch.setattr(bodies, "MAX_LARGE_BYTES", 300_000)
    with server.connect() as first:
        first.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 250000\r\n\r\n" + b"x" * 249_999)
        # Otherwise the second body could come first, and the first one would get the 503.
        wait_until(lambda: sum(received) == 249_999)
        second = b"y" * 100_000
        answer = server.ask("POST", "/", second)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")

        monkeypatch.setattr(bodies, "MIN_TIME_S", 0.0)
        server.ask("POST", "/", second)
        assert read_answer(first)[0] == 408
    # All memory is free again.
    assert server.ask("POST", "/", b"y" * 290_000).status == 201
    assert server.ask("POST", "/", b"y" * 290_000).status == 201


def test_a_failing_application_is_a_500(run_server):
    server = run_server()

    assert server.ask("GET", "/fail").status == 500
    assert server.ask("GET", "/").status == 201


def test_requests_that_hang_leave_threads_for_alerts_and_health(run_server, monkeypatch):
    server = run_server(threads=2)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda path=path: statuses.append(server.ask("GET", path).status))
        for path in ["/hang"] * 5 + ["/api/events/hang"] * 5
    ]
    for thread in threads:
        thread.start()
    # One of the others and two alerts hang; the rest is pending without a thread.
    wait_until(lambda: len(server.seen) == 3)

    assert [server.ask("GET", path).status for path in ("/healthz", "/readyz")] == [201, 201]
    monkeypatch.setattr("tocsin.server.shares.MAX_DELAY_S", 0.0)
    wait_until(lambda: len(statuses) == 7)
    assert statuses == [503] * 7
    server.may_end.set()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] * 3 + [503] * 7


def test_callbacks_that_hang_leave_threads_for_other_requests(run_server):
    server = run_server(threads=64)
    threads = [threading.Thread(target=server.ask, args=("POST", "/callbacks/hang")) for _ in range(9)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(server.seen) == shares.CALLBACK_THREADS)

    for path in ("/", "/i/token", "/readyz", "/api/events/x/"):
        assert server.ask("POST", path).status == 201
    server.may_end.set()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 13


def test_alerts_are_accepted_while_all_other_requests_hang(run_server):
    server = run_server(threads=2)
    threads = [threading.Thread(target=lambda: server.ask("GET", "/hang")) for _ in range(9)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(server.seen) == 1)

    for _ in range(9):
        assert server.ask("POST", "/integration/a/generic/k/", b"alert").text == b"alert"
    server.may_end.set()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 18


def test_a_very_long_header_is_refused_without_the_application(run_server):
    server = run_server()
    with server.connect() as sock:
        with contextlib.suppress(OSError):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: " + b"a," * 180_000 + b"\r\n\r\n")
        assert read_answer(sock)[0] in (0, 431)
    assert server.seen == []


def test_more_idle_connections_than_the_limit_do_not_keep_others_out(run_server, monkeypatch):
    monkeypatch.setattr(connection_limits, "CROWDED_S", 0.1)
    server = run_server(
        connections=60, on_check=lambda active, _: connections.close_excess(server.port, 60, active) > 0
    )
    running: list[int] = []
    slow = threading.Thread(target=lambda: running.append(server.ask("GET", "/hang").status))
    slow.start()
    wait_until(lambda: len(server.seen) == 1)
    with contextlib.ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(server.connect())
        assert server.ask("POST", "/api/events/x/", b"alert").text == b"alert"
    server.may_end.set()
    slow.join()
    # The running request was the oldest connection of all.
    assert running == [201]


def test_headers_that_arrive_byte_by_byte_do_not_keep_others_out(run_server, monkeypatch):
    monkeypatch.setattr(connection_limits, "CROWDED_S", 0.1)
    server = run_server(
        connections=60, on_check=lambda active, _: connections.close_excess(server.port, 60, active) > 0
    )
    stopping = threading.Event()

    def drip(senders: list[socket.socket]) -> None:
        while not stopping.wait(0.05):
            for sender in senders:
                with contextlib.suppress(OSError):
                    sender.sendall(b"x")

    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(server.connect()) for _ in range(120)]
        for sender in senders:
            sender.sendall(b"POST /api/events/x/ HTTP/1.1\r\nX: ")
        dripping = threading.Thread(target=drip, args=(senders,))
        dripping.start()
        stack.callback(dripping.join)
        stack.callback(stopping.set)
        assert server.ask("POST", "/api/events/x/", b"alert").text == b"alert"


@pytest.mark.parametrize("length", [b"100", b"100000"], ids=["small", "large"])
def test_an_unfinished_body_gets_408_before_its_connection_is_closed_for_others(
    run_server, monkeypatch, length
):
    monkeypatch.setattr(connection_limits, "SILENCE_S", 0.1)
    monkeypatch.setattr(bodies, "SMALL_TIMEOUT_S", 60.0)

    def close_excess(active, received):
        return connections.close_excess(server.port, 60, active, received.list_unfinished) > 0

    def list_silences() -> list[float]:
        return [each.silence_s for each in connections._list_connections(server.port, (), ())]

    server = run_server(connections=60, on_check=close_excess)
    with contextlib.ExitStack() as stack:
        unfinished = [stack.enter_context(server.connect()) for _ in range(10)]
        for sock in unfinished:
            sock.sendall(UNFINISHED.replace(b"100", length))
        # They are older than the others.
        wait_until(lambda: len(silences := list_silences()) == 10 and min(silences) > 0.02)
        for _ in range(60):
            stack.enter_context(server.connect())
        statuses = [read_answer(sock)[0] for sock in unfinished]

    assert statuses == [408] * 10
    assert server.seen == []


def test_another_thread_can_answer(run_server):
    threads: list[threading.Thread] = []

    def accept(environ, reply):
        headers = [("Content-Type", "text/plain")]
        answer = (202, headers, environ["wsgi.input"].read())
        threads.append(threading.Thread(target=reply.send, args=answer))
        threads[-1].start()
        return True

    answer = run_server(accept=accept).ask("POST", "/api/events/x/", b"x" * 100_000)
    threads[0].join()
    assert (answer.status, len(answer.text)) == (202, 100_000)


def test_the_application_gets_what_was_not_taken_over_or_was_handed_over(run_server):
    threads: list[threading.Thread] = []

    def accept(environ, reply):
        if environ["PATH_INFO"] == "/api/events/later/":
            threads.append(threading.Thread(target=reply.hand_over))
            threads[-1].start()
        return bool(threads)

    server = run_server(accept=accept)
    found = [server.ask("POST", f"/api/events/{path}/", b"alert") for path in ("now", "later")]
    threads[0].join()
    assert [(answer.status, answer.text) for answer in found] == [(201, b"alert")] * 2


def test_bodies_do_not_delay_a_stop(run_server):
    server = Server()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        server.port = listening.getsockname()[1]
        with contextlib.ExitStack() as stack:
            with granian_worker.run(
                server, listening, backlog=BACKLOG, shares=Shares(4, 30), connections=100
            ):
                unfinished = [stack.enter_context(server.connect()) for _ in range(70)]
                for sock in unfinished:
                    sock.sendall(UNFINISHED)
                server.ask("GET", "/")
            assert {read_answer(sock)[0] for sock in unfinished} <= {0, 503}


@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 100_000], ids=["no body", "small", "large"])
def test_the_application_sees_that_the_client_has_left(run_server, body):
    server, seen, entered = run_server(), [], threading.Event()

    def check_client(environ, start):
        environ["wsgi.input"].read()
        has_left = environ["tocsin.client_check"]()
        seen.append(has_left())
        entered.set()
        seen.append(wait_until(has_left))
        start("200 OK", [])
        return [b""]

    server.app = check_client
    with server.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert entered.wait(PATIENCE_S)
    wait_until(lambda: len(seen) == 2)

    assert seen == [False, True]


def test_a_client_that_stays_gets_its_answer_and_can_send_more(run_server):
    server = run_server()

    def check_client(environ, start):
        has_left = environ["tocsin.client_check"]()
        start("200 OK", [("Content-Length", "5")])
        return [str(has_left()).encode()]

    server.app = check_client
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with server.connect() as sock:
        texts = []
        for _ in range(3):
            sock.sendall(request)
            texts.append(sock.recv(65536).rpartition(b"\r\n")[2])

    assert texts == [b"False"] * 3
