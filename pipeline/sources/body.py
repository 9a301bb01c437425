"""Bytes to a typed body, the same way for every source."""

import json
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import msgspec

from pipeline.sources.cleaning import TooDeep, clean_payload

T = TypeVar("T")


class BadBody(ValueError):
    """A body that cannot be taken; `errors` maps a field ("" is the body itself) to what is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.errors = {field or "body": [problem]}


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A body as its typed form. BadBody for what is not JSON or has wrong types.

    JSON that is only ugly (raw control characters in strings, lone surrogates, bytes that are not
    UTF-8, numbers beyond all ranges) is read again by a lenient reader: the page behind it matters more
    than its looks.
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
    """A number that no reader takes (Python stops at 4,300 digits) stays as its digits."""
    return int(digits) if len(digits) < 1_000 else digits


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _split_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """msgspec says "Expected `str`, got `int` - at `$.message`": the field, and the rest."""
    problem, _, path = str(error).partition(" - at `")
    return path.rstrip("`").removeprefix("$").lstrip("."), problem


def check_payload(value: Any, field: str = "payload") -> Any:
    """A payload made fit to keep; BadBody when it is nested too deeply."""
    try:
        return clean_payload(value)
    except (TooDeep, RecursionError):
        raise BadBody(field, "is nested too deeply") from None


# A moment outside is none: Go writes the year 1 for a time that is not set, and a time in the last days of
# the year 9999 cannot be read back from a store that speaks another zone than UTC.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def parse_time(text: Any) -> datetime | None:
    """An RFC 3339 moment as aware UTC (naive means UTC); None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
        moment = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST <= moment < _LATEST else None
