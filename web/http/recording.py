"""Record what a viewer changes in the history of the account, in the transaction of the change.

`open_recording()` begins a batch: all changes until its end belong together, and an undo can undo them
together. Each transaction of the configuration opens one (web/http/resource.py), in which a resource records
what it writes and `begin_change` (web/http/writing.py) what another operation writes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import peewee
from flask import has_request_context, request

from models.changes.record import DETAIL_LIMIT, Actor, ChangedObject, Content, add_change, shorten
from models.sign_in import audit, sessions
from models.store.fields import Table
from models.store.ids import make_short_id
from models.tables.accounts import Account, User, get_display_name
from models.tables.teams import Team
from web.http.auth import now, viewer
from web.http.failed_authentication import get_network

# So many characters of the name of a role or a team leave room for permissions.
NAME_SHOWN = 60


@dataclass
class Recording:
    """The batch of the changes that are made now. `undoes` is the change that they undo."""

    batch: str
    undoes: str | None = None
    # What is compared and recorded at the end of the transaction.
    pending: list[Callable[[], None]] = field(default_factory=list)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def open_recording() -> Iterator[Recording]:
    """Begin a batch of changes. In another batch, go on with that one."""
    current = _recording.get()
    if current is not None:
        yield current
        return
    started = Recording(make_short_id())
    token = _recording.set(started)
    try:
        yield started
    finally:
        _recording.reset(token)


def record_pending() -> None:
    """Record the changes that begin_change() began. Call it at the end of each transaction."""
    current = _get_recording()
    pending, current.pending = current.pending, []
    for record_part in pending:
        record_part()


def record_later(record_part: Callable[[], None]) -> None:
    """Do this at the end of the transaction, when the object has its new values."""
    _get_recording().pending.append(record_part)


def record_change(changed: ChangedObject, content: Content) -> None:
    """Record that the viewer changed an object, in the caller's transaction."""
    current = _get_recording()
    add_change(viewer().account.id, now(), build_actor(), changed, content, current.batch, current.undoes)


def _get_recording() -> Recording:
    current = _recording.get()
    if current is None:
        raise RuntimeError("an object of the configuration is changed outside a config_transaction()")
    return current


def build_actor() -> Actor:
    """Return the viewer as the actor of a change."""
    me = viewer()
    return Actor(get_display_name(me.user), me.way, me.user, me.token_name, _get_client())


def find_scope(row: Table) -> tuple[int | None, int | None]:
    """Return the row numbers of the team and of the person to whom an object of this parent belongs.

    None and None: it belongs to the account.
    """
    owner = row
    while not isinstance(owner, Team | User | Account):
        found = next((name for name in _OWNERS if hasattr(type(owner), name)), None)
        if found is None:
            return None, None
        owner = getattr(owner, found)
    return owner.id if isinstance(owner, Team) else None, owner.id if isinstance(owner, User) else None


# The columns that name the owner of an object, from the nearest one.
_OWNERS = (
    "integration",
    "service",
    "schedule",
    "task_template",
    "contact",
    "router",
    "team",
    "user",
    "account",
)


def record(user: User, action: str, detail: str = "") -> None:
    """Record that the viewer changed rights of this person, or removed the person."""
    audit.record(user, action, now(), actor=build_actor(), detail=detail)


def record_rights(user: User, action: str, detail: str) -> None:
    """Record a change of this person's rights. The sessions of the person get new secrets."""
    record(user, action, detail)
    sessions.renew_later([user.id])


def record_shared_rights(persons: "peewee.ModelSelect[User]", action: str, detail: str) -> None:
    """Record a change of the rights of these persons (a select of row numbers), as record_rights() does."""
    audit.record_in_account(viewer().account.id, action, now(), build_actor(), detail)
    sessions.renew_later(persons)


def describe_permissions(name: str, before: Iterable[str], after: Iterable[str]) -> str:
    """Return what a role or a team gained (+) and lost (-) as text; "": nothing.

    The text fits into an entry: what has no place in it is counted.
    """
    old, new = set(before), set(after)
    changes = [*(f"+{each}" for each in sorted(new - old)), *(f"-{each}" for each in sorted(old - new))]
    if not changes:
        return ""
    shown = f"{shorten(name, NAME_SHOWN)}: "
    for number, change in enumerate(changes):
        more = f"{len(changes) - number} more"
        is_last = number == len(changes) - 1
        room = DETAIL_LIMIT - len(shown) - (0 if is_last else len(f", {more}"))
        if len(change) + len(", ") > room:
            return f"{shown}{more}"
        shown += change if is_last else f"{change}, "
    return shown


def _get_client() -> str:
    """Return the network of the client; "": there is no request."""
    return get_network(request.remote_addr or "") if has_request_context() else ""
