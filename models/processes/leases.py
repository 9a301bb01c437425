"""Leases: of several processes, one does a job; another one takes over if it ends or is killed.

Times are those of the database's clock, which all processes share. Each function needs a write transaction.
"""

from datetime import datetime, timedelta

from models.store import bulk
from models.tables.callbacks import Lease, ListenerPosition

# A holder that is killed is replaced after this time. It renews its lease three times within it.
LIFE = timedelta(seconds=6)


def take(name: str, holder: str, now: datetime) -> bool:
    """Take or renew a lease until now + LIFE. Return False if another process holds it."""
    bulk.insert(Lease, [{"name": name, "holder": holder, "until": now}], conflict=["name"])
    # A lease far in the future was written before the clock was set back.
    is_free = (Lease.until <= now) | (Lease.until > now + 2 * LIFE)
    query = Lease.update(holder=holder, until=now + LIFE)
    return bool(query.where(Lease.name == name, (Lease.holder == holder) | is_free).execute())


def release(name: str, holder: str) -> None:
    """End a lease, if this process holds it, so that another one need not wait for its end."""
    Lease.delete().where(Lease.name == name, Lease.holder == holder).execute()


def get_position(name: str) -> int | None:
    """Return the number of the last update that was handled; None: no update yet. Needs no transaction."""
    found = ListenerPosition.select(ListenerPosition.number).where(ListenerPosition.name == name)
    row = found.tuples().first()
    return row[0] if row is not None else None


def set_position(name: str, position: int) -> None:
    """Record that the update of this number is handled."""
    row = {"name": name, "number": position}
    bulk.insert(ListenerPosition, [row], conflict=["name"], replacing=["number"])
