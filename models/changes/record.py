"""Add a change to the history of an account, in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from models.changes.differences import Difference
from models.domain.enums import Way
from models.store import bulk
from models.store.ids import make_short_id
from models.tables.accounts import User, get_display_name
from models.tables.changes import Change

# As the columns.
NAME_LIMIT = 255
DETAIL_LIMIT = 255
# The end of a text that was longer.
SHORTENED = "…"
# Bytes of the differences of one change, as JSON, and of its removed rows.
MAX_BYTES = 64 * 1024
# The actions of changes of the configuration.
CREATED, CHANGED, DELETED = "created", "changed", "deleted"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change, and how. `user` is None for a command and for Tocsin itself."""

    name: str
    way: Way
    user: User | None = None
    token: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """The object that a change is about. `team` and `user` are row numbers: whose object it is."""

    kind: str
    unique_id: str
    name: str
    number: int | None
    team: int | None = None
    user: int | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a change did. `removed`: the deleted rows, see models/changes/removed_rows.py."""

    action: str
    differences: Sequence[Difference]
    removed: str | None = None


def add_change(
    account: int, at: datetime, actor: Actor, changed: ChangedObject, content: Content, batch: str,
    undoes: str | None = None,
) -> None:  # fmt: skip
    """Add a change of the configuration. Needs a write transaction."""
    is_short = len(orjson.dumps(content.differences)) <= MAX_BYTES
    values = {
        **_describe_actor(account, at, actor),
        "action": content.action,
        "kind": changed.kind,
        "object_id": changed.unique_id,
        "name": shorten(changed.name, NAME_LIMIT),
        "number": changed.number,
        "team": changed.team,
        "user": changed.user,
        "batch": batch,
        "fields": list(content.differences) if is_short else None,
        "removed": content.removed,
        "undoes": undoes,
    }
    # A statement whose text is built once: most of the time of a change was peewee's.
    bulk.insert(Change, [values])


def add_entry(account: int, at: datetime, actor: Actor, action: str, user: User | None, detail: str) -> None:
    """Add a sign-in or a change of rights. `user` None: the rights of several persons."""
    entry = _describe_actor(account, at, actor)
    Change.create(
        **entry, action=action, user=user, detail=shorten(detail, DETAIL_LIMIT), batch=entry["unique_id"]
    )


def _describe_actor(account: int, at: datetime, actor: Actor) -> dict[str, object]:
    return {
        "unique_id": make_short_id(),
        "account": account,
        "at": at,
        "actor": shorten(actor.name, NAME_LIMIT),
        "author": actor.user and actor.user.id,
        "token": actor.token,
        "way": actor.way.value,
        "client": actor.client[:64],
    }


def build_person(user: User, way: Way, client: str = "") -> Actor:
    """Return a person as the actor of a change."""
    return Actor(get_display_name(user), way, user, client=client)


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with a mark at its end if it was longer."""
    return text if len(text) <= limit else f"{text[: limit - len(SHORTENED)]}{SHORTENED}"
