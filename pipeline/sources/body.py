"""Decode bytes to a typed body, in the same way for every source."""

import json
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import msgspec

from pipeline.sources.cleaning import TooDeep, clean_payload

T = TypeVar("T")


class BadBody(ValueError):
    """A body that cannot be accepted. `errors` maps a field ("" is the body itself) to its problem."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.errors = {field or "body": [problem]}


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return a body in its typed form. Raises BadBody if it is not JSON or has wrong types.

    JSON with small defects is read again by a lenient reader: raw control characters in strings, lone
    surrogates, bytes that are not UTF-8, very large numbers. The alert in it matters more than its form.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if "out of range" not in str(error):
            raise BadBody(*_split_error(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError as error:
        raise BadBody("", "is nested too deeply") from error
    try:
        plain = json.loads(
            body.decode("utf-8", "replace"),
            strict=False,
            parse_constant=_reject_constant,
            parse_int=_parse_integer,
        )
        return msgspec.convert(plain, decoder.type, strict=decoder.strict)
    except msgspec.ValidationError as error:
        raise BadBody(*_split_error(error)) from error
    except RecursionError as error:
        raise BadBody("", "is nested too deeply") from error
    except ValueError as error:
        raise BadBody("", "is not JSON") from error


def _parse_integer(digits: str) -> int | str:
    """Return the number, or its digits if they are too many: Python stops at 4,300 digits."""
    return int(digits) if len(digits) < 1_000 else digits


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _split_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field and the problem of msgspec's "Expected `str`, got `int` - at `$.message`"."""
    problem, _, path = str(error).partition(" - at `")
    return path.rstrip("`").removeprefix("$").lstrip("."), problem


def check_payload(value: Any, field: str = "payload") -> Any:
    """Return a payload that can be stored. Raises BadBody if it is nested too deeply."""
    try:
        return clean_payload(value)
    except (TooDeep, RecursionError):
        raise BadBody(field, "is nested too deeply") from None


# A time outside this range counts as missing. Go writes the year 1 for a time that is not set. A time in the
# last days of the year 9999 cannot be read back from a store that uses another time zone than UTC.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def parse_time(text: Any) -> datetime | None:
    """Return an RFC 3339 time as aware UTC (naive means UTC), or None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
        moment = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST <= moment < _LATEST else None
