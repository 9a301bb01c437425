"""`Prefer: wait`: the answer to an alert contains what became of it."""

import contextlib
import json
import socket
import threading

import peewee
import pytest

from models.domain.values import replace
from models.store.peewee_internals import count_used_connections
from models.store.store import db
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.rules import add_router, add_router_rule
from tocsin.server import granian_worker
from tocsin.server.listening import BACKLOG
from tocsin.server.shares import Shares
from web.ingest import alert_results, events
from workers.alerts import process_lane, process_router

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}
GROUP = {"version": "4", "alerts": [{"status": "firing", "labels": {"alertname": "A"}, "fingerprint": "f"}]}


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=3", 3),
        ("respond-async, WAIT = 3", 3),
        ('wait="4"; foo=bar', 4),
        ("wait=2, wait=5", 2),
        ("wait=9999999", 10),
        ("wait=0", 0),
        ("", 0),
        ("wait", 0),
        ("wait=-1", 0),
        ("wait=1.5", 0),
        ("wait=٣", 0),
        ("await=3", 0),
        ("wait=soon, wait=4", 4),
        ("wait=99999999999999999999999", 0),
    ],
)
def test_the_preference_is_read_by_the_rfc(header, seconds):
    assert alert_results.parse_seconds(header) == seconds


def get_path(form, world):
    key, account = world.integration.integration_key, world.account.account_identifier
    return {
        "event": f"/api/events/{key}/",
        "generic": f"/integration/{account}/generic/{key}/",
        "application": f"/api/integration/generic/{key}/",
        "prometheus": f"/api/integration/prometheus/{key}/",
    }[form]


class Pending:
    """A request in a thread of its own."""

    def __init__(self, app, path, body, prefer="wait=10"):
        self.answer = None
        arguments = (app.test_client(), path, body, prefer)
        self._thread = threading.Thread(target=self._send, args=arguments, daemon=True)
        self._thread.start()

    def _send(self, client, path, body, prefer):
        self.answer = client.post(path, json=body, headers={"Prefer": prefer} if prefer else {})

    def end(self):
        self._thread.join(15)
        assert self.answer is not None
        return self.answer


def count_open():
    return len(events.results._requests)


@pytest.fixture
def send(app):
    """send(path, body): a request that waits for its result."""

    def start(path, body=CRITICAL, **more):
        before = count_open()
        pending = Pending(app, path, body, **more)
        wait_until(lambda: count_open() > before or pending.answer is not None)
        return pending

    yield start
    wait_until(lambda: not count_open() and not events.results._has_reader)


@pytest.mark.parametrize("form", ["event", "generic", "application", "prometheus"])
def test_the_answer_has_the_incident_that_the_alert_opened(send, world, form):
    pending = send(get_path(form, world), GROUP if form == "prometheus" else CRITICAL)
    process_lane.run(world.service.id)
    answer = pending.end()

    assert answer.status_code == (201 if form == "event" else 200)
    assert answer.headers["Preference-Applied"] == "wait=10"
    assert (answer.json["incident"], answer.json["incident_created"]) == (1, True)
    assert Incident.get().incident_number == 1
    if form != "event":
        assert set(answer.json) == {"message", "trace_id", "incident", "incident_created"}


def test_the_answer_has_the_incident_that_the_alert_joined(send, world):
    for created in (True, False):
        pending = send(get_path("event", world))
        process_lane.run(world.service.id)
        answer = pending.end()

        assert (answer.json["incident"], answer.json["incident_created"]) == (1, created)


def test_an_alert_without_an_incident_has_a_result_too(send, world):
    pending = send(get_path("generic", world), {"message": "m", "alert_type": "info"})
    process_lane.run(world.service.id)
    answer = pending.end()

    assert answer.headers["Preference-Applied"] == "wait=10"
    assert (answer.json["incident"], answer.json["incident_created"]) == (None, False)


