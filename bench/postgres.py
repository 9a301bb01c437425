"""A database of one's own on a PostgreSQL server, and what its backends cost."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import psycopg

from bench.processes import Process, list_by_title

# A server that does not answer at all is as good as none.
CONNECT_S = 3
# Settings without which an answer would not mean that an alert is on disk.
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class ServerUnavailable(RuntimeError):
    """There is no PostgreSQL server to measure on, or none that keeps what it was given."""


@dataclass(frozen=True, slots=True)
class Database:
    url: str
    name: str

    def backends(self, but: frozenset[int] = frozenset()) -> list[Process]:
        """The server's processes that work for this database, told by their titles.

        What the server does for all of its databases together (its checkpoints, its log) is nobody's.
        """
        return [
            one
            for one in list_by_title("postgres:")
            if self.name in one.command.split() and one.pid not in but
        ]


@contextmanager
def create_own_database(server: str) -> Iterator[Database]:
    """A fresh database, dropped with the context whoever still uses it. Raises NoServer."""
    name = f"tocsin_bench_{secrets.token_hex(4)}"
    with _connected(server) as talk:
        lax = [setting for setting in DURABLE if talk.execute(f"show {setting}").fetchone() != ("on",)]
        if lax:
            raise ServerUnavailable(f"the server does not keep what it is given: {', '.join(lax)} is not on")
        talk.execute(f'create database "{name}"')
    try:
        yield Database(_beside(server, name), name)
    finally:
        with _connected(server) as talk:
            talk.execute(f'drop database if exists "{name}" with (force)')


def _beside(server: str, name: str) -> str:
    """The address of another database of the same server."""
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc}/{name}" + (f"?{parts.query}" if parts.query else "")


def version(server: str) -> str:
    """Of the server, and how its commits are kept. Raises NoServer."""
    with _connected(server) as talk:
        number = talk.info.parameter_status("server_version") or "?"
        return f"PostgreSQL {number.split()[0]}, fsync on"


@contextmanager
def _connected(server: str) -> Iterator["psycopg.Connection[tuple[str, ...]]"]:
    try:
        talk = psycopg.connect(server, autocommit=True, connect_timeout=CONNECT_S)
    except psycopg.OperationalError as error:
        raise ServerUnavailable(f"no PostgreSQL server answers: {type(error).__name__}") from None
    with talk:
        yield talk
