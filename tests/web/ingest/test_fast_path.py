"""The fast path: the requests that it accepts, and those that it passes to Flask."""

import io
import json

import peewee
import pytest
from werkzeug.test import EnvironBuilder

from models.domain.applications import HEARTBEAT
from models.people import provisioning
from models.store.store import store
from models.tables.events import Receipt
from models.tables.services import Integration
from tests.support.rules import add_router
from tests.support.web.places import held_elsewhere
from web.app import get_fast_path
from web.http import response_headers
from web.http.limits import places
from web.ingest import events, fast_path, group_commit, large_bodies
from web.ingest.known_keys import KnownKeys

ALERT = json.dumps({"message": "Disk full", "alert_type": "critical"}).encode()
GROUP = json.dumps({"alerts": [{"fingerprint": "a"}, {"fingerprint": "b"}]}).encode()


def list_forms(world):
    key = world.integration.integration_key
    identifier = world.account.account_identifier
    return {
        "application": (f"/api/integration/generic/{key}/", ALERT),
        "current": (f"/integration/{identifier}/generic/{key}/", ALERT),
        "prometheus": (f"/api/integration/prometheus/{key}/", GROUP),
    }


@pytest.fixture
def flask_application(app):
    """Return the application without the fast path."""
    return app.wsgi_app._application


@pytest.fixture
def fast_path_client(app, flask_application, monkeypatch):
    """Return a client of an application in which Flask answers all requests with 599."""

    def other(environ, start):
        start("599 FLASK", [("Content-Type", "text/plain")])
        return [environ["wsgi.input"].read()]

    monkeypatch.setattr(app, "wsgi_app", fast_path.FastPath(other, events.commits, events.large_bodies))
    return app.test_client()


@pytest.mark.parametrize("form", ["application", "current", "prometheus"])
def test_valid_alerts_are_accepted_without_flask(fast_path_client, world, form):
    path, body = list_forms(world)[form]
    answer = fast_path_client.post(path, data=body)

    assert answer.status_code == 200
    receipt = Receipt.get()
    assert answer.json == {"message": "success", "trace_id": receipt.trace_id}
    assert (bytes(receipt.body), receipt.alerts) == (body, 2 if form == "prometheus" else 1)


def create_heartbeat_key(world) -> str:
    made = provisioning.create_integration(world.service, "Pings", HEARTBEAT, world.alice, store().now())
    return made.integration_key


KEYS = {
    "an integration": lambda world: world.integration.integration_key,
    "a heartbeat": create_heartbeat_key,
    "a router": lambda world: add_router(world).integration_key,
}
EVENT_BODIES = {
    "plain": {"message": "Disk full", "entity_id": "db1"},
    "without an entity_id": {"message": "Disk full", "alert_type": "warning"},
    "a long entity_id": {"message": "Disk full", "entity_id": "x" * 300},
    "all fields": {
        "message": "Disk\tfull",
        "summary": "95 %\u202e",
        "alert_type": "critical",
        "entity_id": "db1",
        "suppressed": True,
        "payload": {"host": "db1", "disks": [1, 2.5, None]},
        "urls": [{"link_url": "https://example.org/", "link_text": "Runbook"}],
        "images": [{"image_src": "https://example.org/a.png"}],
        "notes": ["Look at the disk."],
    },
}


