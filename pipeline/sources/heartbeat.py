"""Signs of life of a monitored thing, and what Tocsin says by itself when one is missing.

Whatever is sent is a ping, nothing too: a backup that is posted with a page of its output ran all the same.
Only what says that it failed is more; and a JSON object that is broken is refused, since it may have said
so. All are about one entity, so that a ping ends what is open.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.cleaning import clean_line, clean_text
from pipeline.sources.generic import decode_object

EXTENSION = "heartbeat"
ENTITY = "heartbeat"

FAILED = frozenset({"failed", "fail", "failure", "error"})
# What Tocsin itself writes: no sign of life.
MISSING = "missing"


def parse(body: bytes) -> list[ParsedAlert]:
    """One alert: a ping, which resolves, unless it says that it failed. BadBody for a broken object."""
    data = _parse_body(body)
    status = _get_text(data, "status").lower()
    has_failed = status in FAILED or status == MISSING
    message = clean_line(_get_text(data, "message"))
    return [
        ParsedAlert(
            message=message or ("It says that it failed" if has_failed else "Ping"),
            summary=clean_text(_get_text(data, "summary")),
            alert_type=AlertType.CRITICAL if has_failed else AlertType.RESOLVED,
            entity_id=ENTITY,
            payload=data,
            is_ping=status != MISSING,
            is_own=status == MISSING,
        )
    ]


def build_missing(name: str, since: datetime, every: timedelta, grace: timedelta) -> bytes:
    """A body that says of an integration, by name, that the last ping came at `since`."""
    data = {
        "status": MISSING,
        "message": f"No ping from {name} since {_format_time(since)}",
        "summary": f"One is expected every {_format_duration(every)},"
        f" and may be late by {_format_duration(grace)}.",
    }
    return json.dumps(data).encode()


def _parse_body(body: bytes) -> Mapping[str, Any]:
    """A JSON object, or what stands in a form or in the query of an address; {} for all else."""
    if body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return decode_object(body)
    try:
        form = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=100))
    except ValueError:
        return {}
    return {name: form[name] for name in ("status", "message", "summary") if name in form}


def _get_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value.strip() if isinstance(value, str) else ""


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_duration(span: timedelta) -> str:
    """300 s, 5 min, 24 h, 31 d: the largest unit of which it is a whole number."""
    seconds = int(span.total_seconds())
    units = ((86_400, "d"), (3_600, "h"), (60, "min"))
    return next(
        (f"{seconds // size} {unit}" for size, unit in units if seconds and seconds % size == 0),
        f"{seconds} s",
    )
