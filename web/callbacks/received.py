"""Remember the callbacks of providers, so that none acts twice.

A module first checks the signature of the raw body, then its age, then calls is_new(). A callback whose
signature contains no time must be remembered for as long as it could act.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from flask import request

from models.store.base import store
from models.store.ids import digest
from models.tables.callbacks import Callback
from web.http import serialization
from web.server_interface import CALLBACK_BYTES

# The age at which signatures become invalid. No clock of a provider is that wrong.
MAX_AGE = timedelta(minutes=5)
# The same callback is refused for this long: twice MAX_AGE, because a signature may be from the future too.
KEPT = 2 * MAX_AGE
MAX_BYTES = CALLBACK_BYTES
# Old callbacks that one callback deletes.
MAX_DELETED = 100


def read_body() -> bytes:
    """Return the raw body of a callback. TooLarge if it has more than MAX_BYTES."""
    request.max_content_length = MAX_BYTES
    return serialization.read_bytes()


T = TypeVar("T")


def is_new(provider: str, callback: str, now: datetime, kept: timedelta = KEPT) -> bool:
    """Remember a callback by its id at the provider, and return whether it is the first with this id.

    `kept`: for how long it is remembered. Needs no transaction.
    """
    key = digest(f"{provider}:{callback}")
    with store().write_transaction():
        _delete_old(now)
        new = Callback.insert(key=key, at=now, until=now + kept)
        return bool(list(new.on_conflict_ignore().returning(Callback.id).execute()))


def _delete_old(now: datetime) -> None:
    """Delete old callbacks that no other transaction deletes now: none may wait for another one."""
    is_old = (Callback.until < now) | (Callback.until.is_null() & (Callback.at < now - KEPT))
    old = Callback.select(Callback.id).where(is_old).limit(MAX_DELETED)
    rows = [row.id for row in store().for_update(old, skip_locked=True)]
    if rows:
        Callback.delete().where(Callback.id.in_(rows)).execute()


def was_handled(provider: str, callback: str) -> bool:
    """Return whether a callback was remembered."""
    key = digest(f"{provider}:{callback}")
    return bool(Callback.select().where(Callback.key == key).exists())


def handle_once(provider: str, callback: str, now: datetime, handle: Callable[[], T]) -> T | None:
    """Handle a callback, and remember it in the same transaction; None: it was handled before.

    If the process is killed in between, the callback counts as new.
    """
    with store().write_transaction():
        return handle() if is_new(provider, callback, now) else None
