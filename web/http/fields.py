"""The marshmallow fields of the interface's schemas, and which input they accept.

Contract sections 1.4 (dates) and 1.6 (null, never "", for an absent reference). Section 1.8: numbers and
booleans as text, integral floats, "" for nothing, null for an empty list; unknown keys are ignored.
No field has a default: a create uses the table's default for a missing field, an update keeps the value.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import lru_cache
from itertools import permutations
from typing import Any
from zoneinfo import available_timezones

import marshmallow
from marshmallow import EXCLUDE, ValidationError, fields, missing, validate

from models.domain.channels import EMAIL_ADDRESS
from models.domain.identity import is_uuid
from models.domain.moments import format_moment
from pipeline.rules.conditions import BadRule, compile_rule
from pipeline.sources.reading.cleaning import clean_name, remove_unfit
from schedules.oncall.shifts import EARLIEST, LATEST
from web.http import client_profile

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")

# The largest number that an integer column of both stores can hold.
MAX_INTEGER = 2**31 - 1
# A year in minutes and ten years in seconds: now plus such a duration is still a valid datetime.
MINUTES_LIMIT = 365 * 24 * 60
SECONDS_LIMIT = 10 * 365 * 24 * 3600
NAME_LIMIT = 255
LONG_TEXT = 16 * 1024
# More than any id has.
REFERENCE_LIMIT = 64


def explain(sentence: str) -> dict[str, str]:
    """Return the metadata of a field that says in the OpenAPI description what the field means.

    State units, defaults and the meaning of null. A field without a sentence gets that of its name, from
    SENTENCES in web/http/openapi/descriptions.py.
    """
    return {"description": sentence}


# The object of a request that contains the value of a field. marshmallow passes it to the field's methods.
RawData = Mapping[str, object] | None


class Schema(marshmallow.Schema):
    """Base of the schemas of the interface's objects."""

    error_messages = {"type": "Must be an object."}

    class Meta:
        unknown = EXCLUDE


class Text(fields.String):
    """Text of at most `limit` characters. null means "" unless the field is required.

    Control characters and marks that change the direction of text are removed, since they can make a name
    look like another one. A text of at most 255 characters is a name: it has one line.
    """

    default_error_messages = {"invalid": "Must be text."}

    # Whether only NUL is removed, which no store accepts: for text that is compared with payloads.
    as_sent = False

    def __init__(self, *, limit: int = NAME_LIMIT, **options: Any) -> None:
        self._clean = clean_name if limit <= NAME_LIMIT else remove_unfit
        min_length = 1 if options.get("required") else None
        # Text that is only in answers may be longer; the description must not state a limit for it.
        if not options.get("dump_only"):
            options.setdefault("validate", validate.Length(min=min_length, max=limit))
        super().__init__(**options)

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        if value is None and not self.required and not self.allow_none:
            value = ""
        return super().deserialize(value, attr, data, **kwargs)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        text = text.replace("\x00", "") if self.as_sent else self._clean(text)
        return text.strip() if self.required else text


class RawText(Text):
    """Text that is kept as sent, for example the path of a field of payloads."""

    as_sent = True


class TextOrNumber(RawText):
    """Text that is kept as sent; a number becomes its digits."""

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return super()._deserialize(value, attr, data, **kwargs)


class RuleJson(RawText):
    """A condition in one of the two syntaxes of contract 3.10; kept as sent.

    A condition that cannot be evaluated is an error.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(validate=None, **options)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            compile_rule(text)
        except BadRule as error:
            raise ValidationError(error.problem) from None
        return text


class Email(Text):
    """A plausible e-mail address on one line."""

    default_error_messages = {"email": "Not an e-mail address."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not EMAIL_ADDRESS.pattern.fullmatch(text):
            raise self.make_error("email")
        return text


class Number(fields.Integer):
    """A whole number, also as text or as an integral float; always a JSON integer in answers."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(
        self, *, min_value: int = -MAX_INTEGER, max_value: int = MAX_INTEGER, **options: Any
    ) -> None:
        why = f"Must be from {min_value} to {max_value}."
        options.setdefault("validate", validate.Range(min=min_value, max=max_value, error=why))
        super().__init__(**options)

    def _validated(self, value: object) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.make_error("invalid", input=value)