def test_an_alert_of_a_router_waits_for_its_target(send, world):
    router = add_router(world)
    add_router_rule(router, world.integration)
    pending = send(f"/api/events/{router.integration_key}/")
    process_router.run(router.id)
    assert Event.get().incident is None
    process_lane.run(world.service.id)
    answer = pending.end()

    assert answer.status_code == 201
    assert (answer.json["incident"], answer.json["incident_created"]) == (1, True)


@pytest.mark.parametrize("form", ["event", "generic"])
def test_after_the_time_the_answer_is_that_without_the_header(send, world, form, monkeypatch):
    monkeypatch.setattr(alert_results, "MAX_SECONDS", 0.05)
    plain = send(get_path(form, world), prefer=None).end()
    late = send(get_path(form, world)).end()

    assert late.status_code == plain.status_code
    assert "Preference-Applied" not in {*late.headers.keys(), *plain.headers.keys()}
    assert late.json.keys() == plain.json.keys()
    assert late.json.get("incident") is None
    assert Receipt.select().count() == 2


def test_a_dead_letter_is_answered_without_a_result(send, world):
    pending = send(get_path("generic", world))
    Receipt.update(state=2).execute()
    answer = pending.end()

    assert "Preference-Applied" not in answer.headers
    assert set(answer.json) == {"message", "trace_id"}


def test_a_refusal_comes_at_once(send, world):
    assert send(get_path("event", world), {}).end().status_code == 400
    assert send("/api/events/00000000-0000-4000-8000-000000000000/").end().status_code == 404


def test_an_eighth_of_the_threads_is_the_limit(send, app, world):
    app.config["SETTINGS"] = replace(app.config["SETTINGS"], web_threads=23)
    first, second = (send(get_path("generic", world)) for _ in range(2))
    third = send(get_path("generic", world)).end()

    assert "Preference-Applied" not in third.headers
    assert first.answer is second.answer is None
    process_lane.run(world.service.id)
    for pending in (first, second):
        assert pending.end().json["incident"] == 1


def test_a_fifth_request_of_an_integration_is_answered_at_once(send, world):
    pending = [send(get_path("generic", world)) for _ in range(alert_results.MAX_PER_KEY)]
    more = send(get_path("generic", world)).end()

    assert "Preference-Applied" not in more.headers
    process_lane.run(world.service.id)
    assert [each.end().json["incident"] for each in pending] == [1] * 4


def test_one_thread_reads_for_all_requests_and_none_holds_a_connection(send, world):
    pending = [send(get_path("generic", world)) for _ in range(4)]

    readers = [thread for thread in threading.enumerate() if thread.name == "alert results"]
    assert len(readers) == 1
    # One is that of this test, one that of the reader, which has it for a moment.
    wait_until(lambda: count_used_connections(db.obj) == 1)
    process_lane.run(world.service.id)
    for each in pending:
        each.end()


def test_a_store_may_fail_for_a_moment(send, world, monkeypatch):
    failed = threading.Event()

    def fail(_):
        failed.set()
        raise peewee.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(alert_results, "find_results", fail)
        pending = send(get_path("generic", world))
        assert failed.wait(PATIENCE_S)
    process_lane.run(world.service.id)

    assert pending.end().json["incident"] == 1


def test_a_process_that_stops_ends_all_waits(send, world, monkeypatch):
    monkeypatch.setattr(events, "results", alert_results.AlertResults())
    pending = send(get_path("generic", world))
    events.results.close()

    assert set(pending.end().json) == {"message", "trace_id"}
    assert set(send(get_path("generic", world)).end().json) == {"message", "trace_id"}


def test_a_request_ends_when_its_client_leaves(app, world):
    body = json.dumps(CRITICAL)
    head = f"POST {get_path('event', world)} HTTP/1.1\r\nHost: x\r\nPrefer: wait=10\r\n"
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        with granian_worker.run(app, listening, backlog=BACKLOG, shares=Shares(16, 10), connections=64):
            with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as sock:
                sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                wait_until(lambda: count_open() == 1)
            wait_until(lambda: count_open() == 0, seconds=8)
