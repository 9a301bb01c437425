"""Pings of a monitored job, and the alert that Tocsin writes itself when a ping is missing.

Every body is a ping, even an empty one: a backup job that posts a page of its output has run. A body can also
report a failure. A broken JSON object is refused, because it may have reported a failure. All pings of an
integration are about one entity, so that the next ping resolves the open incident.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from models.domain.enums import AlertType
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.cleaning import clean_line, clean_text
from pipeline.sources.reading.generic import decode_object

EXTENSION = "heartbeat"
ENTITY = "heartbeat"

# The source of the receipts that Tocsin writes itself, about a missing ping. They are not pings.
MISSING_PING = "missing-ping"

MISSING = "missing"
FAILED = frozenset({"failed", "fail", "failure", "error", MISSING})


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return one alert: a ping, which resolves, or a reported failure. Raises BadBody for a broken object."""
    data = _parse_body(body)
    status = _get_text(data, "status").lower()
    has_failed = status in FAILED
    message = clean_line(_get_text(data, "message"))
    return [
        ParsedAlert(
            message=message or ("The monitored job reported a failure" if has_failed else "Ping"),
            summary=clean_text(_get_text(data, "summary")),
            alert_type=AlertType.CRITICAL if has_failed else AlertType.RESOLVED,
            entity_id=ENTITY,
            payload=data,
            is_ping=True,
        )
    ]


def parse_missing(body: RequestBody) -> list[ParsedAlert]:
    """Return the alert of a body by `build_missing`."""
    return [replace(alert, is_ping=False, is_own=True) for alert in parse(body)]


def build_missing(name: str, since: datetime, every: timedelta, grace: timedelta) -> bytes:
    """Return a body that says that an integration, by name, sent its last ping at `since`."""
    data = {
        "status": MISSING,
        "message": f"No ping from {name} since {_format_time(since)}",
        "summary": f"A ping is expected every {_format_duration(every)},"
        f" and can be late by {_format_duration(grace)}.",
    }
    return json.dumps(data).encode()


def _parse_body(body: RequestBody) -> Mapping[str, object]:
    """Return a JSON object, or the fields of a form or of a query string; {} for anything else."""
    if body.raw.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return decode_object(body)
    try:
        form = dict(parse_qsl(body.raw.decode("utf-8", "replace"), max_num_fields=100))
    except ValueError:
        return {}
    return {name: form[name] for name in ("status", "message", "summary") if name in form}


def _get_text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    return value.strip() if isinstance(value, str) else ""


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_duration(span: timedelta) -> str:
    """Return 300 s, 5 min, 24 h or 31 d: a whole number of the largest possible unit."""
    seconds = int(span.total_seconds())
    units = ((86_400, "d"), (3_600, "h"), (60, "min"))
    return next(
        (f"{seconds // size} {unit}" for size, unit in units if seconds and seconds % size == 0),
        f"{seconds} s",
    )