class Choice(Number):
    """One of the numbers of an enumeration or a table. `names` are the meanings of numbers without a name.

    Errors and the OpenAPI description show the name of each number.
    """

    def __init__(
        self, members: Iterable[IntEnum] = (), *, names: Mapping[int, str] | None = None, **options: Any
    ) -> None:
        named = name_numbers(members)
        # A table itself, not a copy: it may get more numbers.
        self.names = names if names is not None and not named else {**named, **(names or {})}
        texts = [f"{number} ({name})" for number, name in self.names.items()]
        why = f"Must be {', '.join(texts[:-1])} or {texts[-1]}."
        super().__init__(
            validate=validate.OneOf(self.names, error=why), error_messages={"invalid": why}, **options
        )


def name_numbers(members: Iterable[IntEnum]) -> dict[int, str]:
    """Return the names of the members of an enumeration in words, by number."""
    return {int(member): member.name.lower().replace("_", " ") for member in members}


def _blank_to_none(value: object) -> object:
    """Return None for blank text: an absent reference or number."""
    return None if isinstance(value, str) and not value.strip() else value


class _Optional(fields.Field[Any]):
    """A value or null; "" means null. Another field class, after this one in the bases, reads the value."""

    def __init__(self, *, allow_none: bool = True, **options: Any) -> None:
        super().__init__(allow_none=allow_none, **options)

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        return super().deserialize(_blank_to_none(value), attr, data, **kwargs)


class OptionalNumber(_Optional, Number):
    """A number or null; "" means null."""


class OptionalChoice(_Optional, Choice):
    """A number of an enumeration or null; "" means null."""


class OptionalFloat(_Optional, fields.Float):
    """The same, with a fraction."""


class Boolean(fields.Boolean):
    """true or false, also as a number or as text."""

    default_error_messages = {"invalid": "Must be true or false."}


class Moment(fields.Field[datetime]):
    """An aware datetime; in answers UTC with a literal Z and six fractional digits."""

    default_error_messages = {"invalid": "Must be a date and time, for example 2026-03-02T17:00:00Z."}

    def _serialize(
        self, value: datetime | str | None, attr: str | None, obj: object, **kwargs: object
    ) -> str | None:
        # A JSON column already contains the text.
        return value if value is None or isinstance(value, str) else format_moment(value)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> datetime:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        try:
            return parse_moment(value)
        except (ValueError, OverflowError):
            raise self.make_error("invalid") from None


class InputMoment(Moment):
    """A datetime from a request. Answers show a fraction only if the request had one (contract 1.4)."""

    def _serialize(
        self, value: datetime | str | None, attr: str | None, obj: object, **kwargs: object
    ) -> str | None:
        if not isinstance(value, datetime) or value.microsecond:
            return super()._serialize(value, attr, obj, **kwargs)
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class OptionalMoment(_Optional, InputMoment):
    """The same, or null; "" means null."""


# The offset of a datetime in a query whose plus sign was not escaped: a blank replaces the plus sign.
_BLANK_OFFSET = re.compile(r"(:[0-9.]+) ([0-9]{2}:?[0-9]{2})$")


