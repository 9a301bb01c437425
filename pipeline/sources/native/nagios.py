"""Notifications of Nagios, Icinga, Checkmk and Centreon, as the script in deploy/nagios sends them.

The field names are those of the macros of Nagios in lower case. A host and a service are both in the
entity_id, so that the same service of two hosts is two problems.
"""

from collections.abc import Callable

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
)

STATES = {
    "down": AlertType.CRITICAL,
    "critical": AlertType.CRITICAL,
    "crit": AlertType.CRITICAL,
    "unreachable": AlertType.ERROR,
    "unknown": AlertType.ERROR,
    "warning": AlertType.WARNING,
    "warn": AlertType.WARNING,
    "up": AlertType.RESOLVED,
    "ok": AlertType.RESOLVED,
}
ENDED, ACKNOWLEDGED = "recovery", "acknowledgement"
# Flapping, downtimes and messages of people: the problem itself is as it was.
NOTES = ("flapping", "downtime", "custom")


def _is_known(data: Fields) -> bool:
    return data.has("host_name") and data.has("state", "notification_type")


def _read(data: Fields) -> list[ParsedAlert]:
    host, service = data.text("host_name"), data.text("service_description")
    entity, kind = join_entity(host, service), data.text("notification_type").lower()
    name = f"{host}: {service}" if service else host
    message = f"{name} is {data.text('state') or kind.upper()}"
    if kind.startswith(NOTES):
        return [build_note(data.value, message=f"{name}: {kind}", entity=entity)]
    return [
        build_alert(
            data.value,
            _read_level(data, kind),
            message=f"{message}: {data.text('output')}" if data.text("output") else message,
            summary=data.text("long_output", "notification_comment"),
            entity=entity,
            links=[("Notes", data.text("notes_url"))],
            at=data.get("time"),
        )
    ]


def _read_level(data: Fields, kind: str) -> Level:
    if kind.startswith(ENDED):
        return Level(AlertType.RESOLVED)
    return Level(AlertType.ACKNOWLEDGED) if kind == ACKNOWLEDGED else read_level(data.text("state"), STATES)


def build_parser(kind: str) -> Callable[[RequestBody], list[ParsedAlert]]:
    """Return the `parse` of a tool of this family."""
    return as_parser(kind, _is_known, _read)
