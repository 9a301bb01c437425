"""Requests to URLs of users go only where the operator allows, and say nothing about inner networks."""

import contextlib
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from models.domain.reasons import make_reason
from tests.support.delivery.webhook_server import (
    LOOPBACK,
    Answer,
    answer_with,
    drip_headers,
    start_webhook_server,
)
from tests.support.offenders import list_offenders
from tests.support.polling import wait_until
from tests.support.relays import build_server_context, certificate, hang, start_silent_server
from workers.delivery.transport import user_hosts
from workers.delivery.transport.channel import Refused, TemporaryError, UnusableAddress
from workers.delivery.transport.http import get_tls_context
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient

__all__ = ["certificate"]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SILENT = make_reason("url_silent")
LATE, CLOSED = make_reason("url_late"), make_reason("url_closed")


@pytest.fixture
def server():
    with start_webhook_server() as server:
        yield server


@pytest.fixture
def client():
    """A client of an operator who allows loopback."""
    return UserUrlClient("webhook", UserHosts(LOOPBACK), 1.0)


@pytest.fixture
def outside():
    """A client of an operator who allows only the internet."""
    return UserUrlClient("webhook", UserHosts(), 1.0)


@pytest.fixture
def names(monkeypatch):
    """names["host"] = [addresses], or a function: what the resolver says. Other names are unknown."""
    known = {}
    original = socket.getaddrinfo

    def resolve(host, port, *args, **options):
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            return original(host, port, *args, **options)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        found = known[host]
        addresses = found() if callable(found) else found
        return [info for address in addresses for info in original(address, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return known


# The spellings of 127.0.0.1, 169.254.169.254 and 10.0.0.1 that the system's resolver reads.
SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.0.0.1", "0177.0.0.1",
    "017700000001", "0x7f.1", "0", "0.0.0.0", "127.0.0.1.", "169.254.169.254", "2852039166",
    "0xa9fea9fe", "0251.0376.0251.0376", "10.0.0.1", "10.1", "167772161", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[fd00:ec2::254]",
    "[fe80::1]", "[ff02::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
]  # fmt: skip


def test_no_spelling_of_an_inner_address_is_requested(outside, server):
    def check(host):
        with pytest.raises((UnusableAddress, TemporaryError)) as error:
            outside.submit(f"http://{host}:{server.port}/", {}, NOW)

        # The resolver does not read an address with a dot at its end, so it counts as a name.
        expected = SILENT if host.endswith(".") else make_reason("url_not_allowed")
        assert (error.value.reason, server.received) == (expected, [])

    assert list_offenders(check, SPELLINGS) == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["::1"], ["169.254.169.254"], ["::ffff:127.0.0.1"], ["8.8.8.8", "127.0.0.1"]]
)
def test_a_name_of_an_inner_address_is_not_requested(outside, server, names, addresses):
    names["inner.example.org"] = addresses

    with pytest.raises(TemporaryError) as error:
        outside.submit(f"http://inner.example.org:{server.port}/", {}, NOW)

    assert (error.value.reason, server.received) == (SILENT, [])


def test_a_host_that_is_unknown_silent_or_closed_has_its_own_reason(client, names):
    """A name that does not exist has the same reason as a name in an inner network, see above."""
    with start_silent_server(hang) as silent:
        names["silent.example.org"] = ["127.0.0.1"]
        # Port 1024 is closed on this host.
        reasons = {
            "http://unknown.example.org/": SILENT,
            f"http://silent.example.org:{silent.port}/": LATE,
            "http://127.0.0.1:1024/": CLOSED,
        }
        for url, reason in reasons.items():
            with pytest.raises(TemporaryError) as error:
                client.submit(url, {}, NOW)
            assert error.value.reason == reason


def test_a_name_is_resolved_once_so_that_a_second_answer_changes_nothing(outside, client, server, names):
    found = iter([["127.0.0.1"], ["10.0.0.1"]])
    names["rebinding.example.org"] = lambda: next(found)

    client.submit(f"http://rebinding.example.org:{server.port}/x", {"a": 1}, NOW)

    assert server.received[0].headers["host"] == f"rebinding.example.org:{server.port}"
    assert next(found) == ["10.0.0.1"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(client, status):
    with start_webhook_server() as inner, start_webhook_server() as server:
        server.responses = [Answer(status, {"Location": f"{inner.url}/latest/meta-data/"})]
        with pytest.raises(Refused) as error:
            client.submit(server.url, {}, NOW)

        assert error.value.reason == make_reason("url_refuses", code=status)
        assert inner.received == []


def test_a_name_that_is_not_resolved_in_time_holds_no_thread(names):
    released = threading.Event()
    names["slow.example.org"] = lambda: [released.wait(10) and "127.0.0.1"]
    client = UserUrlClient("webhook", UserHosts(LOOPBACK), 0.2)
    began = time.monotonic()

    with pytest.raises(TemporaryError) as error:
        client.submit("http://slow.example.org/", {}, NOW)

    released.set()
    assert error.value.reason == LATE
    assert time.monotonic() - began < 8


def test_lookups_at_the_same_time_have_a_bound(names, monkeypatch):
    monkeypatch.setattr(user_hosts, "MAX_LOOKUPS", 1)
    released = threading.Event()
    names["slow.example.org"] = lambda: [released.wait(10) and "127.0.0.1"]
    names["quick.example.org"] = ["127.0.0.1"]
    hosts = UserHosts(LOOPBACK)
    for host in ("slow.example.org", "quick.example.org"):
        with pytest.raises(TimeoutError):
            hosts.find_addresses(host, 80, 0.1)

    released.set()
    assert hosts.find_addresses("quick.example.org", 80, 30)


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"no HTTP at all", b"HTTP/1.1 2", b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5_000 + b"\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    ],
    ids=["nothing", "other protocol", "half a status", "bad status", "many headers", "long header"],
)  # fmt: skip
def test_a_broken_answer_is_no_answer(client, answer):
    with start_silent_server(answer_with(answer)) as server, pytest.raises(TemporaryError) as error:
        client.submit(f"http://127.0.0.1:{server.port}/", {}, NOW)

    assert error.value.reason in (SILENT, CLOSED)


