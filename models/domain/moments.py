"""Times as the interface shows them (contract section 1.4)."""

from datetime import UTC, datetime


def format_moment(moment: datetime) -> str:
    """Return an aware time in UTC, with microseconds and a Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
