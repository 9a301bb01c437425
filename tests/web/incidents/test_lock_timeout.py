"""A request does not wait for ever for the lock of a service."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from models.load.lane import lock_service
from models.store.base import connection, db


def test_a_request_that_waits_too_long_for_a_lock_is_a_503_and_alerts_are_accepted(ask, app, world, store):
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    number = ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id}).json[
        "incident_number"
    ]
    store.limit_lock_waits(0.2)

    def acknowledge():
        return ask("PATCH", f"/api/incidents/{number}/", {"status": 2})

    with ThreadPoolExecutor(1) as pool:
        with store.write_transaction():
            lock_service(world.service.id)
            answer = pool.submit(acknowledge).result(timeout=10)
            key = world.integration.integration_key
            alert = pool.submit(
                lambda: app.test_client().post(f"/api/integration/generic/{key}/", json={"message": "m"})
            )
            assert alert.result(timeout=10).status_code == 200
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert pool.submit(acknowledge).result(timeout=10).status_code == 200


def test_a_shorter_timeout_within_a_transaction_returns_to_that_of_the_process(empty_store):
    if empty_store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    empty_store.limit_lock_waits(7.0)
    with connection(), empty_store.write_transaction():
        with empty_store.lock_timeout(0.05):
            pass
        assert db.execute_sql("show lock_timeout").fetchone() == ("7s",)
