"""Alerts of Sumo Logic: monitors and scheduled searches, by a webhook connection.

sumologic.com, "Alert variables". Names of fields count without their case and underscores, as people write
the payload. A monitor and its trigger (critical, warning, missing data) together are one problem: each of
them ends on its own.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    join_entity,
    read_level,
    read_optional_level,
)

KIND = "sumologic"

NAME = ("alertname", "name", "monitorname", "searchname")
TRIGGERS = {
    "critical": AlertType.CRITICAL,
    "warning": AlertType.WARNING,
    "missingdata": AlertType.ERROR,
    "normal": AlertType.RESOLVED,
}
ENDED = "resolved"


def _fold(data: Fields) -> Fields:
    """Return the fields by their names in lower case, without underscores."""
    return Fields({name.lower().replace("_", ""): value for name, value in data.value.items()})


def _is_known(data: Fields) -> bool:
    found = _fold(data)
    return found.has(*NAME) and found.has("triggertype", "monitortype", "searchquery", "query", "queryurl")


def _read(sent: Fields) -> list[ParsedAlert]:
    data = _fold(sent)
    trigger = data.text("triggertype").lower().replace(" ", "")
    level = _read_level(data, trigger)
    name = data.text(*NAME)
    what = data.text("triggertype")
    return [
        build_alert(
            sent.value,
            level,
            message=f"{name}: {what}" if what else name,
            summary=data.text("description", "searchdescription", "triggercondition", "query", "searchquery"),
            entity=join_entity(
                data.text("id", "monitorid") or data.text("name", "monitorname", "searchname"),
                "critical" if trigger == "normal" else trigger.removeprefix(ENDED),
                *filter(None, [data.text("key", "alertgroup")]),
            ),
            links=[
                ("Sumo Logic", data.text("alertresponseurl")),
                ("Query", data.text("queryurl", "searchqueryurl")),
            ],
            at=data.get("triggertimeend") or data.get("triggertimestart"),
        )
    ]


def _read_level(data: Fields, trigger: str) -> Level:
    if trigger.startswith(ENDED):
        return Level(AlertType.RESOLVED)
    if trigger:
        return read_level(trigger, TRIGGERS)
    return read_optional_level(data.text("alertstatus", "severity"))


parse = as_parser(KIND, _is_known, _read)
