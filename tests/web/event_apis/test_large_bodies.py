"""Large bodies of event APIs wait for their turn wherever they are read."""

import json
from contextlib import ExitStack

import pytest

from web.ingest import events
from web.ingest.large_bodies import LARGE_BYTES, MAX_PENDING

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def no_turn():
    """Other requests have all places in the queue of large bodies."""
    with ExitStack() as stack:
        for _ in range(1 + MAX_PENDING):
            events.large_bodies._admitted.acquire()
            stack.callback(events.large_bodies._admitted.release)
        yield


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/enqueue", {"routing_key": UNKNOWN, "event_action": "trigger", "payload": {"summary": "m"}}),
    ],
)
@pytest.mark.usefixtures("no_turn")
def test_a_large_body_needs_its_turn_before_its_key_is_known(app, path, body):
    raw = json.dumps({**body, "text": "x" * LARGE_BYTES}).encode()

    assert app.test_client().post(path, data=raw).status_code == 503


@pytest.mark.usefixtures("no_turn")
def test_a_small_body_needs_no_turn(app):
    body = {"routing_key": UNKNOWN, "event_action": "trigger", "payload": {"summary": "m"}}

    assert app.test_client().post("/v2/enqueue", json=body).status_code == 400
