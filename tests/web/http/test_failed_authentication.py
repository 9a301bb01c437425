"""A client address that sends many invalid tokens gets 429. Valid tokens of the same address are served."""

from datetime import timedelta

import peewee
import psycopg
import pytest
from structlog.testing import capture_logs

from models.store.limits import Limits
from models.store.store import db
from models.tables.accounts import FailedAuthentication
from tests.support import stores
from tests.support.stores import hold_write_lock
from web.http import auth, failed_authentication
from web.http.errors import Throttled
from web.http.failed_authentication import LIMIT, MAX_ADDRESSES, STEP, FailureCounter

TEAMS = "/api/account/teams/"
CLIENT = "203.0.113.7"


@pytest.fixture(autouse=True)
def _fixed_clock(monkeypatch, now):
    """All requests are in the same minute."""
    monkeypatch.setattr(auth, "now", lambda: now)
    monkeypatch.setattr("web.app.auth.now", lambda: now)


@pytest.fixture
def guess(ask):
    """guess(client): one request with an invalid token."""

    def guess(client: str = CLIENT, **headers: str):
        return ask(
            "GET", TEAMS, who=None, environ_base={"REMOTE_ADDR": client},
            headers={"Authorization": "Token wrong", **headers},
        )  # fmt: skip

    return guess


def test_too_many_invalid_tokens_of_an_address_get_429(ask, guess, world):
    with capture_logs() as logged:
        statuses = [guess().status_code for _ in range(LIMIT + 5)]

    assert statuses == [401] * (LIMIT - 1) + [429] * 6
    assert guess().headers["Retry-After"] == "60"
    assert [(line["client"], line["log_level"]) for line in logged] == [(CLIENT, "warning")]
    assert guess("203.0.113.8").status_code == 401
    # Valid tokens of this address are served.
    assert ask("GET", TEAMS, environ_base={"REMOTE_ADDR": CLIENT}).status_code == 200


def test_a_request_without_a_token_does_not_count(ask, guess):
    for _ in range(LIMIT):
        assert ask("GET", TEAMS, who=None, environ_base={"REMOTE_ADDR": CLIENT}).status_code == 401

    assert guess().status_code == 401


def test_a_header_of_the_client_does_not_change_its_address(guess):
    for number in range(LIMIT):
        guess(**{"X-Forwarded-For": f"198.51.100.{number}", "X-Real-Ip": f"198.51.100.{number}"})

    assert guess(**{"X-Forwarded-For": "198.51.100.99", "Forwarded": "for=198.51.100.99"}).status_code == 429


def test_valid_tokens_cost_no_statement(ask, statements):
    ask("GET", TEAMS)
    with statements() as seen:
        assert ask("GET", TEAMS).status_code == 200

    assert [sql for sql, _ in seen if "failed_authentication" in sql] == []


def test_a_refused_client_costs_no_statement_but_the_search_for_its_token(guess, statements):
    for _ in range(LIMIT):
        guess()
    with statements() as seen:
        assert guess().status_code == 429

    assert len([sql for sql, _ in seen if not sql.startswith(("BEGIN", "COMMIT"))]) == 1


def count_all(counter: FailureCounter, times: int, now, client: str = CLIENT) -> int:
    """Return how many of these failures were not throttled."""
    accepted = 0
    for _ in range(times):
        try:
            counter.count(client, now)
            accepted += 1
        except Throttled:
            pass
    return accepted


def test_all_processes_share_the_count(store, now):
    first, second = FailureCounter(), FailureCounter()

    assert count_all(first, LIMIT - STEP, now) == LIMIT - STEP
    assert count_all(second, 2 * STEP, now) == STEP - 1
    # The first process learns of it with its next step.
    assert count_all(first, 2 * STEP, now) == STEP - 1


def test_the_next_minute_begins_with_nothing(store, now):
    counter = FailureCounter()
    assert count_all(counter, LIMIT, now) == LIMIT - 1

    assert count_all(counter, LIMIT, now + timedelta(minutes=1)) == LIMIT - 1
    # Rows of before are deleted.
    count_all(counter, STEP, now + timedelta(minutes=2), "198.51.100.1")
    assert [row.address for row in FailedAuthentication.select()] == ["198.51.100.1"]


def test_a_few_failures_of_many_addresses_write_nothing(store, now):
    counter = FailureCounter()
    for number in range(200):
        count_all(counter, STEP - 1, now, f"198.51.{number}.1")

    assert FailedAuthentication.select().count() == 0


def test_the_counted_addresses_are_bounded(store, now, monkeypatch):
    monkeypatch.setattr(failed_authentication, "MAX_ADDRESSES", 3)
    counter = FailureCounter()
    for number in range(9):
        count_all(counter, LIMIT, now, f"198.51.100.{number}")

    assert FailedAuthentication.select().count() == 3
    assert MAX_ADDRESSES == 10_000


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("203.0.113.7", "203.0.113.7"),
        ("x" * 500, "x" * 64),
        ("", ""),
    ],
)
def test_a_network_of_ipv6_counts_as_one_client(store, now, client, counted):
    count_all(FailureCounter(), STEP, now, client)

    assert FailedAuthentication.get().address == counted


def test_a_store_that_cannot_write_leaves_the_401(guess, monkeypatch):
    def fail(*_: object) -> None:
        raise peewee.OperationalError

    monkeypatch.setattr(FailedAuthentication, "delete", fail)

    assert {guess().status_code for _ in range(LIMIT + 5)} == {401}
    assert db.is_closed() is False


def test_rows_are_deleted_only_under_the_lock_of_the_writers(store, home, now):
    if not store.has_single_writer:
        pytest.skip("for SQLite")
    FailedAuthentication.create(address="198.51.100.1", minute=1, count=STEP)
    store.set_limits(Limits(lock_s=0.05))
    counter = FailureCounter()
    with hold_write_lock(home):
        for _ in range(STEP):
            counter.count(CLIENT, now)

    assert [row.address for row in FailedAuthentication.select()] == ["198.51.100.1"]


def test_old_rows_that_another_process_has_locked_are_skipped(store, home, now):
    if store.has_single_writer:
        pytest.skip("SQLite has no locks of rows")
    for number in range(3):
        FailedAuthentication.create(address=f"198.51.100.{number}", minute=1, count=STEP)
    store.set_limits(Limits(lock_s=0.2))
    counter = FailureCounter()
    with psycopg.connect(stores.get_url(home)) as other:
        other.execute("select 1 from failed_authentication where address = '198.51.100.1' for update")
        for _ in range(STEP):
            counter.count(CLIENT, now)

    addresses = [row.address for row in FailedAuthentication.select().order_by(FailedAuthentication.id)]
    assert addresses == ["198.51.100.1", CLIENT]
