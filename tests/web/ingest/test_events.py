"""Acceptance of alerts: the answers, the stored receipts and the refused requests."""

import errno
import json
import threading
from contextlib import contextmanager
from datetime import timedelta

import peewee
import pytest
from playhouse.pool import MaxConnectionsExceeded

from models.store.ids import make_short_id
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Integration
from tests.support.polling import PATIENCE_S, wait_until
from web.ingest import events, group_commit
from workers.alerts import process_lane
from workers.periodic import retention

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


@pytest.fixture
def key(world):
    return world.integration.integration_key


def get_path(form, world):
    key, account = world.integration.integration_key, world.account.account_identifier
    return {
        "event": f"/api/events/{key}/",
        "generic": f"/integration/{account}/generic/{key}/",
        "prometheus": f"/api/integration/prometheus/{key}/",
        "prometheus, newer": f"/integration/{account}/prometheus/{key}/",
    }[form]


GROUP = {"version": "4", "alerts": [{"status": "firing", "labels": {"alertname": "A"}, "fingerprint": "f"}]}


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_the_deprecated_form_returns_the_event_with_its_final_ids(ask, world, scheme):
    answer = ask("POST", get_path("event", world), {**CRITICAL, "payload": {"a": 1}}, scheme=scheme)
    process_lane.run(world.service.id)

    assert answer.status_code == 201
    keys = {
        "integration_object", "summary", "incident", "creation_date", "message", "integration", "suppressed",
        "entity_id", "payload", "alert_type", "unique_id", "images", "urls", "notes", "incident_created",
    }  # fmt: skip
    assert set(answer.json) == (keys if scheme == "Bearer" else keys - {"payload"})
    assert answer.json["alert_type"] == "3"
    event = Event.get()
    assert (answer.json["unique_id"], answer.json["entity_id"]) == (event.unique_id, event.entity_id)


def test_the_incident_has_the_generated_entity_id_of_the_answer(ask, world):
    answer = ask("POST", get_path("event", world), {"message": "m", "alert_type": "critical"}, who=None)
    process_lane.run(world.service.id)

    assert len(answer.json["entity_id"]) == 32
    assert Event.get().entity_id == answer.json["entity_id"]


@pytest.mark.parametrize(
    ("form", "body"), [("generic", CRITICAL), ("prometheus", GROUP), ("prometheus, newer", GROUP)]
)
def test_the_other_forms_return_a_trace_id(ask, world, form, body):
    answer = ask("POST", get_path(form, world), body, who=None)

    assert answer.status_code == 200
    assert answer.json == {"message": "success", "trace_id": Receipt.get().trace_id}


@pytest.mark.parametrize(
    "path",
    [
        "/api/events/00000000-0000-4000-8000-000000000000/",
        "/api/events/nonsense/",
        "/integration/zzzzz/generic/{key}/",
        "/integration/{account}/nonsense/{key}/",
        "/api/integration/nonsense/{key}/",
    ],
)
def test_an_unknown_address_is_not_found_and_stores_nothing(ask, world, path):
    filled = path.format(key=world.integration.integration_key, account=world.account.account_identifier)

    answer = ask("POST", filled, CRITICAL, who=None)

    assert (answer.status_code, answer.json) == (404, {"detail": "Not Found."})
    assert not Receipt.select().exists()


@pytest.mark.parametrize("change", [{"is_enabled": False}, {"integration_type": 1}])
def test_a_disabled_or_outbound_integration_accepts_no_alerts(ask, world, change):
    Integration.update(change).execute()

    assert ask("POST", get_path("event", world), CRITICAL, who=None).status_code == 404


@pytest.mark.parametrize("body", [b"nonsense", b"[]", b'{"message": 5}', b"", b'{"message": " "}'])
def test_a_body_that_is_no_alert_is_refused_and_not_stored(ask, world, body):
    answer = ask("POST", get_path("event", world), who=None, data=body, content_type="application/json")

    assert (answer.status_code, answer.json["detail"]) == (400, "This request can not be processed.")
    assert set(answer.json["errors"]) <= {"body", "message"}
    assert all(answer.json["errors"].values())
    assert not Receipt.select().exists()


@pytest.mark.parametrize("who", [None, "alice"])
def test_the_error_names_the_field(ask, world, who):
    answer = ask("POST", get_path("event", world), {"message": "m", "alert_type": "loud"}, who=who)

    assert list(answer.json["errors"]) == ["alert_type"]


