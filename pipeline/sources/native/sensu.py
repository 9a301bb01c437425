"""Events of Sensu Go, as a handler gets them; also subject and message of a handler for incident tools.

docs.sensu.io, "Events reference". The entity and its check together are one problem. The status 0 is OK, 1 a
warning, 2 critical, and every other one unknown. A silenced problem is a note.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
)

KIND = "sensu_go"

STATUSES = {"0": AlertType.RESOLVED, "1": AlertType.WARNING, "2": AlertType.CRITICAL}
# "check_disk CRITICAL on host web-1"
_SUBJECT = re.compile(r"(.{1,300}) (?:RESOLVED|WARNING|CRITICAL|ALERT) on host (.{1,300})")
RUNBOOK = ("check.metadata.annotations.runbook", "check.metadata.annotations.documentation")
# Other statuses, which a plugin may use as it likes.
_STATUS = re.compile(r"[3-9]|[1-9]\d{1,2}")


def _is_known(data: Fields) -> bool:
    event = _unwrap(data)
    return event.has("entity.metadata") or data.has("properties.subject", "properties.status")


def _unwrap(data: Fields) -> Fields:
    """Return the event of a body. The command-line tool of Sensu puts it into `spec`."""
    return data.within("spec") if data.has("spec.entity") else data


def _read(data: Fields) -> list[ParsedAlert]:
    event = _unwrap(data)
    return [_read_event(data, event) if event.has("entity") else _read_properties(data)]


def _read_event(data: Fields, event: Fields) -> ParsedAlert:
    entity, check = event.text("entity.metadata.name"), event.text("check.metadata.name")
    named = join_entity(event.text("entity.metadata.namespace") or "default", entity, check)
    name = f"{entity}: {check}" if check else entity
    if not event.has("check"):
        return build_note(data.value, message=f"{name}: metrics", entity=named)
    output = event.text("check.output")
    first, _, _ = output.partition("\n")
    message = f"{name}: {first}" if first else name
    level = _read_status(event.text("check.status"))
    is_silenced = event.get("check.is_silenced") is True or event.text("check.silenced") != ""
    if is_silenced and level.alert_type is not AlertType.RESOLVED:
        return build_note(data.value, message=f"{message} (silenced)", entity=named)
    return build_alert(
        data.value,
        level,
        message=message,
        summary=output,
        entity=named,
        links=[("Runbook", event.text(*RUNBOOK))],
        at=event.get("timestamp") or event.get("check.executed"),
    )


def _read_status(status: str) -> Level:
    if _STATUS.fullmatch(status):
        return Level(AlertType.ERROR)
    return read_level(status, STATUSES)


def _read_properties(data: Fields) -> ParsedAlert:
    found = data.within("properties")
    subject = found.text("subject")
    parts = _SUBJECT.fullmatch(subject[:700])
    return build_alert(
        data.value,
        read_level(found.text("status"), {**LEVELS, "alert": AlertType.ERROR}),
        message=subject,
        summary=found.text("message"),
        entity=join_entity("default", parts[2], parts[1]) if parts else subject,
    )


parse = as_parser(KIND, _is_known, _read)
