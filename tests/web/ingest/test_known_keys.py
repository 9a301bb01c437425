"""A body is parsed only if its key is known; the transaction of the commit decides."""

from contextlib import contextmanager

import peewee
import pytest

from models.domain.values import replace
from models.tables.events import Receipt
from models.tables.services import Integration
from pipeline.sources.table import SOURCES
from web.ingest import events, group_commit, known_keys
from web.ingest.known_keys import KnownKeys

UNKNOWN = "00000000-0000-4000-8000-000000000000"
ALERT = {"message": "Disk full", "alert_type": "critical"}
GROUP = {"alerts": [{"labels": {"alertname": "A"}}]}

FORMS = (
    "/api/events/{}/",
    "/api/integration/generic/{}/",
    "/api/integration/generic/{}",
    "/api/integration/prometheus/{}/",
    "/api/integration/heartbeat/{}/",
)


@pytest.fixture
def parsed(monkeypatch):
    """Return a list of the parsed bodies. No key is remembered yet."""
    bodies: list[bytes] = []

    def count_calls(read):
        return lambda body: (bodies.append(body.raw), read(body))[1]

    monkeypatch.setattr(events.commits, "_keys", KnownKeys(group_commit._find_account))
    for extension, source in SOURCES.items():
        counted = replace(source, parse=count_calls(source.parse), count_alerts=count_calls(source.count))
        monkeypatch.setitem(SOURCES, extension, counted)
    return bodies


@pytest.mark.parametrize("form", FORMS)
def test_a_body_to_an_unknown_key_is_not_parsed(app, world, parsed, form):
    for key in (UNKNOWN, UNKNOWN):
        assert app.test_client().post(form.format(key), json=GROUP).status_code == 404

    assert parsed == []


@pytest.mark.parametrize("change", [{"is_enabled": False}, {"integration_type": 1}])
def test_the_transaction_decides_about_a_remembered_key(app, world, parsed, change):
    path = FORMS[1].format(world.integration.integration_key)
    client = app.test_client()
    assert client.post(path, json=ALERT).status_code == 200
    Integration.update(change).execute()

    assert [client.post(path, json=ALERT).status_code for _ in range(2)] == [404, 404]
    assert len(parsed) == 2  # the second body found the key forgotten
    assert Receipt.select().count() == 1


def test_a_remembered_key_costs_no_further_read(app, world, parsed, statements):
    path = FORMS[1].format(world.integration.integration_key)

    def count_statements():
        with statements() as seen:
            assert app.test_client().post(path, json=ALERT).status_code == 200
        return len([sql for sql, *_ in seen if "integration_key" in sql])

    assert [count_statements() for _ in range(3)] == [2, 1, 1]


def test_a_new_key_is_accepted_at_once(app, world, parsed):
    path = FORMS[1].format(UNKNOWN)
    assert app.test_client().post(path, json=ALERT).status_code == 404
    Integration.update(integration_key=UNKNOWN).execute()

    assert app.test_client().post(path, json=ALERT).status_code == 200


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("error", [OSError("Too many open files"), peewee.OperationalError("down")])
def test_a_key_that_cannot_be_looked_up_is_a_503(app, world, parsed, monkeypatch, form, error):
    """After a 404 the sender would not send the alert again."""

    @contextmanager
    def fail(_):
        raise error
        yield

    monkeypatch.setattr(group_commit, "connection", fail)
    answer = app.test_client().post(form.format(UNKNOWN), json=GROUP)

    assert answer.status_code == 503
    assert parsed == []


def test_the_number_of_remembered_keys_is_limited(monkeypatch):
    monkeypatch.setattr(known_keys, "MAX_KEYS", 2)
    looked_up: list[str] = []
    keys = KnownKeys(lambda key: looked_up.append(key) or "account")
    for key in ("a", "b", "c", "c", "a"):
        assert keys.accepts(key, None)

    assert looked_up == ["a", "b", "c", "a"]
    assert not keys.accepts("a", "other account")
