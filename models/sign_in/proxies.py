"""Proxies that are not trusted and send X-Forwarded-For, for `tocsin check`."""

from datetime import datetime

from models.tables.sign_in import UntrustedProxy


def record(address: str, at: datetime, most: int) -> None:
    """Store that this address was seen, unless so many others are stored. Needs a write transaction."""
    table = UntrustedProxy
    changed = table.update(seen_at=at).where(table.address == address).execute()
    if not changed and table.select().count() < most:
        table.insert(address=address, seen_at=at).on_conflict_ignore().execute()