class QueryMoment(OptionalMoment):
    """A datetime in a query, in the years for which shifts can be computed; "" means null."""

    default_error_messages = {"year": f"The year must be {EARLIEST.year} or later, and before {LATEST.year}."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> datetime:
        text = _BLANK_OFFSET.sub(r"\1+\2", value) if isinstance(value, str) else value
        found = super()._deserialize(text, attr, data, **kwargs)
        if not EARLIEST <= found < LATEST:
            raise self.make_error("year")
        return found


class WordSet(fields.Field[frozenset[str]]):
    """Some of a few known words in a query, separated by commas, as a set; "" means none."""

    default_error_messages = {"unknown": "Only these words, separated by commas: {known}."}

    def __init__(self, known: Sequence[str], description: str) -> None:
        orders = (order for count in range(len(known) + 1) for order in permutations(known, count))
        self.known = tuple(known)
        self._sets = {",".join(order): frozenset(order) for order in orders}
        super().__init__(metadata={"description": description, "type": "string", "enum": list(self._sets)})

    def _deserialize(
        self, value: object, attr: str | None, data: RawData, **kwargs: object
    ) -> frozenset[str]:
        found = self._sets.get(value) if isinstance(value, str) else None
        if found is None:
            raise self.make_error("unknown", known=", ".join(self.known))
        return found


class QueryDay(QueryMoment):
    """A day in a query or filter, in the same years, as its start in UTC; "" means null."""

    default_error_messages = {"invalid": "Must be a date like 2026-12-31."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> datetime:
        if not isinstance(value, str) or not _DAY.fullmatch(value.strip()):
            raise self.make_error("invalid")
        return super()._deserialize(value, attr, data, **kwargs)


@lru_cache
def _load_time_zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime", "Factory"})


class TimeZone(Text):
    """The IANA name of a time zone, or an alias; "" and null mean UTC."""

    default_error_messages = {"unknown": "Must be the name of a time zone, for example Europe/Berlin."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        name = super()._deserialize(value, attr, data, **kwargs).strip() or "UTC"
        if name not in _load_time_zones():
            raise self.make_error("unknown")
        return name


class Date(fields.Field[datetime]):
    """A date without a time; the contract shows some creation dates in this form."""

    def _serialize(
        self, value: datetime | None, attr: str | None, obj: object, **kwargs: object
    ) -> str | None:
        return None if value is None else value.date().isoformat()


def parse_moment(text: str) -> datetime:
    """Parse RFC 3339, ISO 8601 without a zone (UTC), or a date (its start in UTC)."""
    value = datetime.fromisoformat(text.strip())
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Reference(fields.Field[Any]):
    """A reference to another object: the row's `unique_id` in answers, the id as text in requests.

    "" and null mean no object; they are errors if `blank` is False. Answers show `absent` for no object.
    The resource checks whether the object exists and whether the viewer may refer to it.
    """

    default_error_messages = {"invalid": "Must be an id as text.", "blank": "Must not be blank."}

    def __init__(
        self, *, key: str = "unique_id", blank: bool = True, absent: str | None = None, **options: Any
    ) -> None:
        super().__init__(allow_none=blank, **options)
        self.key = key
        self.blank = blank
        self.absent = absent

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        value = _blank_to_none(value)
        if value is None and not self.blank:
            raise self.make_error("blank")
        return super().deserialize(value, attr, data, **kwargs)

    def _serialize(self, value: object, attr: str | None, obj: object, **kwargs: object) -> str | None:
        if value is None:
            return self.absent
        # A JSON column already contains the id.
        return value if isinstance(value, str) else getattr(value, self.key)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        if isinstance(value, dict):
            value = value.get(self.key)
        if not isinstance(value, str) or len(value) > REFERENCE_LIMIT or "\x00" in value:
            raise self.make_error("invalid")
        # UUIDs are not case-sensitive, short ids are.
        text = value.strip()
        return text.lower() if is_uuid(text.lower()) else text


class Username(Reference):
    """A reference to a person by username."""

    default_error_messages = {"invalid": "Must be a username as text."}

    def __init__(self, **options: Any) -> None:
        super().__init__(key="username", **options)


class Uuid(_Optional):
    """A UUID that is only stored, not looked up; "" means null."""

    default_error_messages = {"invalid": "Must be a UUID."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        if not isinstance(value, str) or not is_uuid(value.strip().lower()):
            raise self.make_error("invalid")
        return value.strip().lower()


class List(fields.List):
    """A list; null and "" mean the empty list. A list in a request has at most `max_items` items.

    The limit exists because a request may hold a lock of the store while it processes the items.
    """

    default_error_messages = {"invalid": "Must be a list.", "long": "Must have at most {max_items} items."}

    def __init__(self, *args: Any, max_items: int = 100, **options: Any) -> None:
        super().__init__(*args, **options)
        self.max_items = max_items

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        if value is not missing and value in (None, ""):
            value = []
        if isinstance(value, list) and len(value) > self.max_items:
            raise self.make_error("long", max_items=self.max_items)
        return super().deserialize(value, attr, data, **kwargs)


class Nested(fields.Nested):
    """An object inside another object. It must be complete, even if the other object may be partial.

    "" means null.
    """

    default_error_messages = {"type": "Must be an object."}

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        return super().deserialize(_blank_to_none(value), attr, data, **kwargs)

    def _load(self, value: object, partial: object = None) -> object:
        return super()._load(value, partial=False)


class TeamLabel(fields.Field[Any]):
    """The team of a tag or priority: a number or an id, see client_profile.get_team_label."""

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> int | str:
        return client_profile.get_team_label(value)


class NestedSelf(fields.Nested):
    """A nested object that is made from the same row as the object around it."""

    def get_value(self, obj: object, attr: str, accessor: object = None, default: object = missing) -> object:
        return obj


class UserSchema(Schema):
    """A person inside another object."""

    username = Text(dump_only=True)
    first_name = Text(dump_only=True)
    last_name = Text(dump_only=True)
    email = Text(dump_only=True)
