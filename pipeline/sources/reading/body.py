"""Decode bytes to a typed body, in the same way for every source."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec

from models.domain.facts import NO_SETUP, SourceFacts
from models.domain.reasons import Reason
from pipeline.sources.reading.cleaning import TooDeep, clean_payload
from pipeline.sources.reading.type_errors import describe_type_error

T = TypeVar("T")


class BadBody(ValueError):
    """A body that cannot be accepted. `errors` maps a field ("" is the body itself) to its problem."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.errors = {field or "body": [problem]}


_ANY = msgspec.json.Decoder(strict=False)


# A form with more fields is not from a monitoring tool.
MAX_FORM_FIELDS = 100
FORM = "application/x-www-form-urlencoded"


class RequestBody:
    """A body as it was received.

    `headers` are those that its source reads, by their names in lower case. `setup` is that of the
    integration; it is empty when the body is accepted, and for a router. `received_at` is when the body was
    accepted; None: not known, or now.

    A body that only one source reads is decoded directly to that source's type, which is faster. After a call
    of `decode_json`, several sources read the same decoded JSON.

    `left_out` is the number of items that are no alerts, once the source has counted or read the alerts.
    `assumed` are remarks about fields that the source then took from fields of other forms.
    """

    def __init__(
        self, raw: bytes, headers: Mapping[str, str] | None = None, setup: SourceFacts = NO_SETUP
    ) -> None:
        self.raw = raw
        self.headers = headers or {}
        self.setup = setup
        self.received_at: datetime | None = None
        self.left_out = 0
        self.assumed: tuple[Reason, ...] = ()
        self._plain: object = None
        self._error: BadBody | None = None
        self._is_decoded = False

    def decode_json(self) -> object:
        """Return the body's JSON value. Raises BadBody if it is not JSON."""
        if not self._is_decoded:
            self._is_decoded = True
            try:
                self._plain = _decode(self.raw, _ANY)
            except BadBody as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._plain

    def is_form(self) -> bool:
        """Return whether the sender said that the body is a form."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM

    def decode_form(self) -> dict[str, object]:
        """Return the fields of a form by name, each with its first value. Raises BadBody."""
        fields: dict[str, object] = {}
        try:
            text = self.raw.decode("utf-8", "replace")
            for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS):
                fields.setdefault(name, value)
        except ValueError as error:
            raise BadBody("", f"is a form with more than {MAX_FORM_FIELDS} fields") from error
        return fields

    def decode(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """Return the body in a source's type. Raises BadBody if it is not JSON or has wrong types."""
        if not self._is_decoded:
            return _decode(self.raw, decoder)
        plain = self.decode_json()
        try:
            return msgspec.convert(plain, decoder.type, strict=decoder.strict)
        except msgspec.ValidationError as error:
            raise BadBody(*describe_type_error(str(error))) from error
        except RecursionError as error:
            raise BadBody("", "is nested too deeply") from error
        except UnicodeEncodeError as error:
            # A lone surrogate where a number or a truth value is expected.
            raise BadBody("", "has a text that is not Unicode") from error


def _decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode bytes to the decoder's type.

    JSON with small defects is read again by a lenient reader: raw control characters in strings, lone
    surrogates, bytes that are not UTF-8, very large numbers. The alert in it matters more than its form.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if "out of range" not in str(error):
            raise BadBody(*describe_type_error(str(error))) from error
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
        raise BadBody(*describe_type_error(str(error))) from error
    except RecursionError as error:
        raise BadBody("", "is nested too deeply") from error
    except ValueError as error:
        raise BadBody("", "is not JSON") from error


def _parse_integer(digits: str) -> int | str:
    """Return the number, or its digits if they are too many: Python stops at 4,300 digits."""
    return int(digits) if len(digits) < 1_000 else digits


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def check_payload(payload: Mapping[str, object], field: str = "payload") -> dict[str, object]:
    """Return a payload that can be stored. Raises BadBody if it is nested too deeply."""
    try:
        cleaned: dict[str, object] = clean_payload(payload)
    except (TooDeep, RecursionError):
        raise BadBody(field, "is nested too deeply") from None
    return cleaned


# A time outside this range counts as missing. Go writes the year 1 for a time that is not set. A time in the
# last days of the year 9999 cannot be read back from a store that uses another time zone than UTC.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def parse_time(text: object) -> datetime | None:
    """Return an RFC 3339 time as aware UTC (naive means UTC), or None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
        moment = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST <= moment < _LATEST else None
