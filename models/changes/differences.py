"""Which fields of an object differ before and after a change, and what an undo writes. Pure functions.

The values of an object are those of its resource's schema, as plain JSON. A difference is a dict:

    {"field": "name", "before": "a", "after": "b"}
    {"field": "rules", "element": ID, "place": 1, "before": {...}, "after": {...}}
    {"field": "rules", "before_order": [ID, ...], "after_order": [ID, ...]}
    {"field": "permissions", "removed": [...], "added": [...]}
    {"field": "value", "secret": true}

A list of objects with a `unique_id` is compared by element: None before or after means that the list had no
such element; `place` is its place in the list, counted from 0. The orders are there if elements that are in
both lists changed their order. A list of different texts or numbers is compared by element too. Of a secret
there is only the fact that it changed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NotRequired, TypedDict, cast

Values = Mapping[str, object]
Elements = Sequence[Mapping[str, object]]


class Difference(TypedDict):
    """A field, or an element of a list, that differs."""

    field: str
    before: NotRequired[object]
    after: NotRequired[object]
    element: NotRequired[str]
    place: NotRequired[int]
    before_order: NotRequired[list[str]]
    after_order: NotRequired[list[str]]
    removed: NotRequired[list[object]]
    added: NotRequired[list[object]]
    secret: NotRequired[bool]


def compare(before: Values, after: Values, secrets: Collection[str] = ()) -> list[Difference]:
    """Return the differences between two states of an object; {} is the state before or after it existed.

    `secrets` are the fields whose values must not be kept.
    """
    return [
        each
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
        for each in _compare_field(name, before.get(name), after.get(name), secrets)
    ]


def _compare_field(name: str, old: object, new: object, secrets: Collection[str]) -> Iterator[Difference]:
    if name in secrets:
        yield {"field": name, "secret": True}
    elif has_ids(old) and has_ids(new):
        yield from _compare_elements(name, cast(Elements, old), cast(Elements, new))
    elif is_set(old) and is_set(new):
        before, after = cast("list[object]", old), cast("list[object]", new)
        removed, added = (
            [each for each in before if each not in after],
            [each for each in after if each not in before],
        )
        if removed or added:
            yield {"field": name, "removed": removed, "added": added}
        else:
            yield {"field": name, "before": old, "after": new}
    else:
        yield {"field": name, "before": old, "after": new}


def _compare_elements(name: str, old: Elements, new: Elements) -> Iterator[Difference]:
    before, after = _index(old), _index(new)
    for unique_id in dict.fromkeys((*before, *after)):
        place, was = before.get(unique_id, (0, None))
        now_place, now = after.get(unique_id, (0, None))
        if was != now:
            shown = place if now is None else now_place
            yield {"field": name, "element": unique_id, "place": shown, "before": was, "after": now}
    kept = [each for each in before if each in after]
    if kept != [each for each in after if each in before]:
        yield {"field": name, "before_order": list(before), "after_order": list(after)}


def revert(current: Values, differences: Sequence[Difference]) -> tuple[dict[str, object], list[str]]:
    """Return the values that an undo writes, and the fields that it leaves as they are.

    It leaves what somebody changed since, and secrets, whose values are not kept. A field that has its value
    of before already is neither written nor left.
    """
    values: dict[str, object] = {}
    left: list[str] = []
    by_field: dict[str, list[Difference]] = {}
    for each in differences:
        by_field.setdefault(each["field"], []).append(each)
    for name, found in by_field.items():
        value = current.get(name)
        reverted, complete = _revert_field(value, found)
        if reverted != value:
            values[name] = reverted
        if not complete:
            left.append(name)
    return values, left


def _revert_field(value: object, found: Sequence[Difference]) -> tuple[object, bool]:
    """Return the value of a field after an undo, and whether all of it was undone."""
    first = found[0]
    if first.get("secret"):
        return value, False
    if "added" in first:
        return _revert_set(value, first)
    if any("element" in each or "before_order" in each for each in found):
        return _revert_elements(value, found)
    if _strip_ids(value) == _strip_ids(first["after"]):
        return first["before"], True
    return value, value == first["before"]


def _revert_set(value: object, difference: Difference) -> tuple[object, bool]:
    if not isinstance(value, list):
        return value, False
    kept = [each for each in value if each not in difference["added"]]
    return [*kept, *(each for each in difference["removed"] if each not in kept)], True


def _revert_elements(value: object, found: Sequence[Difference]) -> tuple[object, bool]:
    if not has_ids(value):
        return value, False
    elements, complete = [dict(each) for each in cast(Elements, value)], True
    order = next((each for each in found if "before_order" in each), None)
    has_order = order is not None and [each["unique_id"] for each in elements] == order["after_order"]
    # First what was added goes, so that nothing of the same content is taken for it. An element that comes
    # back needs the elements before it, so the first places come first.
    changed = [each for each in found if "element" in each]
    for each in sorted(changed, key=lambda each: (each["before"] is not None, each["place"])):
        before, after = cast("Values | None", each["before"]), cast("Values | None", each["after"])
        place = _find_place(elements, each["element"], after)
        now = elements[place] if place is not None else None
        if now == before:
            continue
        if _strip_ids(now) != _strip_ids(after):
            complete = False
        elif place is None:
            elements.insert(each["place"], dict(before or {}))
        elif before is None:
            del elements[place]
        else:
            elements[place] = dict(before)
    if order is not None:
        places = {unique_id: place for place, unique_id in enumerate(order["before_order"])}
        if has_order:
            elements.sort(key=lambda element: places.get(str(element["unique_id"]), len(places)))
        complete = complete and has_order
    return elements, complete


def _find_place(elements: Elements, unique_id: str, after: Values | None) -> int | None:
    """Return the place of an element; None: the list has none.

    Some resources give their elements new ids at each write. Then it is the one with the same content.
    """
    ids = [element["unique_id"] for element in elements]
    if unique_id in ids:
        return ids.index(unique_id)
    contents, content = [_strip_ids(element) for element in elements], _strip_ids(after)
    return contents.index(content) if after is not None and content in contents else None


def _strip_ids(value: object) -> object:
    """Return a value without the ids of elements, which some resources replace at each write."""
    if isinstance(value, list):
        return [_strip_ids(each) for each in value]
    if isinstance(value, dict):
        return {name: _strip_ids(each) for name, each in value.items() if name != "unique_id"}
    return value


def has_ids(value: object) -> bool:
    """Return whether a value is a list of objects, each with another `unique_id`."""
    if not isinstance(value, list) or not all(
        isinstance(each, dict) and each.get("unique_id") for each in value
    ):
        return False
    return len({each["unique_id"] for each in value}) == len(value)


def is_set(value: object) -> bool:
    """Return whether a value is a list of texts and numbers, each of them once."""
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        return False
    return len(set(value)) == len(value)


def _index(elements: Elements) -> dict[str, tuple[int, Mapping[str, object]]]:
    return {str(each["unique_id"]): (place, each) for place, each in enumerate(elements)}