@pytest.mark.parametrize("handle", [hang, drip_headers])
def test_a_slow_server_holds_the_thread_until_the_deadline(handle):
    client = UserUrlClient("webhook", UserHosts(LOOPBACK), 0.3)
    began = time.monotonic()
    with start_silent_server(handle) as server:
        with pytest.raises(TemporaryError) as error:
            client.submit(f"http://127.0.0.1:{server.port}/", {}, NOW)
        took = time.monotonic() - began

    assert error.value.reason == LATE
    assert took < 15


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
    ],
    ids=["half a body", "broken chunks", "huge body"],
)
def test_the_body_of_an_answer_is_not_read(client, answer):
    with start_silent_server(lambda taken, stop: swallow(answer_with(answer), taken, stop)) as server:
        reason = client.submit(f"http://127.0.0.1:{server.port}/", {}, NOW)

    assert reason == make_reason("url_accepted", code=200)


def swallow(handle, taken, stop):
    """The client closes the connection before it has read everything."""
    with contextlib.suppress(OSError):
        handle(taken, stop)


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, Refused, "url_refuses"), (401, Refused, "url_refuses"), (403, Refused, "url_refuses"),
        (404, UnusableAddress, "url_gone"), (410, UnusableAddress, "url_gone"),
        (408, TemporaryError, "url_busy"), (500, TemporaryError, "url_busy"),
        (503, TemporaryError, "url_busy"),
    ],
)  # fmt: skip
def test_reasons_name_the_status_and_nothing_of_the_answer(client, server, status, kind, code):
    server.responses = [Answer(status, {"X-Inner": "db1.internal"}, b"secret inner failure")]

    with pytest.raises(kind) as error:
        client.submit(server.url, {}, NOW)

    assert error.value.reason == make_reason(code, code=status)


def test_a_host_asks_for_a_delay(client, server):
    server.responses = [Answer(429, {"Retry-After": "17"})]

    with pytest.raises(TemporaryError) as error:
        client.submit(server.url, {}, NOW)

    assert error.value.retry_after == timedelta(seconds=17)


def test_a_certificate_must_be_that_of_the_host(client, certificate, monkeypatch, names, request):
    names["localhost"] = names["other.example.org"] = ["127.0.0.1"]
    with start_webhook_server(build_server_context(certificate)) as server:
        with pytest.raises(TemporaryError) as error:
            client.submit(server.url, {}, NOW)
        assert error.value.reason == make_reason("url_not_trusted")

        request.addfinalizer(get_tls_context.cache_clear)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        get_tls_context.cache_clear()
        trusting = UserUrlClient("webhook", UserHosts(LOOPBACK), 1.0)
        assert trusting.submit(server.url, {}, NOW) == make_reason("url_accepted", code=200)
        with pytest.raises(TemporaryError) as error:
            trusting.submit(f"https://other.example.org:{server.port}/", {}, NOW)
        assert error.value.reason == make_reason("url_not_trusted")


def test_names_of_one_account_that_resolve_slowly_leave_lookups_to_others(client, server, names):
    go_on = threading.Event()
    names["fast.example.org"] = ["127.0.0.1"]

    def resolve_slowly():
        go_on.wait(30)
        return ["127.0.0.1"]

    def ask(number):
        names[f"slow{number}.example.org"] = resolve_slowly
        with user_hosts.looking_up_for(1), contextlib.suppress(TemporaryError):
            UserUrlClient("webhook", client._hosts, 0.05).submit(f"http://slow{number}.example.org/", {}, NOW)

    try:
        for number in range(user_hosts.MAX_LOOKUPS + 1):
            ask(number)
        with user_hosts.looking_up_for(2):
            client.submit(f"http://fast.example.org:{server.port}/", {}, NOW)
    finally:
        go_on.set()

    assert len(server.received) == 1


def test_an_account_can_look_up_names_again_when_slow_ones_are_resolved(client, server, names):
    go_on = threading.Event()
    names["fast.example.org"] = ["127.0.0.1"]

    def resolve_slowly():
        go_on.wait(30)
        return ["127.0.0.1"]

    names["slow.example.org"] = resolve_slowly
    impatient = UserUrlClient("webhook", client._hosts, 0.05)

    def is_accepted():
        with contextlib.suppress(TemporaryError):
            return bool(client.submit(f"http://fast.example.org:{server.port}/", {}, NOW))
        return False

    with user_hosts.looking_up_for(1):
        for _ in range(user_hosts.MAX_LOOKUPS_OF_ACCOUNT):
            with pytest.raises(TemporaryError):
                impatient.submit("http://slow.example.org/", {}, NOW)
        assert not is_accepted()
        go_on.set()
        wait_until(is_accepted)
