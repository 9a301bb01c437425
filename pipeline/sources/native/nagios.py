"""Notifications of Nagios, Icinga, Checkmk and Centreon, as the script in deploy/nagios sends them.

The field names are those of the macros of Nagios in lower case. The variables of a notification of Checkmk
are read too, as scripts of others post them. A host and a service are both in the
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


HOST, TYPE = ("hostname", "host"), "notificationtype"
SERVICE = ("servicedescription", "servicedesc", "servicename", "service")
PREFIX = "notify_"


def _fold(data: Fields) -> Fields:
    """Return the fields by their names in lower case, without underscores and Checkmk's prefix.

    So `host_name` and `NOTIFY_HOSTNAME` are one field: scripts of others name them in many ways.
    """
    names = ((name.lower().removeprefix(PREFIX).replace("_", ""), name) for name in data.value)
    return Fields({folded: data.value[name] for folded, name in names})


def _is_known(data: Fields) -> bool:
    found = _fold(data)
    return found.has(*HOST) and found.has(TYPE, "state", "servicestate", "hoststate")


def _read(sent: Fields) -> list[ParsedAlert]:
    data = _fold(sent)
    host, service = data.text(*HOST), data.text(*SERVICE)
    if data.text("what").lower() == "host":
        service = ""
    of = "service" if service else "host"
    state = data.text("state", f"{of}state", *(["severity"] if service else []), "status")
    output = data.text("output", f"{of}output")
    entity, kind = join_entity(host, service), data.text(TYPE).lower()
    name = f"{host}: {service}" if service else host
    message = f"{name} is {state or kind.upper()}"
    if kind.startswith(NOTES):
        return [build_note(sent.value, message=f"{name}: {kind}", entity=entity)]
    return [
        build_alert(
            sent.value,
            _read_level(state, kind),
            message=f"{message}: {output}" if output else message,
            summary=data.text("longoutput", f"long{of}output", "notificationcomment"),
            entity=entity,
            links=[("Notes", data.text("notesurl", "url"))],
            at=data.get("time") or data.get("microtime"),
        )
    ]


def _read_level(state: str, kind: str) -> Level:
    if kind.startswith(ENDED):
        return Level(AlertType.RESOLVED)
    return Level(AlertType.ACKNOWLEDGED) if kind == ACKNOWLEDGED else read_level(state, STATES)


def build_parser(kind: str) -> Callable[[RequestBody], list[ParsedAlert]]:
    """Return the `parse` of a tool of this family."""
    return as_parser(kind, _is_known, _read)
