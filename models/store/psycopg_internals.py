"""Connections to PostgreSQL that can be ended early: the only file with private names of psycopg.

docs/upgrading-dependencies.md lists each name with the test that notices when it breaks.
"""

from typing import Any

import peewee
import psycopg
from psycopg.abc import PQGenConn
from psycopg.pq import TransactionStatus
from psycopg.types.json import Json, Jsonb

# Raised by Connection.wait() after its timeout.
TimedOut: type[psycopg.Error] = psycopg.errors._WaitTimeout


def _give_driver() -> None:
    """Give peewee what it takes from the driver when it is loaded with it (tocsin/commands/loading.py)."""
    adapter = peewee.Psycopg3Adapter
    for place, name, value in (
        (peewee, "psycopg", psycopg),
        (peewee, "TransactionStatus", TransactionStatus),
        (peewee, "Json_pg3", Json),
        (peewee, "Jsonb_pg3", Jsonb),
        (adapter, "txn_idle", TransactionStatus.IDLE),
        (adapter, "txn_inerror", TransactionStatus.INERROR),
        (adapter, "txn_unknown", TransactionStatus.UNKNOWN),
    ):
        setattr(place, name, value)


_give_driver()


class StoppableConnection(psycopg.Connection[Any]):
    """A connection whose opening ends as soon as the subclass says so."""

    @classmethod
    def must_stop(cls) -> bool:
        """Return whether the attempt to connect must end now. The driver asks several times a second."""
        return False

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn["StoppableConnection"]:
        """Connect as the base class does; raise ConnectionTimeout when the attempt must end."""
        # The driver continues the generator at least every 0.1 s. Its own timeout has whole seconds.
        steps = super()._connect_gen(conninfo)
        try:
            step = next(steps)
            while not cls.must_stop():
                step = steps.send((yield step))
        except StopIteration as done:
            opened: StoppableConnection = done.value
            return opened
        raise psycopg.errors.ConnectionTimeout("the deadline of the request was reached")
