"""Webhooks of Uptime Kuma: heartbeat, monitor and msg, in JSON or in the part `data` of a form.

A test, and a certificate that expires, come without a heartbeat.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    Value,
    as_parser,
    build_alert,
    build_note,
    read_level,
    read_object,
)
from pipeline.sources.reading.multipart import read_parts

KIND = "uptimekuma"

MAINTENANCE = "3"
STATUSES = {"0": AlertType.CRITICAL, "1": AlertType.RESOLVED, "2": AlertType.WARNING}
_EXPIRES = re.compile(r"certificate .{0,200}will expire", re.IGNORECASE | re.DOTALL)


def _is_known(data: Fields) -> bool:
    return data.has("heartbeat", "monitor") or {"heartbeat", "monitor", "msg"} <= data.value.keys()


def _read(data: Fields) -> list[ParsedAlert]:
    monitor = data.text("monitor.id", "heartbeat.monitorID")
    entity = f"monitor {monitor}" if monitor else ""
    message = data.text("msg", "heartbeat.msg")
    if data.text("heartbeat.status") == MAINTENANCE:
        return [build_note(data.value, message=message, entity=entity)]
    return [
        build_alert(
            data.value,
            _read_level(data, message),
            message=_build_title(data) or message,
            summary=message,
            entity=entity,
            links=[("Monitor", data.text("monitor.url"))],
            at=data.get("heartbeat.time"),
        )
    ]


def _read_level(data: Fields, message: str) -> Level:
    if data.has("heartbeat"):
        return read_level(data.text("heartbeat.status"), STATUSES)
    return Level(AlertType.WARNING if _EXPIRES.search(message[:2_000]) else AlertType.INFO)


def _build_title(data: Fields) -> str:
    name, why = data.text("monitor.name"), data.text("heartbeat.msg")
    return f"{name}: {why}" if name and why else name


def _decode(body: RequestBody) -> Value:
    """Return the object of a body. Raises BadBody."""
    parts = read_parts(body)
    if parts is None:
        return read_object(body)
    return read_object(RequestBody(parts.get("data", "").encode()))


parse = as_parser(KIND, _is_known, _read, _decode)
