"""How an object is written: what an operation needs to know besides the values.

Operations read it from their request. Other callers, which have no request, build it themselves.

Every object of the configuration has a number, which each change raises. Answers with one object have it as
`ETag: "N"`. A change with `If-Match: "N"` is made only while the object has the number N (RFC 9110, section
13.1.1): `begin_change`, or `require_number` under the lock of the row. The history of the account keeps what
differs (web/http/recording.py).
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from flask import request

from models.changes.changed_since import list_changed_since
from models.changes.differences import compare
from models.changes.record import CHANGED, ChangedObject, Content
from models.store.fields import NumberedTable, Table
from web.http import client_profile, recording
from web.http.client_profile import Profile
from web.http.errors import NotFound, NumberDiffers, reject


class Mode(Enum):
    """What the values of a write are."""

    # Those of a new object.
    CREATE = auto()
    # All values of an object, as in a PUT.
    REPLACE = auto()
    # Those that change, as in a PATCH.
    PATCH = auto()
    # None: the object is deleted.
    DELETE = auto()


@dataclass(frozen=True, slots=True)
class Writing:
    """How an object is written, and with which profile of the interface.

    `expected` are the numbers of which the object must have one; None: any number.
    """

    mode: Mode
    profile: Profile = Profile.SPEC
    expected: frozenset[int] | None = None


class NumberedAnswer(dict[str, object]):
    """The values of an answer about one object, or about a part of it, with the number of the object."""

    def __init__(self, number: int, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self.number = number


def read_writing(mode: Mode) -> Writing:
    """Return how this request writes an object. Raise BadRequest if its If-Match cannot be read."""
    expected = None if mode is Mode.CREATE else parse_if_match(request.headers.get("If-Match"))
    return Writing(mode, client_profile.current(), expected)


def read_update() -> Writing:
    """Return how this request changes an object: with all values (PUT) or with some (PATCH)."""
    return read_writing(Mode.PATCH if request.method == "PATCH" else Mode.REPLACE)


# An element of a list of entity tags, which can be empty, and the comma after it (RFC 9110, sections 5.6.1
# and 8.8.3).
_ELEMENT = re.compile(r'[ \t]*(?:(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?P<comma>,|\Z)')
_NUMBER = re.compile("[1-9][0-9]{0,18}")
_MALFORMED = 'Must be * or a list of entity tags, for example "3".'


def parse_if_match(text: str | None) -> frozenset[int] | None:
    """Return the numbers in an If-Match; None: it is missing or *, and an object may have any number.

    Weak tags and tags that are no number are left out: no object has them. BadRequest if it is malformed.
    """
    if text is None or text.strip(" \t") == "*":
        return None
    position, tags, numbers = 0, 0, set()
    while True:
        element = _ELEMENT.match(text, position)
        if element is None:
            reject("If-Match", _MALFORMED)
        tag = element["tag"]
        tags += tag is not None
        if tag is not None and not element["weak"] and _NUMBER.fullmatch(tag):
            numbers.add(int(tag))
        if not element["comma"]:
            break
        position = element.end()
    if not tags:
        reject("If-Match", _MALFORMED)
    return frozenset(numbers)


def format_etag(number: int) -> str:
    """Return the ETag of an object with this number."""
    return f'"{number}"'


def require_number(row: NumberedTable, writing: Writing, show: Callable[[], object]) -> None:
    """Raise NumberDiffers if the object, whose row is locked, has another number than the writer expects.

    `show` returns the object as an answer shows it, for the writer to compare.
    """
    if writing.expected is not None and row.number not in writing.expected:
        raise _build_difference(row, writing, show())


def _build_difference(row: NumberedTable, writing: Writing, shown: object) -> NumberDiffers:
    known = max(writing.expected or (), default=None)
    is_known = known is not None and known < row.number and hasattr(row, "unique_id")
    changed = list_changed_since(row.unique_id, known) if is_known and known is not None else []
    return NumberDiffers(row.number, shown, changed)


Object = TypeVar("Object", bound=NumberedTable)


@dataclass(frozen=True, slots=True)
class Part(Generic[Object]):
    """What an operation of its own changes: a part of an object, or the whole object.

    `kind` is the noun of the object. `describe` returns the values of the part as the history keeps them; the
    history names its fields "part.field", or "field" without a `name`. `show` returns the part as an answer
    shows it; None: as `describe` does. Values of `secrets` are not kept. `write` changes the part again, for
    an undo, with this permission or that of the resource; None: such a change cannot be undone. `fields` are
    those of a part without a name.
    """

    kind: str
    name: str
    describe: Callable[[Object], Mapping[str, object]]
    show: Callable[[Object], object] | None = None
    secrets: Collection[str] = ()
    fields: Collection[str] = ()
    write: Callable[..., object] | None = None
    permission: str = ""

    def has(self, name: str) -> bool:
        """Return whether a field of the history with this name belongs to this part."""
        return name.startswith(f"{self.name}.") if self.name else name in self.fields

    def name_fields(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values of this part with the names that the history gives to its fields."""
        return {f"{self.name}.{name}" if self.name else name: value for name, value in values.items()}


def begin_change(row: Object, writing: Writing, part: Part[Object]) -> Object:
    """Raise the number of an object, and return the object, which is locked until the transaction ends.

    For operations that change a part of an object or the order of its children. What differs at the end of
    the transaction is recorded. Raise NumberDiffers as require_number() does, and NotFound if the object was
    deleted. Needs a config_transaction().
    """
    changed = _raise_number(row, writing, part.show or part.describe)
    before = part.describe(changed)

    def record_part() -> None:
        table = type(row)
        after = part.describe(table.get_by_id(row.id))
        differences = compare(
            part.name_fields(before), part.name_fields(after), part.name_fields(dict.fromkeys(part.secrets))
        )
        if differences:
            found = identify(part.kind, changed, changed.number, row)
            recording.record_change(found, Content(CHANGED, differences))

    recording.record_later(record_part)
    return changed


def _raise_number(row: Object, writing: Writing, show: Callable[[Object], object]) -> Object:
    table = type(row)
    raised = table.update(table.raise_number()).where(table.id == row.id)
    if writing.expected is not None:
        raised = raised.where(table.number.in_(sorted(writing.expected)))
    changed = next(iter(raised.returning(table).execute()), None)
    if changed is not None:
        found: Object = changed
        return found
    current = table.get_or_none(table.id == row.id)
    if current is None:
        raise NotFound
    raise _build_difference(current, writing, show(current))


def raise_number(row: Object) -> Object:
    """Raise the number of an object whatever it is, and return the object, which is locked.

    What changed is recorded by the caller, for example as a change of a child.
    """
    return _raise_number(row, Writing(Mode.PATCH), lambda found: found)


def identify(kind: str, row: Table, number: int | None, loaded: Table | None = None) -> ChangedObject:
    """Return an object as the history names it.

    `loaded` is the same row with the rows above it, if `row` was read without them.
    """
    team, user = recording.find_scope(loaded or row)
    shown = str(getattr(row, "name", "") or getattr(row, "title", "") or "")
    return ChangedObject(kind, row.unique_id, shown, number, team, user)