@pytest.mark.parametrize(("form", "limit"), [("generic", 512 * 1024), ("prometheus", 8 * 1024 * 1024)])
def test_a_body_over_its_limit_is_too_large(ask, world, form, limit):
    def send(size):
        body = dict(CRITICAL) if form == "generic" else json.loads(json.dumps(GROUP))
        body["padding"] = ""
        body["padding"] = "x" * (size - len(json.dumps(body)))
        return ask(
            "POST", get_path(form, world), who=None, data=json.dumps(body), content_type="application/json"
        )

    assert send(limit + 1).status_code == 413
    assert send(limit).status_code == 200
    assert Receipt.select().count() == 1


def nest(levels):
    """Return an object with this many levels of objects and lists."""
    inner = "x"
    for level in range(levels - 1):
        inner = [inner] if level % 2 else {"a": inner}
    return {"payload": inner}


@pytest.mark.parametrize("form", ["event", "generic"])
def test_a_payload_has_at_most_100_levels(ask, world, form):
    """The limit that docs/api.md states, on both addresses; the second one has a fast path."""
    deepest = ask("POST", get_path(form, world), {**CRITICAL, "payload": nest(100)}, who=None)
    refused = ask("POST", get_path(form, world), {**CRITICAL, "payload": nest(101)}, who=None)

    assert deepest.status_code in (200, 201)
    assert (refused.status_code, list(refused.json["errors"])) == (400, ["payload"])
    assert Receipt.select().count() == 1


def test_a_message_is_truncated_after_1000_characters(ask, world):
    sent = ask("POST", get_path("event", world), {**CRITICAL, "message": "m" * 1001, "summary": "s" * 16_385})

    assert sent.status_code == 201
    assert (len(sent.json["message"]), len(sent.json["summary"])) == (1000, 16_384)


def test_simultaneous_requests_share_a_commit(app, world, monkeypatch):
    """While one commit is blocked, other requests arrive. The next commit contains all of them."""
    may_commit, groups = threading.Event(), []
    real = group_commit._store_group

    def commit_slowly(group):
        groups.append(len(group))
        if len(groups) == 1:
            may_commit.wait(PATIENCE_S)
        real(group)

    monkeypatch.setattr(group_commit, "_store_group", commit_slowly)
    codes = []
    lock = threading.Lock()

    def send():
        code = app.test_client().post(get_path("generic", world), json=CRITICAL).status_code
        with lock:
            codes.append(code)

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_until(lambda: groups and groups[0] + len(events.commits._pending) == 20)
    may_commit.set()
    for thread in threads:
        thread.join()

    assert codes == [200] * 20
    # It is one group if all requests arrived before the first commit began.
    assert len(groups) <= 2
    assert sum(groups) == 20
    assert Receipt.select().count() == 20


def test_a_committed_request_is_answered_while_the_next_commit_hangs(app, world, monkeypatch):
    started, may_end = threading.Semaphore(0), threading.Semaphore(0)
    real = group_commit._store_group

    def commit_in_steps(group):
        started.release()
        assert may_end.acquire(timeout=10)
        real(group)

    monkeypatch.setattr(group_commit, "_store_group", commit_in_steps)
    codes = []

    def send():
        codes.append(app.test_client().post(get_path("generic", world), json=CRITICAL).status_code)

    threads = [threading.Thread(target=send) for _ in range(7)]
    for more, expected_pending in ((threads[:1], 0), (threads[1:6], 5), (threads[6:], 1)):
        for thread in more:
            thread.start()
        wait_until(lambda expected_pending=expected_pending: len(events.commits._pending) == expected_pending)
        if expected_pending:
            may_end.release()
        assert started.acquire(timeout=10)

    wait_until(lambda: len(codes) == 6)
    may_end.release()
    for thread in threads:
        thread.join()
    assert codes == [200] * 7


