"""A change as a sentence: "Alice changed the escalation policy Night: name, rules (1 added)"."""

from collections.abc import Iterator, Mapping, Sequence

import orjson

from models.changes.differences import Difference
from models.changes.record import CHANGED, CREATED, DELETED, shorten
from models.domain.audit_actions import ACTIONS
from models.domain.enums import Way
from models.tables.accounts import User, get_display_name
from models.tables.changes import Change

# Fields that a sentence names. The others are counted.
MAX_FIELDS = 5
# Characters of a value that a line shows.
MAX_VALUE = 120
_VERBS = {CREATED: "created", CHANGED: "changed", DELETED: "deleted"}
# What was done to the object by an undo.
_UNDOING = {CREATED: "brought back", CHANGED: "undid a change of", DELETED: "undid the creation of"}
_WAYS: Mapping[str, str] = {
    Way.PAGE: "on a page",
    Way.INTERFACE: "by the interface",
    Way.COMMAND: "by a command",
    Way.FILES: "by files",
    Way.IMPORT: "by an import",
    Way.LINK: "by a link",
    Way.SYSTEM: "by Tocsin",
}


def write_sentence(change: Change) -> str:
    """Return what somebody did, without the time and the way. `user` of the row must be loaded."""
    if not change.kind:
        return _write_entry(change)
    verb = (_UNDOING if change.undoes else _VERBS).get(change.action, change.action)
    name = f" {change.name}" if change.name else ""
    fields = describe_fields(change.fields) if change.action == CHANGED else ""
    return f"{change.actor} {verb} the {change.kind}{name}{f': {fields}' if fields else ''}"


def _write_entry(change: Change) -> str:
    """Return an entry of the audit list as a sentence."""
    done = ACTIONS.get(change.action, change.action)
    user: User | None = change.user if change.user_id != change.author_id else None
    person = f": {get_display_name(user)}" if user else ""
    detail = f" ({change.detail})" if change.detail else ""
    return f"{change.actor} {done}{person}{detail}"


def describe_way(way: str, token: str | None) -> str:
    """Return how somebody made a change, for example "by the interface, token laptop"."""
    shown = _WAYS.get(way, way)
    return f"{shown}, token {token}" if token else shown


def describe_fields(differences: Sequence[Difference] | None) -> str:
    """Return the names of the fields that differ, with how many elements of a list do; None: too many."""
    if differences is None:
        return "more than is kept"
    by_field: dict[str, list[Difference]] = {}
    for each in differences:
        by_field.setdefault(each["field"], []).append(each)
    shown = [_describe_field(name, found) for name, found in list(by_field.items())[:MAX_FIELDS]]
    more = len(by_field) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _describe_field(name: str, found: Sequence[Difference]) -> str:
    elements = [(each["before"], each["after"]) for each in found if "element" in each]
    counts = {
        "added": sum(old is None for old, _ in elements) + sum(len(each.get("added", ())) for each in found),
        "removed": sum(new is None for _, new in elements)
        + sum(len(each.get("removed", ())) for each in found),
        "changed": sum(old is not None and new is not None for old, new in elements),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    if any("before_order" in each for each in found):
        parts.append("their order")
    shown = name.replace("_", " ").replace(".", " ")
    return f"{shown} ({', '.join(parts)})" if parts else shown


def list_reverts(change: Change) -> Iterator[str]:
    """Yield what an undo of a change would do, a line for each field."""
    if change.action == CREATED:
        yield f"deletes the {change.kind} {change.name}"
    elif change.action == DELETED:
        yield f"brings back the {change.kind} {change.name}, with what was deleted with it"
    else:
        for each in change.fields or ():
            yield _describe_revert(each)


def _describe_revert(each: Difference) -> str:
    name = each["field"].replace("_", " ")
    if each.get("secret"):
        return f"{name}: stays, its value is not kept"
    if "added" in each or "removed" in each:
        parts = (("without", each.get("added", [])), ("with", each.get("removed", [])))
        return f"{name}: {' and '.join(f'{word} {show_list(found)}' for word, found in parts if found)}"
    if "before_order" in each:
        return f"{name}: the order of before"
    if "element" in each and each["before"] is None:
        return f"{name}: without the element that was added"
    if "element" in each and each["after"] is None:
        return f"{name}: with the element that was removed"
    return f"{name}: {show_value(each['after'])} becomes {show_value(each['before'])}"


def show_list(values: Sequence[object]) -> str:
    """Return a list of values as a short text for people."""
    return shorten(", ".join(map(str, values)), MAX_VALUE)


def show_value(value: object) -> str:
    """Return a value as a short text for people."""
    if value is None or value == "":
        return "nothing"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return shorten(text, MAX_VALUE)


def list_details(differences: Sequence[Difference] | None) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each field or element that differs, with its values before and after as texts."""
    for each in differences or ():
        name = each["field"].replace("_", " ")
        if each.get("secret"):
            yield name, "not kept", "not kept"
        elif "added" in each or "removed" in each:
            yield name, show_list(each.get("removed", [])) or "-", show_list(each.get("added", [])) or "-"
        elif "before_order" in each:
            yield f"order of {name}", show_list(each["before_order"]), show_list(each["after_order"])
        else:
            place = f" {each['place'] + 1}" if "element" in each else ""
            yield f"{name}{place}", show_value(each["before"]), show_value(each["after"])
