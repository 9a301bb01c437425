"""/healthz and /readyz: Tocsin is ready if alerts can be committed."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from models.processes import pause
from models.store.limits import WEB, Limits, Use
from models.store.store import db
from models.tables.accounts import Liveness
from models.tables.events import Receipt
from runtime.settings import load
from tests.support.dead_letters import add_dead_letter_body
from tests.support.stores import SERVER, get_url
from tests.support.web.apps import get_app
from web.operations import health


@pytest.fixture
def probe(monkeypatch):
    probe = health.Probe()
    monkeypatch.setattr(health, "probe", probe)
    monkeypatch.setattr(health, "CACHE_S", 0.0)
    monkeypatch.setattr(health, "insert_test", health.InsertTest())
    yield probe
    probe.close()


@pytest.fixture
def client(store, home, probe):
    return get_app(load({"TOCSIN_HOME": str(home)})).test_client()


@pytest.fixture
def block_writes(store, home, monkeypatch) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that blocks all writes. A probe then gives up early."""

    @contextmanager
    def sqlite():
        with (home / "write.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def postgresql():
        with psycopg.connect(get_url(home)) as other:
            other.execute("lock table liveness in exclusive mode")
            yield

    monkeypatch.setattr(health, "TIMEOUT_S", 0.2)
    return postgresql if SERVER else sqlite


def test_healthz_is_alive(client):
    answer = client.get("/healthz")

    assert (answer.status_code, answer.json) == (200, {"status": "alive"})


# Channels that send to URLs of users need no setting.
CHANNELS_WITHOUT_SETTINGS = {
    **dict.fromkeys(("email", "sms", "phone", "slack", "telegram"), "not set"),
    **dict.fromkeys(("teams", "google_chat", "mattermost", "discord", "webhook", "ntfy", "web_push"), "ok"),
}


def test_readyz_is_ready_without_redis_clock_and_mail(client):
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json == {
        "status": "degraded",
        "database": "ok",
        "broker": "away",
        "clock": "degraded",
        "mail": "not set",
        "channels": CHANNELS_WITHOUT_SETTINGS,
        "dead_letters": 0,
        "locked_services": [],
    }


def test_readyz_names_services_whose_lock_is_held_and_stays_200(client, monkeypatch, store):
    monkeypatch.setattr(health, "list_locked_services", lambda now: ["a4f1"])
    answer = client.get("/readyz")

    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    assert (answer.json["services"], answer.json["locked_services"]) == ("waiting", ["a4f1"])
    page = client.get("/", headers={"Accept": "text/html"})
    assert "A process that hangs has locked services" in page.text


def test_readyz_shows_dead_letters_and_stays_ready(client, world, now):
    before = client.get("/readyz").json
    add_dead_letter_body(world, now)
    after = client.get("/readyz").json

    assert after == {**before, "dead_letters": 1}


def test_readyz_says_that_a_restored_copy_is_paused(client, store, now):
    with store.write_transaction():
        pause.pause(now, "2026-03-04")
    answer = client.get("/readyz")

    assert (answer.status_code, answer.json["status"]) == (200, "paused")


@pytest.mark.parametrize(("age", "state"), [(1, "ok"), (16, "degraded")])
def test_readyz_shows_a_clock_without_liveness_for_15_seconds(client, store, age, state):
    with store.write_transaction():
        Liveness.create(process="clock", at=datetime.now(UTC) - timedelta(seconds=age))

    assert client.get("/readyz").json["clock"] == state


def test_a_result_is_cached_from_the_end_of_its_probe(client, block_writes, probe, monkeypatch):
    """Otherwise each request that waits for a busy store would start its own probe, one after the other."""
    monkeypatch.setattr(health, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(health, "CACHE_S", 0.4)
    looks = []
    looked = probe._check
    monkeypatch.setattr(probe, "_check", lambda: looks.append(1) or looked())

    with block_writes():
        responses = [client.get("/readyz").status_code for _ in range(2)]

    assert (responses, len(looks)) == ([503, 503], 1)


def test_readyz_is_unavailable_while_writes_are_blocked(client, block_writes):
    with block_writes():
        refused = client.get("/readyz")
        again = client.get("/readyz")

    assert (refused.status_code, refused.json["database"]) == (503, "busy")
    assert (again.status_code, again.json["status"]) == (503, "unavailable")


def test_readyz_is_unavailable_when_writing_fails(empty_store, home, probe):
    """A write to a database without tables fails."""
    home.mkdir(exist_ok=True)
    client = get_app(load({"TOCSIN_HOME": str(home)})).test_client()

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json["database"]) == (503, "failed")


@pytest.fixture
def fill_disk(store, home) -> Iterator[Callable[[], None]]:
    """Return a function after which no row gets new space."""

    def sqlite():
        # The schema may have free pages, of an index that a migration dropped.
        db.execute_sql("vacuum")
        pages = db.execute_sql("pragma page_count").fetchone()[0]
        # Of each connection, not of the file.
        store.database.pragma("max_page_count", pages, permanent=True)
        db.close_all()

    def postgresql():
        other.execute(
            "create function refuse() returns trigger language plpgsql as "
            "$$ begin raise exception 'No space left on device' using errcode = '53100'; end $$"
        )
        other.execute("create trigger full_disk before insert on receipt execute function refuse()")

    if not SERVER:
        yield sqlite
        return
    with psycopg.connect(get_url(home), autocommit=True) as other:
        yield postgresql
        other.execute("drop function refuse() cascade")


def test_a_full_disk_is_not_ready_and_refuses_alerts(client, world, fill_disk):
    path = f"/api/integration/generic/{world.integration.integration_key}/"
    assert client.get("/readyz").status_code == 200
    health.insert_test = health.InsertTest()
    fill_disk()

    answer = client.get("/readyz")
    refused = client.post(path, json={"message": "m", "payload": {"text": "x" * 20_000}})

    assert (answer.status_code, answer.json["database"]) == (503, "failed")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")


def test_the_test_of_an_insert_leaves_no_receipt_and_does_not_run_for_each_probe(client, world, statements):
    with statements() as seen:
        for _ in range(5):
            assert client.get("/readyz").status_code == 200

    assert sum('INSERT INTO "receipt"' in str(entry) for entry in seen) == 1
    assert Receipt.select().count() == 0


def test_a_probe_uses_a_reserved_connection(client, store):
    """All others may hang."""
    if not SERVER:
        pytest.skip("an embedded store has no connections")
    store.set_limits(Limits(connections={**WEB.connections, Use.OTHER: 0}))

    assert client.get("/readyz").status_code == 200