def test_more_requests_than_max_group_need_more_than_one_commit(app, world, monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_GROUP", 3)
    codes = []

    def send():
        codes.append(app.test_client().post(get_path("generic", world), json=CRITICAL).status_code)

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codes == [200] * 10
    assert Receipt.select().count() == 10


def test_one_bad_row_of_a_group_fails_alone(world):
    good, twin = (
        group_commit.Submission(world.integration.integration_key, None, "generic", b"{}", 1, trace)
        for trace in ("a" * 36, "b" * 36)
    )
    Receipt.insert(
        trace_id="b" * 36,
        account=world.account,
        source="generic",
        body=b"",
        received_at=world.team.creation_date,
    ).execute()
    commits = group_commit.GroupCommit()
    commits._pending = [good, twin]
    commits._commit_group()

    assert good.error is None
    assert isinstance(twin.error, peewee.IntegrityError)


def test_a_commit_with_an_unknown_outcome_is_a_503(ask, world, monkeypatch):
    def fail(_):
        raise peewee.OperationalError("disk I/O error")

    monkeypatch.setattr(group_commit, "_store_group", fail)
    answer = ask("POST", get_path("generic", world), CRITICAL, who=None)

    assert answer.status_code == 503


def test_without_a_connection_to_the_store_a_request_is_a_503(ask, monkeypatch):
    def fail():
        raise MaxConnectionsExceeded

    monkeypatch.setattr("web.app.connection", fail)

    assert ask("GET", "/api/account/teams/").status_code == 503


def send_alert(ask, world):
    return ask("POST", get_path("generic", world), CRITICAL, who=None).json["trace_id"]


def test_the_time_of_acceptance_comes_from_the_store(ask, world, now, monkeypatch):
    """With the time of a host whose clock is fast, all notifications would be late."""
    monkeypatch.setattr(type(group_commit.store()), "now", lambda _: now)
    ask("POST", get_path("event", world), CRITICAL)

    assert Receipt.get().received_at == now


def test_a_store_that_cannot_be_opened_is_a_503(ask, world, monkeypatch):
    """Errors of other libraries count, too: the process can be out of file descriptors or connections."""

    @contextmanager
    def fail_to_open():
        raise OSError(errno.EMFILE, "Too many open files")
        yield

    monkeypatch.setattr(group_commit, "connection", fail_to_open)
    answer = ask("POST", get_path("event", world), CRITICAL)

    assert answer.status_code == 503


def test_the_status_goes_from_queued_to_completed(ask, world):
    trace_id = send_alert(ask, world)
    before = ask("GET", f"/api/alert/status/{trace_id}/").json
    process_lane.run(world.service.id)
    after = ask("GET", f"/api/alert/status/{trace_id}/").json

    assert (before["status"], before["alert"], before["incident"]) == ("queued", None, None)
    incident = Incident.get()
    assert after == {
        "status": "completed",
        "alert": Event.get().unique_id,
        "integration": {"name": "Probe"},
        "incident": {"incident_number": 1, "unique_id": incident.unique_id},
        "suppressed": False,
        "is_incident_created": True,
    }


@pytest.mark.parametrize("path", ["/api/alert/status/{}/", "/api/tocsin/alerts/{}/"])
@pytest.mark.parametrize(
    ("who", "status"), [("alice", 200), ("bob", 200), ("charlie", 403), ("mallory", 404), (None, 401)]
)
def test_only_the_team_of_the_service_may_see_an_alert(ask, world, path, who, status):
    assert ask("GET", path.format(send_alert(ask, world)), who=who).status_code == status


def test_an_unknown_trace_id_is_not_found(ask):
    assert ask("GET", "/api/alert/status/nonsense/").status_code == 404


def test_the_alert_trace_shows_the_stages(ask, world):
    trace_id = send_alert(ask, world)
    process_lane.run(world.service.id)
    shown = ask("GET", f"/api/tocsin/alerts/{trace_id}/").json

    assert shown["alerts"][0]["stages"][-1] == {"stage": "notify", "reason": "Notified now: Alice."}
    assert shown["received_at"].endswith("Z")
    assert "alice@example.org" not in json.dumps(shown)


def test_the_alert_trace_has_pages(ask, world):
    trace_id = send_alert(ask, world)
    process_lane.run(world.service.id)
    event = Event.get()
    for position in (1, 2):
        columns = get_values(event) | {"unique_id": make_short_id(), "position": position}
        del columns["id"]
        Event.create(**columns)
    path = f"/api/tocsin/alerts/{trace_id}/"

    first, last = (ask("GET", f"{path}?page={page}&page_size=2").json for page in (1, 2))

    assert (first["count"], len(first["alerts"]), first["previous"]) == (3, 2, None)
    assert first["next"].endswith(f"{path}?page=2&page_size=2")
    assert (len(last["alerts"]), last["next"]) == (1, None)
    assert ask("GET", f"{path}?page=3&page_size=2").status_code == 404
    assert ask("GET", path).json["next"] is None


def test_the_trace_of_a_deleted_alert_says_when_alerts_are_deleted(ask, world, now):
    trace_id = send_alert(ask, world)
    process_lane.run(world.service.id)
    path = f"/api/tocsin/alerts/{trace_id}/"
    foreign = ask("GET", path, who="mallory").json
    Event.update(incident=None).execute()
    retention.clean_up(store().now() + timedelta(days=31))

    gone = ask("GET", path)

    says = "No alert with this trace_id is stored. Alerts are deleted 30 days after they were accepted."
    assert (gone.status_code, gone.json["detail"]) == (404, says)
    assert foreign == gone.json, "the answer does not show whether another account has the alert"
