"""Webhooks of NodePing with the body of our page, in JSON, as a form or as a query.

The variables are those of NodePing's notification templates: `_id` is the check, `event` is up or down.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, build_note, read_level
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "nodeping"

CHECK = ("check_id", "checkid", "_id", "id", "label", "target", "tg")
EVENT = ("event", "state", "status")
EVENTS = {
    "down": AlertType.CRITICAL,
    "0": AlertType.CRITICAL,
    "up": AlertType.RESOLVED,
    "1": AlertType.RESOLVED,
}
# A check that somebody added, changed or switched off.
NOTES = frozenset({"new", "added", "modified", "disabled", "enabled", "first", "maintenance"})
_LEFT = re.compile(r"\{\w{1,60}\}")


def _is_known(data: Fields) -> bool:
    return data.has(*CHECK) and data.has(*EVENT)


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    name, state, why = data.text("label", "target", "tg"), data.text(*EVENT), data.text("message", "m")
    check = data.text(*CHECK)
    entity = f"check {check}" if check else ""
    title = f"{name} is {state.upper()}" if name and state else name
    if state.lower() in NOTES:
        return [build_note(sent.value, message=title, entity=entity)]
    return [
        build_alert(
            sent.value,
            read_level(state, EVENTS),
            message=f"{title}: {why}" if title and why else title or why,
            summary=data.text("description"),
            entity=entity,
            links=[("Target", data.text("target", "tg"))],
            at=data.get("checktime") or data.get("time"),
        )
    ]


parse = as_parser(KIND, _is_known, _read)
