"""Why a change cannot be undone, as far as the change itself tells. Pure functions."""

from collections.abc import Mapping
from typing import Protocol

from models.changes.differences import Difference
from models.changes.record import CHANGED, CREATED, DELETED

# What is never undone, by kind of object and action.
_NEVER: Mapping[tuple[str, str], str] = {
    ("account member", CREATED): "An invitation cannot be undone. Remove the person instead.",
    ("team", DELETED): "A deleted team does not come back.",
    ("token", CREATED): "Tokens are not undone. Revoke the token instead.",
    ("token", CHANGED): "Tokens are not undone.",
    ("token", DELETED): "A revoked token does not come back. Create another one.",
}
TOO_MUCH = "It is too much to be kept, so the deletion cannot be undone."
NO_OBJECT = "This is not a change of the configuration."
UNDONE = "It has been undone already."
NOT_KEPT = "It was too long to be kept, so it cannot be undone."
NO_ROWS = "What was deleted is no longer kept. That is so after 30 days, or if it was too much."
ONLY_SECRETS = "The values of secrets, keys and addresses are not kept."
REMOVED_PERSON = "A removed person does not come back. Invite the person again."


class Recorded(Protocol):
    """What this module reads of a change (models/tables/changes.py)."""

    @property
    def kind(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def fields(self) -> list[Difference] | None: ...
    @property
    def removed(self) -> str | None: ...
    @property
    def undone_by(self) -> str | None: ...


def find_deletion_obstacle(kind: str) -> str | None:
    """Return in a sentence why deletions of this kind are never undone; None: they are."""
    return _NEVER.get((kind, DELETED))


def find_obstacle(change: Recorded) -> str | None:
    """Return in a sentence why a change cannot be undone; None: nothing in the change itself prevents it."""
    never = _NEVER.get((change.kind, change.action))
    if not change.kind:
        return NO_OBJECT
    if change.undone_by is not None:
        return UNDONE
    if never is not None:
        return never
    if change.fields is None:
        return NOT_KEPT
    if change.action == DELETED and change.removed is None:
        return NO_ROWS
    if change.action == CHANGED:
        names = {each["field"] for each in change.fields}
        if change.kind == "account member" and "removed" in names:
            return REMOVED_PERSON
        if all(each.get("secret") for each in change.fields):
            return ONLY_SECRETS
    return None
