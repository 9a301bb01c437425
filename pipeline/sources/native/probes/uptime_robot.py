"""Webhooks of UptimeRobot with the value of our page, in JSON, as a form or as a query.

The names are those of UptimeRobot's variables. A certificate or domain that expires is a problem of its own,
so that the monitor that is up again does not end it.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, read_level
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "uptimerobot"

MONITOR = ("monitorID", "id", "monitorURL", "monitorFriendlyName", "alertName")
TYPE = ("alertType", "alertTypeFriendlyName", "alertTypeName")
EXPIRES = "expires"
TYPES = {
    "1": AlertType.CRITICAL,
    "down": AlertType.CRITICAL,
    "2": AlertType.RESOLVED,
    "up": AlertType.RESOLVED,
    EXPIRES: AlertType.WARNING,
}
# "SSL expiry", "Domain expiration" and the like.
_EXPIRES = re.compile(r"ssl|certificate|domain|expir", re.IGNORECASE)
_LEFT = re.compile(r"\*\w{1,60}\*")


def _is_known(data: Fields) -> bool:
    return data.has(*MONITOR) and data.has(*TYPE)


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    kind = _find_type(data)
    name = data.text("monitorFriendlyName", "alertName", "monitorURL")
    state, why = data.text("alertTypeFriendlyName", "alertTypeName"), data.text("alertDetails")
    message = f"{name} is {state.upper()}" if kind != EXPIRES and state else name
    monitor = data.text(*MONITOR)
    return [
        build_alert(
            sent.value,
            read_level(kind, TYPES),
            message=f"{message}: {why}" if message and why else message or why,
            summary=_describe(data),
            entity=f"{'certificate' if kind == EXPIRES else 'monitor'} {monitor}" if monitor else "",
            links=[("Monitor", data.text("monitorURL"))],
            at=data.get("alertDateTime"),
        )
    ]


def _find_type(data: Fields) -> str:
    """Return the type of an alert: a number, a word, or EXPIRES."""
    name = data.text("alertTypeFriendlyName", "alertTypeName")
    number = data.text("alertType")
    return EXPIRES if number == "3" or _EXPIRES.search(name[:100]) else (number or name).lower()


def _describe(data: Fields) -> str:
    parts = [
        ("Down for", data.text("alertFriendlyDuration")),
        ("Certificate expires on", data.text("sslExpiryDate")),
        ("Days left", data.text("sslExpiryDaysLeft")),
    ]
    return "\n".join(f"{text}: {value}" for text, value in parts if value)


parse = as_parser(KIND, _is_known, _read)
