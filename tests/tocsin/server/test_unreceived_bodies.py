"""A large body is received only after the application has checked all it can without it."""

import json
import re

import pytest
from werkzeug.test import EnvironBuilder, run_wsgi_app

from models.tables.accounts import RateLimit
from tests.support.web.places import held_elsewhere
from tests.support.web.server import Server, read_answer, run_server
from tests.web.conftest import app
from tocsin.server.bodies import SMALL_BYTES
from web.http.limits import places
from web.routes import PAGES, ROUTES
from web.server_interface import BodyNeeded, UnreceivedBody

__all__ = ["app", "run_server"]

LARGE = 100_000
UNKNOWN = "00000000-0000-4000-8000-000000000000"
# The key of these is in the body, so they are received; they have at most 512 KiB.
KEY_IN_BODY = {"pagerduty_enqueue", "pagerduty_create_event"}
WRITES = [route for route in (*ROUTES, *PAGES) if route.method in ("POST", "PUT", "PATCH")]


@pytest.fixture
def server(run_server, app) -> Server:
    found = run_server()
    found.app = app
    return found


def send_headers(server: Server, head: str, *headers: str, rest: bytes = b"") -> tuple[int, bytes]:
    """Send a request whose body never comes; return the answer."""
    lines = (f"{head} HTTP/1.1", "Host: x", f"Content-Length: {LARGE}", *headers)
    with server.connect() as sock:
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + rest)
        return read_answer(sock)


def test_without_a_credential_no_operation_and_no_page_receives_a_large_body(app):
    received = set()
    for route in WRITES:
        environ = EnvironBuilder(re.sub("<[^>]*>", UNKNOWN, route.path), method=route.method).get_environ()
        environ |= {"CONTENT_LENGTH": str(LARGE), "wsgi.input": UnreceivedBody()}
        try:
            run_wsgi_app(app, environ)
        except BodyNeeded:
            received.add(route.name)

    assert received == KEY_IN_BODY


@pytest.mark.parametrize("word", ["Bearer nobody", "GenieKey nobody"])
def test_an_unknown_token_is_refused_before_the_body(server, word):
    assert send_headers(server, "POST /api/incidents/", f"Authorization: {word}")[0] == 401
    assert send_headers(server, "POST /v2/alerts/", f"Authorization: {word}")[0] == 401


def test_with_a_token_the_body_is_received(server, world):
    body = json.dumps({"title": "x" * LARGE}).encode()
    headers = {"Authorization": f"Bearer {world.tokens['alice']}", "Content-Type": "application/json"}

    answer = server.ask("POST", "/api/incidents/", body, **headers)

    assert answer.status == 400
    assert b"service" in answer.text


@pytest.mark.parametrize(("size", "status"), [(100, 400), (LARGE, 503)])
def test_a_small_chunked_body_waits_for_no_place_and_a_large_one_does(
    server, world, monkeypatch, size, status
):
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    body = json.dumps({"title": "x" * size}).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:50], body[50:], b""))
    head = f"POST /api/incidents/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.tokens['alice']}\r\n"

    with held_elsewhere(places.places, "other", "third"):
        answer = server.send(
            f"{head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks
        )

    assert answer[0] == status


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_alert_with_a_known_key_is_stored(server, world, is_chunked):
    body = json.dumps({"message": "m", "payload": {"text": "x" * LARGE}}).encode()
    path = f"/api/integration/generic/{world.integration.integration_key}/"

    answer = server.ask("POST", path, iter([body[:70_000], body[70_000:]]) if is_chunked else body)

    assert answer.status == 200


def test_a_chunked_body_is_received_up_to_the_size_of_a_small_one(server):
    head = b"POST /api/incidents/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    size = SMALL_BYTES + 1

    status, answer = server.send(head + f"{size:x}\r\n".encode() + b"x" * size + b"\r\n")

    assert status == 401
    assert b"onnection: close" in answer


def test_the_body_for_an_unknown_path_is_not_received(server):
    assert send_headers(server, "POST /api/nothing/")[0] == 404


def test_a_large_request_counts_once_and_a_throttled_one_is_not_received(server, world):
    """The application is called twice, before and after it receives the body."""
    token = f"Authorization: Bearer {world.tokens['alice']}"
    headers = {"Authorization": f"Bearer {world.tokens['alice']}", "Content-Type": "application/json"}
    schedules = f"account/teams/{world.team.unique_id}/schedules/"
    made = server.ask("POST", f"/api/{schedules}", json.dumps({"name": "Nights"}).encode(), **headers)
    path = f"/api/v2/{schedules}{json.loads(made.text)['unique_id']}/overrides/"
    times = {"start_time": "2026-03-06", "end_time": "2026-03-07"}
    body = json.dumps({"user": world.bob.username, **times, "unknown": "x" * LARGE}).encode()

    assert server.ask("POST", path, body, **headers).status == 201
    assert [len(row.recent) for row in RateLimit.select()] == [1]
    assert send_headers(server, f"POST {path}", token)[0] == 429
