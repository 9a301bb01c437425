"""Webhooks of Site24x7, in JSON or as a form, with its incident parameters.

site24x7.com, "Webhooks integration". The monitor names the problem; without its ID, its name does.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
)
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "site24x7"

STATUSES = {
    "down": AlertType.CRITICAL,
    "critical": AlertType.CRITICAL,
    "configuration error": AlertType.ERROR,
    "configuration_error": AlertType.ERROR,
    "trouble": AlertType.WARNING,
    "up": AlertType.RESOLVED,
}
NOTES = frozenset({"maintenance", "suspended", "discovery", "discovery in progress", "acknowledged"})
_LEFT = re.compile(r"\$[A-Z_]{1,60}")


def _is_known(data: Fields) -> bool:
    return data.has("MONITORNAME", "MONITOR_ID", "MONITORID") and data.has("STATUS", "INCIDENT_REASON")


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    name, status = data.text("MONITORNAME", "MONITORURL"), data.text("STATUS")
    number = data.text("MONITOR_ID", "MONITORID")
    entity = join_entity("monitor", number) if number else join_entity(name, data.text("MONITORURL"))
    title = f"{name} is {status}" if status else name
    if status.lower() in NOTES:
        return [build_note(sent.value, message=title, entity=entity)]
    why = data.text("INCIDENT_REASON", "REASON")
    return [
        build_alert(
            sent.value,
            read_level(status, STATUSES),
            message=f"{title}: {why}" if why else title,
            summary=data.text("INCIDENT_DETAILS", "FAILED_LOCATIONS"),
            entity=entity,
            links=[
                ("Site24x7", data.text("MONITOR_DASHBOARD_LINK")),
                ("Analysis", data.text("RCA_LINK")),
                ("Monitored", data.text("MONITORURL")),
            ],
            at=data.get("INCIDENT_TIME_ISO") or data.get("OUTAGE_TIME_UNIX_FORMAT"),
        )
    ]


parse = as_parser(KIND, _is_known, _read)
