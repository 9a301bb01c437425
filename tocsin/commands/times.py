"""Times and time zones in the arguments of commands."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from schedules.oncall import shifts
from schedules.oncall.local_time import from_local, get_zone
from tocsin.commands.read_only import BadArguments


class ZoneType(click.ParamType):
    name = "zone"

    def convert(
        self, value: str | ZoneInfo, param: click.Parameter | None, ctx: click.Context | None
    ) -> ZoneInfo:
        if isinstance(value, ZoneInfo):
            return value
        try:
            return get_zone(value)
        except ZoneInfoNotFoundError:
            self.fail(f"there is no time zone {value!r}")


def parse_time(text: str | None, zone: ZoneInfo) -> datetime | None:
    """Parse a time as in RFC 3339, or a date and time without an offset in the zone. None: now."""
    if text is None or text.strip() == "now":
        return None
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
