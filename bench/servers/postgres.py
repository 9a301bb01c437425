"""Create a database for a measurement on a PostgreSQL server, and list its backends."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import psycopg

from bench.servers.processes import Process, list_by_title

# A server that does not answer counts as unavailable.
CONNECT_S = 3
# Without these settings, a 2xx does not mean that the alert is on disk.
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class ServerUnavailable(RuntimeError):
    """There is no PostgreSQL server, or its commits are not durable."""


@dataclass(frozen=True, slots=True)
class Database:
    url: str
    name: str

    def backends(self, but: frozenset[int] = frozenset()) -> list[Process]:
        """Return the backends of this database, found by their process titles.

        Processes that serve all databases together (checkpointer, log writer) are not included.
        """
        return [
            one
            for one in list_by_title("postgres:")
            if self.name in one.command.split() and one.pid not in but
        ]


@contextmanager
def create_own_database(server: str) -> Iterator[Database]:
    """Create a database, and drop it with the context even if it is in use. Raise ServerUnavailable."""
    name = f"tocsin_bench_{secrets.token_hex(4)}"
    with _connected(server) as talk:
        lax = [setting for setting in DURABLE if talk.execute(f"show {setting}").fetchone() != ("on",)]
        if lax:
            raise ServerUnavailable(f"commits of the server are not durable: {', '.join(lax)} is not on")
        talk.execute(f'create database "{name}"')
    try:
        yield Database(_beside(server, name), name)
    finally:
        with _connected(server) as talk:
            talk.execute(f'drop database if exists "{name}" with (force)')


def _beside(server: str, name: str) -> str:
    """Return the URL of another database of the same server."""
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc}/{name}" + (f"?{parts.query}" if parts.query else "")


def version(server: str) -> str:
    """Return the version and the durability settings of the server. Raise ServerUnavailable."""
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
