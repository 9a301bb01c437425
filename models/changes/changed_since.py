"""What changed in an object since somebody read it."""

from typing import TypedDict

from models.domain.moments import format_moment
from models.tables.changes import Change

# The changes that are looked at.
MAX_CHANGES = 100


class ChangedField(TypedDict):
    """A field that was changed, who changed it last, and when (RFC 3339, UTC)."""

    field: str
    by: str
    at: str


def list_changed_since(object_id: str, number: int) -> list[ChangedField]:
    """Return the fields of an object that were changed since it had this number, with their last change."""
    later = Change.select(Change.fields, Change.actor, Change.at).where(
        Change.object_id == object_id, Change.number > number
    )
    found: dict[str, ChangedField] = {}
    for change in later.order_by(Change.id.desc()).limit(MAX_CHANGES):
        for each in change.fields or ():
            name = each["field"]
            found.setdefault(name, {"field": name, "by": change.actor, "at": format_moment(change.at)})
    return list(found.values())
