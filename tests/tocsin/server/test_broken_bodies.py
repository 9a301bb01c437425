"""A body that is malformed, ambiguous or broken off gets 400, and no alert is stored."""

import pytest

from models.tables.events import Receipt
from tests.support.offenders import list_offenders
from tests.support.web.server import Server, run_server
from tests.web.conftest import app

__all__ = ["app", "run_server"]

ALERT = b'{"message": "Disk full", "alert_type": "critical"}'
SIZE = b"%x" % len(ALERT)
CHUNK = SIZE + b"\r\n" + ALERT + b"\r\n"
END = b"0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(ALERT)
# More than a small body, so that the parts are received one after the other.
LARGE = b"20000\r\n" + b" " * 0x20000 + b"\r\n"

# Headers and body, each complete in itself: the server must not wait for more.
MALFORMED = {
    "the size is no number": (CHUNKED, b"zz\r\n" + ALERT + b"\r\n" + END),
    "a later size is no number": (CHUNKED, CHUNK + b"zz\r\n" + END),
    "the size after a large chunk is no number": (CHUNKED, LARGE + b"zz\r\n" + END),
    "no size": (CHUNKED, b"\r\n" + ALERT + b"\r\n" + END),
    "a negative size": (CHUNKED, b"-" + CHUNK + END),
    "a size with a sign": (CHUNKED, b"+" + CHUNK + END),
    "a size with a prefix": (CHUNKED, b"0x" + CHUNK + END),
    "a size over 64 bits": (CHUNKED, b"f" * 17 + b"\r\n" + ALERT + b"\r\n" + END),
    "a chunk longer than its size": (CHUNKED, b"1\r\n" + ALERT + b"\r\n" + END),
    "no line break after a chunk": (CHUNKED, SIZE + b"\r\n" + ALERT + END),
    "line breaks of one character": (CHUNKED, SIZE + b"\n" + ALERT + b"\n0\n\n"),
    "a line break in an extension": (CHUNKED, SIZE + b";a\nb\r\n" + ALERT + b"\r\n" + END),
    # Valid, but the server cannot distinguish it from a broken body.
    "trailers": (CHUNKED, CHUNK + b"0\r\nX-Name: value\r\n\r\n"),
    "lengths that differ": (LENGTH + b"Content-Length: 4\r\n", ALERT),
    "a list of lengths": (b"Content-Length: 50, 50\r\n", ALERT),
    "a negative length": (b"Content-Length: -50\r\n", ALERT),
    "a length with a sign": (b"Content-Length: +50\r\n", ALERT),
    "a length over 64 bits": (b"Content-Length: " + b"9" * 30 + b"\r\n", ALERT),
    "an unknown coding": (b"Transfer-Encoding: xchunked\r\n", CHUNK + END),
    "chunked is not the last coding": (b"Transfer-Encoding: chunked, gzip\r\n", CHUNK + END),
    "a blank before the colon": (b"Transfer-Encoding : chunked\r\n", CHUNK + END),
}
BROKEN_OFF = {
    "before the first chunk": (CHUNKED, b""),
    "in a size": (CHUNKED, SIZE),
    "in a chunk": (CHUNKED, SIZE + b"\r\n" + ALERT[:9]),
    "after a chunk": (CHUNKED, CHUNK),
    "after large chunks": (CHUNKED, LARGE + LARGE),
    "in a huge chunk": (CHUNKED, b"f" * 16 + b"\r\n" + ALERT),
    "before the last line break": (CHUNKED, CHUNK + b"0\r\n"),
    "in a trailer": (CHUNKED, CHUNK + b"0\r\nX-Name"),
    "before the length": (LENGTH, ALERT[:-1]),
    "before the length of a large body": (b"Content-Length: 100000\r\n", ALERT),
}


@pytest.fixture
def server(run_server, app) -> Server:
    started = run_server()
    started.app = app
    return started


def build_request(world, headers: bytes, body: bytes) -> bytes:
    path = f"/api/events/{world.integration.integration_key}/".encode()
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n" + body


def test_a_malformed_body_gets_400_and_is_not_stored(server, world):
    def check(case):
        headers, body = case
        assert server.send(build_request(world, headers, body))[0] == 400
        assert Receipt.select().count() == 0

    assert list_offenders(check, MALFORMED.values(), lambda case: repr(case[0])) == []


@pytest.mark.parametrize(("headers", "body"), BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_a_body_that_breaks_off_gets_400_and_is_not_stored(server, world, headers, body):
    assert server.send(build_request(world, headers, body), break_off=True)[0] == 400
    assert Receipt.select().count() == 0


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (LENGTH, ALERT),
        (LENGTH * 2, ALERT),
        (CHUNKED, CHUNK + END),
        (CHUNKED, SIZE + b";name=value\r\n" + ALERT + b"\r\n" + END),
        (CHUNKED, b"".join(b"1\r\n%c\r\n" % byte for byte in ALERT) + END),
    ],
    ids=["length", "the same length twice", "chunked", "extension", "chunks of one byte"],
)
def test_a_complete_body_is_stored(server, world, headers, body):
    assert server.send(build_request(world, headers, body))[0] == 201
    assert Receipt.select().count() == 1


def test_chunks_decide_beside_a_length_and_the_connection_ends(server, world):
    """As RFC 9112, section 6.3, requires: what follows the body is no request, whatever a proxy believed."""
    path = f"/api/events/{world.integration.integration_key}/".encode()
    hidden = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + LENGTH + b"\r\n" + ALERT
    both = b"Content-Length: %d\r\n" % len(CHUNK + END + hidden) + CHUNKED
    request = build_request(world, both, CHUNK + END).replace(b"Connection: close\r\n", b"")

    status, text = server.send(request + hidden)

    assert (status, text.count(b"HTTP/1.1 ")) == (201, 1)
    assert b"connection: close" in text.lower()
    assert Receipt.select().count() == 1