def hide_ids(value):
    """Return an answer without what differs between two requests: times and the ids of the alert."""
    if isinstance(value, list):
        return [hide_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    volatile = {"unique_id", "trace_id", "creation_date"}
    return {name: "" if name in volatile else hide_ids(one) for name, one in value.items()}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("body", EVENT_BODIES.values(), ids=EVENT_BODIES)
@pytest.mark.parametrize("authorization", ["", "Token x", "Bearer x"])
def test_an_event_has_the_same_answer_without_flask(
    app, fast_path_client, world, key, body, authorization, flask_application
):
    path = f"/api/events/{key(world)}/"
    headers = {"Authorization": authorization}
    fast = fast_path_client.post(path, json=body, headers=headers)
    app.wsgi_app = flask_application
    slow = app.test_client().post(path, json=body, headers=headers)

    assert (fast.status_code, slow.status_code) == (201, 201)
    assert list(hide_ids(fast.json).items()) == [
        (name, fast.json[name] if name == "entity_id" and "entity_id" not in body else value)
        for name, value in hide_ids(slow.json).items()
    ]
    assert sorted(fast.headers.items()) == sorted(
        (name, fast.headers[name] if name == "Content-Length" else value)
        for name, value in slow.headers.items()
    )
    assert Receipt.select().count() == 2


LEFT_TO_FLASK = {
    "another method": {"method": "PUT"},
    "no last slash": {"cut": 1},
    "an unknown source": {"swap": ("generic", "nosuch")},
    "no key": {"swap": ("generic/", "generic/x")},
    "no JSON": {"data": b"{"},
    "no message": {"data": b"{}"},
    "nothing": {"data": b""},
    "an answer in XML": {"headers": {"Accept": "application/xml"}},
}


@pytest.mark.parametrize("how", LEFT_TO_FLASK.values(), ids=LEFT_TO_FLASK)
def test_other_requests_go_to_flask_with_their_body(fast_path_client, world, how):
    path = f"/api/integration/generic/{world.integration.integration_key}/"
    path = path.replace(*how.get("swap", ("", "")))[: -how.get("cut", 0) or None]
    body = how.get("data", ALERT)
    answer = fast_path_client.open(
        path, method=how.get("method", "POST"), data=body, headers=how.get("headers", {})
    )

    assert (answer.status_code, answer.data) == (599, body)
    assert not Receipt.select().exists()


def test_a_body_with_a_missing_or_wrong_length_goes_to_flask(app, fast_path_client, world):
    path = f"/api/integration/generic/{world.integration.integration_key}/"
    for length in ("", "9999", "-1", "٣", str(1024 * 1024)):
        environ = {"CONTENT_LENGTH": length}
        answer = fast_path_client.post(path, input_stream=io.BytesIO(ALERT), environ_overrides=environ)
        assert answer.status_code == 599

    assert not Receipt.select().exists()


def test_an_error_is_answered_by_flask_and_the_key_is_queried_once(app, world, statements):
    client = app.test_client()
    for key in ("00000000-0000-4000-8000-000000000000", world.integration.integration_key):
        with statements() as seen:
            answer = client.post(f"/integration/zzzzz/generic/{key}/", data=ALERT)
        assert (answer.status_code, answer.json) == (404, {"detail": "Not Found."})
        assert sum('"integration_key" =' in sql or '"integration_key" IN' in sql for sql, _ in seen) <= 2


def test_one_large_body_too_many_is_a_503_with_a_time(app, world, monkeypatch):
    monkeypatch.setattr(large_bodies, "LARGE_BYTES", 10)
    client, path = app.test_client(), list_forms(world)["application"][0]
    monkeypatch.setattr(large_bodies, "DEAR_BYTES", 10)
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    with held_elsewhere(events.large_bodies._turn, "another account"):
        for address in (path, path.removesuffix("/")):
            answer = client.post(address, data=ALERT)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")

    assert not Receipt.select().exists()
    assert client.post(path, data=ALERT).status_code == 200


def test_a_store_that_fails_is_the_503_of_the_contract(app, world, monkeypatch):
    def fail(_):
        raise group_commit.NotStoredError

    monkeypatch.setattr(events.commits, "submit", fail)
    answer = app.test_client().post(list_forms(world)["application"][0], data=ALERT)

    assert answer.status_code == 503
    assert answer.json == {"detail": "The service is temporarily unavailable."}


class Reply:
    """A reply of the server; `sent` has its answers, `handed_over` the number of hand_over()."""

    def __init__(self):
        self.sent, self.handed_over = [], 0

    def send(self, *answer):
        self.sent.append(answer)

    def hand_over(self):
        self.handed_over += 1


@pytest.fixture
def accept(app):
    """accept(path, data): whether the fast path took an alert over, its reply, and its environment."""

    def send(path, data=ALERT, **more):
        environ = EnvironBuilder(path=path, method="POST", data=data, **more).get_environ()
        reply = Reply()
        return get_fast_path(app).accept(environ, reply), reply, environ

    return send


def test_only_a_known_key_is_taken_over_without_a_thread(accept, app, world, monkeypatch):
    """The look-up of another key reads the store, and can wait for it."""
    monkeypatch.setattr(events.commits, "_keys", KnownKeys(group_commit._find_account))
    path = list_forms(world)["application"][0]
    assert accept(path)[0] is False
    assert app.test_client().post(path, data=ALERT).status_code == 200
    assert accept(path)[0] is True
    assert accept(path, data=b"[" * 70_000)[0] is False
    assert accept(path, headers={"Prefer": "wait=1"})[0] is False


def test_the_thread_that_commits_sends_the_response(accept, app, world):
    path = list_forms(world)["application"][0]
    app.test_client().post(path, data=ALERT)
    Receipt.delete().execute()
    _, reply, _ = accept(path)

    ((status, headers, body),) = reply.sent
    assert (status, json.loads(body)) == (200, {"message": "success", "trace_id": Receipt.get().trace_id})
    assert dict(headers) == {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **response_headers.HEADERS,
    }


def test_an_alert_that_could_not_be_stored_is_handed_over_to_the_application(accept, app, world, monkeypatch):
    path = list_forms(world)["application"][0]
    client = app.test_client()
    client.post(path, data=ALERT)

    def answer_refused():
        accepted, reply, environ = accept(path)
        assert (accepted, reply.sent, reply.handed_over) == (True, [], 1)
        return client.post(
            path, data=ALERT, environ_overrides={fast_path.REFUSED: environ[fast_path.REFUSED]}
        )

    with monkeypatch.context() as patched:

        def fail(_):
            raise peewee.OperationalError("disk I/O error")

        patched.setattr(group_commit, "_store_group", fail)
        refused = answer_refused()
    assert (refused.status_code, refused.json) == (
        503,
        {"detail": "The service is temporarily unavailable."},
    )

    Integration.update(is_enabled=False).execute()
    refused = answer_refused()
    assert (refused.status_code, refused.json) == (404, {"detail": "Not Found."})


def test_an_alert_that_cannot_be_read_is_handed_over_to_the_application(accept, app, world, monkeypatch):
    path = list_forms(world)["application"][0]
    app.test_client().post(path, data=ALERT)

    def fail(*_):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(fast_path, "_count_alerts", fail)
        accepted, reply, _ = accept(path)
    assert (accepted, reply.sent) == (False, [])


def test_an_alert_whose_answer_cannot_be_built_is_refused(accept, app, world, monkeypatch):
    path = list_forms(world)["application"][0]
    app.test_client().post(path, data=ALERT)

    def fail(_):
        raise RuntimeError

    monkeypatch.setattr(fast_path, "build_answer", fail)
    accepted, reply, environ = accept(path)
    assert (accepted, reply.sent, reply.handed_over) == (True, [], 1)
    assert environ[fast_path.REFUSED].status == 503
