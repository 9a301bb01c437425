"""Errors that mean that the whole store is unusable, and errors of single statements or rows."""

import sqlite3

import peewee
import psycopg
import pytest
from playhouse.pool import MaxConnectionsExceeded

from models.store.store import STORE_ERRORS, connection, db
from tests.support import stores
from tests.support.stores import get_url

server = pytest.mark.skipif(not stores.SERVER, reason="for PostgreSQL")
embedded = pytest.mark.skipif(bool(stores.SERVER), reason="for SQLite")


def get_error(statement):
    with pytest.raises(STORE_ERRORS) as failure:
        db.execute_sql(statement)
    return failure.value


@server
@pytest.mark.parametrize(
    ("code", "is_down"),
    [
        ("XX001", False),
        ("40P01", False),
        ("55P03", False),
        ("57014", False),
        ("25006", True),
        ("53100", True),
        ("53300", True),
        ("57P03", True),
        ("08006", True),
    ],
)
def test_a_server_is_unavailable_by_its_error_code(store, code, is_down):
    error = get_error(f"do $$ begin raise exception 'no' using errcode = '{code}'; end $$")

    assert store.is_unavailable(error) is is_down


@server
def test_a_server_that_closed_the_connection_is_unavailable(store, home):
    ours = db.execute_sql("select pg_backend_pid()").fetchone()
    with psycopg.connect(get_url(home), autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", ours)

    assert store.is_unavailable(get_error("select 1"))
    assert store.is_unavailable(MaxConnectionsExceeded())


@embedded
@pytest.mark.parametrize(
    ("code", "is_down"),
    [
        (sqlite3.SQLITE_CORRUPT, False),
        (sqlite3.SQLITE_IOERR_READ, False),
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_READONLY_DBMOVED, True),
    ],
)
def test_a_file_is_unavailable_by_its_error_code(store, code, is_down):
    cause = sqlite3.OperationalError("no")
    cause.sqlite_errorcode = code

    assert store.is_unavailable(peewee.OperationalError(cause, "no")) is is_down


@embedded
def test_a_read_only_file_is_unavailable(store):
    with connection():
        db.execute_sql("pragma query_only = on")
        error = get_error("delete from account")
        db.execute_sql("pragma query_only = off")

    assert store.is_unavailable(error)


def test_an_error_of_our_code_is_not_an_error_of_the_store(store):
    assert not store.is_unavailable(ZeroDivisionError())
