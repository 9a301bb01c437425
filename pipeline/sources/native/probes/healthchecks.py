"""Webhooks of Healthchecks with the body of our page, or with its placeholder $JSON."""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, build_note, read_level

KIND = "healthchecks"

ENTITY = ("code", "uuid", "unique_key")
STATUSES = {"down": AlertType.CRITICAL, "up": AlertType.RESOLVED}
NOTES = frozenset({"new", "grace", "paused", "started"})


def _is_known(data: Fields) -> bool:
    return data.has(*ENTITY) and data.has("status")


def _read(data: Fields) -> list[ParsedAlert]:
    name, status, entity = data.text("name") or "check", data.text("status").lower(), data.text(*ENTITY)
    message = f"{name} is {status.upper()}"
    if status in NOTES:
        return [build_note(data.value, message=message, entity=entity)]
    return [
        build_alert(
            data.value,
            read_level(status, STATUSES),
            message=message,
            summary=data.text("body", "desc"),
            entity=entity,
            links=[("Check", data.text("url"))],
            at=data.get("now"),
        )
    ]


parse = as_parser(KIND, _is_known, _read)
