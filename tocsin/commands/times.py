"""Times and time zones in the arguments of commands."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from tocsin.commands.read_only import BadArguments


class ZoneType(click.ParamType):
    name = "zone"

    def convert(
        self, value: str | ZoneInfo, param: click.Parameter | None, ctx: click.Context | None
    ) -> ZoneInfo:
        if isinstance(value, ZoneInfo):
            return value
        from schedules.oncall.local_time import get_zone

        try:
            return get_zone(value)
        except ZoneInfoNotFoundError:
            self.fail(f"there is no time zone {value!r}")


def parse_time(text: str | None, zone: ZoneInfo) -> datetime | None:
    """Parse a time as in RFC 3339, or a date and time without an offset in the zone. None: now."""
    if text is None or text.strip() == "now":
        return None
    # Most commands only write times.
    from schedules.oncall import shifts
    from schedules.oncall.local_time import from_local

    try:
        moment = datetime.fromisoformat(text.strip())
        at = from_local(moment, zone) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadArguments(
            f"{text} is not a time: use 2026-12-24T18:00:00+01:00, or 2026-12-24 18:00 (in --zone)"
        ) from None
    if not shifts.EARLIEST <= at < shifts.LATEST:
        raise BadArguments(f"{text} is too far in the past or future")
    return at


_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


class DurationType(click.ParamType):
    """A duration such as 90s, 45m, 2h or 1d, or more than one of these in a row, up to `longest`."""

    name = "duration"

    def __init__(self, longest: timedelta) -> None:
        self.longest = longest

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        tokens = _DURATION.findall(value.strip())
        if not tokens or "".join(map("".join, tokens)) != value.strip():
            self.fail(f"{value} is not a duration: use 90s, 45m, 2h30m or 1d")
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in tokens)
        if seconds > self.longest.total_seconds():
            self.fail(f"{value} is too long: at most {self.longest.days}d")
        if seconds == 0:
            self.fail(f"{value} is no time at all")
        return timedelta(seconds=seconds)


def write_duration(seconds: float) -> str:
    """Return a duration in the form of DurationType."""
    rest, text = round(seconds), ""
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def format_time(at: datetime | None) -> str:
    """Return a time in UTC as lists show it; "" for None."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""
