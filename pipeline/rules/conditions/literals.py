"""Convert values as people write them in a condition to the form of a subject.

Each reader takes any JSON value. It raises ValueError for a value that it does not understand.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import TypeGuard

from models.domain.enums import AlertType, Urgency
from pipeline.rules.conditions.bad import quote

Reader = Callable[[object], str | float]

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?Z?")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ].*)?")
_SECONDS_A_DAY = 24 * 60 * 60
_MAX_NUMBER = 1e15


def _build_codes() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    types = {each.name.lower(): str(each.value) for each in AlertType}
    urgencies = {each.name.lower(): str(each.value) for each in Urgency}
    days = {name: str(number) for number, name in enumerate(DAYS, start=1)}
    return types, urgencies, days | {name[:3]: number for name, number in days.items()}


ALERT_TYPES, URGENCIES, WEEKDAYS = _build_codes()


def build_code_reader(names: Mapping[str, str]) -> Reader:
    """Return a reader that reads "3", 3, 3.0 or a name of the table as the code "3"."""
    codes = frozenset(names.values())

    def read(value: object) -> str:
        text = str(int(_check_number(value))) if _is_number(value) else _check_text(value).strip().lower()
        code = names.get(text, text)
        if code not in codes:
            raise ValueError(f"{quote(value)} is not one of {', '.join(names)}")
        return code

    return read


def read_time(value: object) -> str:
    """Return a time of day as "HH:MM:SS", from a text with or without seconds, or from seconds since
    midnight.
    """
    if _is_number(value):
        return _format_seconds(_check_number(value))
    text = _check_text(value).strip()
    match = _TIME.fullmatch(text)
    if match is None:
        return _format_seconds(_parse_seconds(text))
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    # 24:00 is the end of a day.
    if minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > _SECONDS_A_DAY:
        raise ValueError(f"{quote(value)} is not a time of day")
    return f"{hours:02}:{minutes:02}:{seconds:02}"


def _parse_seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{quote(text)} is not a time of day: write HH:MM, HH:MM:SS or seconds") from None


def _format_seconds(seconds: float) -> str:
    if not 0 <= seconds <= _SECONDS_A_DAY:
        raise ValueError(f"{seconds} seconds are not a time of day")
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def read_date(value: object) -> str:
    """Return a day as "YYYY-MM-DD", without a time of day after it."""
    match = _DATE.fullmatch(_check_text(value).strip())
    if match is None:
        raise ValueError(f"{quote(value)} is not a date: write YYYY-MM-DD")
    return date.fromisoformat(match[1]).isoformat()


def read_number(value: object) -> float | int:
    """Return a number, from a number or its text."""
    if _is_number(value):
        return _simplify_number(_check_number(value))
    try:
        return _simplify_number(float(_check_text(value)))
    except ValueError:
        raise ValueError(f"{quote(value)} is not a number") from None


def read_text(value: object) -> str:
    """Return a text. A number or a boolean becomes its JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_number(value):
        return str(_simplify_number(_check_number(value)))
    return _check_text(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_number(value: float) -> float:
    if not -_MAX_NUMBER < value < _MAX_NUMBER:
        raise ValueError("a number is too large")
    return value


def _simplify_number(value: float) -> float | int:
    """Return 5 for 5.0. Raises ValueError for nan and infinity."""
    number = _check_number(value)
    return int(number) if number == int(number) else number


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a value is missing" if value is None else f"{quote(value)} is not a text")
    return value
