"""The key of a large body is looked up before the rest is read, and only known keys get a turn."""

import json

import pytest

from pipeline.sources.reading.body import RequestBody
from tests.support.web.places import held_elsewhere
from web.event_apis.body_fields import EXPLAINED_BYTES
from web.http.limits import places
from web.ingest import events
from web.ingest.large_bodies import LARGE_BYTES

UNKNOWN = "00000000-0000-4000-8000-000000000000"
DEEP = "[" + ",".join(["[" * 50 + "]" * 50] * 4_000) + "]"


def build_event(key: str, more: str = "[]") -> bytes:
    return (
        f'{{"routing_key":"{key}","event_action":"trigger","dedup_key":"d","payload":{{"summary":"m",'
        f'"source":"s","severity":"critical","custom_details":{more}}}}}'
    ).encode()


@pytest.fixture
def no_turn(monkeypatch):
    """Another account has the turn of large bodies."""
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    with held_elsewhere(events.large_bodies._turn, "another account"):
        yield


@pytest.fixture
def decoded(monkeypatch):
    """The bodies that were read as a whole."""
    found, real = [], RequestBody.decode_json
    monkeypatch.setattr(RequestBody, "decode_json", lambda body: (found.append(body), real(body))[1])
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v2/enqueue", build_event(UNKNOWN, DEEP), id="PagerDuty"),
        pytest.param("/v2/enqueue", build_event(UNKNOWN, DEEP) + b",", id="PagerDuty, no JSON"),
        pytest.param("/v2/enqueue", DEEP.encode(), id="PagerDuty, no object"),
        pytest.param(f"/integrations/generic/20131114/alert/{UNKNOWN}/t", DEEP.encode(), id="VictorOps"),
    ],
)
@pytest.mark.usefixtures("no_turn")
def test_the_body_to_an_unknown_key_is_not_read_and_needs_no_turn(app, decoded, path, body):
    assert len(body) > LARGE_BYTES

    assert app.test_client().post(path, data=body).status_code in (400, 404)
    assert decoded == []


@pytest.mark.parametrize("ending", [b"", b" "])
def test_a_large_body_with_a_known_key_needs_its_turn(app, world, no_turn, ending):
    body = build_event(world.integration.integration_key, DEEP) + ending

    assert app.test_client().post("/v2/enqueue", data=body).status_code == 503


def test_the_key_of_a_large_unusual_body_is_found(app, world):
    # msgspec refuses a key that is no text.
    key, text = world.integration.integration_key, "x" * EXPLAINED_BYTES
    body = build_event(key, json.dumps(text)).replace(b'"dedup_key":"d"', b'"dedup_key":["d"]')

    assert app.test_client().post("/v2/enqueue", data=body).status_code == 202


@pytest.mark.usefixtures("no_turn")
def test_a_small_body_needs_no_turn(app):
    assert app.test_client().post("/v2/enqueue", data=build_event(UNKNOWN)).status_code == 400
