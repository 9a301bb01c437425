"""A siege sends costly input within the limits, counts each answer, and fails if another tenant is harmed."""

import socket
import threading
from collections import Counter

import pytest

from bench.siege import bodies
from bench.siege.attacks.attack import Sizes
from bench.siege.attacks.held_connections import HeldConnections
from bench.siege.attacks.open_pages import OpenPage
from bench.siege.attacks.requests import Request, Requests
from bench.siege.report import format_figures, list_goals
from bench.siege.run import AttackFigures, ByItself, OtherTenant, SiegeFigures
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES
from tests.support.polling import wait_until
from web.app import BODY_LIMIT

ALERT, GROUP = SOURCES["generic"], SOURCES["prometheus"]


def build_figures(missing: int = 0, beside_attack: OtherTenant | None = None, **changes) -> SiegeFigures:
    other = OtherTenant(2, Counter({"2xx": 2}), [5.0, 7.0], [20.0, 30.0])
    for name, value in changes.items():
        setattr(other, name, value)
    beside = OtherTenant(1, Counter({"2xx": 1}), [6.0], [25.0])
    attack = AttackFigures(
        "simulate", 3, Counter({"200": 1, "429": 2}), ByItself(2, {"web": 0.5}, beside_attack or beside)
    )
    return SiegeFigures(
        "SQLite", 1.0, [attack], other, {"web": 50.0}, {"web": 60.0}, {"web": 1.0}, 0.0, missing,
        {"web": 55.0}, 12.0,
    )  # fmt: skip


def test_the_table_has_each_attack_with_its_statuses_and_its_cpu():
    text = format_figures(build_figures())

    assert "200: 1, 429: 2" in text
    assert "250.0" in text
    assert "MiB 12 s after" in text
    assert "MISSED" not in text


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        pytest.param({}, False, id="all well"),
        pytest.param({"accept_ms": [900.0], "mail_ms": [20_000.0]}, False, id="late"),
        pytest.param({"statuses": Counter({"2xx": 1, "503": 1})}, True, id="5xx"),
        pytest.param({"statuses": Counter({"2xx": 1, "429": 1})}, False, id="4xx"),
        pytest.param({"unanswered": 1}, True, id="no answer"),
        pytest.param({"faults": ["1 accepted alerts are not processed"]}, True, id="lost"),
        pytest.param({"missing": 1}, True, id="alert of the attacker lost"),
        pytest.param({"beside_attack": OtherTenant(1, unanswered=1)}, True, id="no answer beside one attack"),
    ],
)
def test_a_siege_fails_if_an_alert_is_lost_or_another_tenant_gets_a_5xx(changes, failed):
    assert build_figures(**changes).failed is failed


def test_late_acceptance_and_mails_miss_their_goals():
    late = build_figures(accept_ms=[900.0], mail_ms=[20_000.0])

    assert [met for _, _, met in list_goals(late)] == [False, False, True, True]


def test_costly_bodies_are_within_the_limits_of_the_interface():
    sizes = Sizes()
    group = bodies.build_group(1, sizes.group)

    assert max(len(bodies.build_costly_alert(number)) for number in (0, 1)) < ALERT.max_bytes
    assert len(bodies.build_question()) < BODY_LIMIT
    assert len(bodies.build_simulation("x" * 36)) < BODY_LIMIT
    assert 0.9 * sizes.large_body < len(bodies.build_large_body(sizes.large_body)) < GROUP.max_bytes
    assert len(GROUP.parse(RequestBody(group))) == sizes.group
    assert len(ALERT.parse(RequestBody(bodies.build_costly_alert(1)))) == 1


@pytest.fixture
def server():
    """Return a listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        yield listening


def get_url(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def run(attack) -> tuple[threading.Event, threading.Thread]:
    stopping = threading.Event()
    thread = threading.Thread(target=attack.run, args=(stopping,), daemon=True)
    thread.start()
    return stopping, thread


def test_a_connection_that_the_server_closes_is_counted_and_opened_again(server):
    attack = HeldConnections("idle", get_url(server), 1, [b"x"], per_turn=1)
    stopping, thread = run(attack)
    first, _ = server.accept()
    first.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    first.close()
    second, _ = server.accept()
    stopping.set()
    thread.join(20)

    assert second.recv(10) + second.recv(10) == b"x"
    second.close()
    assert attack.statuses == {"408": 1}
    assert not thread.is_alive()


def test_a_refusal_before_the_end_of_the_body_is_counted(server):
    attack = Requests(
        "large", get_url(server), lambda _: Request("/", b" " * 10_000_000), threads=1, pause_s=20
    )
    stopping, thread = run(attack)
    sock, _ = server.accept()
    sock.recv(100)
    sock.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    sock.shutdown(socket.SHUT_RD)
    wait_until(lambda: sock.recv(65536) == b"")
    sock.close()
    wait_until(lambda: attack.statuses.total() == 1)
    stopping.set()
    thread.join(20)

    assert attack.requests == 1
    assert not thread.is_alive()


def test_an_open_page_asks_with_the_etag_of_the_page_that_it_has(server):
    replies = iter([(200, 'ETag: W/"a"\r\n'), (503, ""), (200, 'ETag: W/"b"\r\n'), (304, 'ETag: W/"b"\r\n')])
    asked = []

    def serve():
        sock, _ = server.accept()
        with sock, sock.makefile("rb") as lines:
            for status, header in replies:
                head = iter(lines.readline, b"\r\n")
                asked.append([line for line in head if line.startswith(b"If-None-Match")])
                sock.sendall(f"HTTP/1.1 {status} X\r\n{header}Content-Length: 0\r\n\r\n".encode())

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    page = OpenPage(f"127.0.0.1:{server.getsockname()[1]}", {})
    found = [page.ask() for _ in range(4)]
    page.close()
    serving.join(20)

    assert found == ["200", "503", "200", "304"]
    known = b'If-None-Match: W/"%s"\r\n'
    assert asked == [[], [known % b"a"], [known % b"a"], [known % b"b"]]
