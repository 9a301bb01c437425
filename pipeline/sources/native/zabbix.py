"""Webhooks of Zabbix, as the media type in deploy/zabbix sends them.

The values are macros of Zabbix. In a recovery, {EVENT.ID} is still the ID of the problem. A macro that Zabbix
does not know stays in braces, and counts as missing.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import LEVELS, Fields, Level, as_parser, build_alert, read_level

KIND = "zabbix"

ENTITY = ("original_problem_id", "event_id", "eventid", "trigger_id")
# Severities of Zabbix by number (0 is "not classified"), and by name.
SEVERITIES = {
    **LEVELS,
    "0": AlertType.WARNING,
    "not classified": AlertType.WARNING,
    "1": AlertType.INFO,
    "2": AlertType.WARNING,
    "3": AlertType.ERROR,
    "4": AlertType.CRITICAL,
    "high": AlertType.CRITICAL,
    "5": AlertType.CRITICAL,
}
ENDED = frozenset({"0", "ok", "resolved", "recovery"})


def _is_known(data: Fields) -> bool:
    return data.has(*ENTITY)


def _get_text(data: Fields, *names: str) -> str:
    """Return the first value that is no macro in braces."""
    return next((text for name in names if (text := data.text(name)) and not text.startswith("{")), "")


def _read(data: Fields) -> list[ParsedAlert]:
    host, name = _get_text(data, "host", "host_name", "hostname"), _get_text(data, "event_name", "subject")
    return [
        build_alert(
            data.value,
            _read_level(data),
            message=f"{host}: {name}" if host and name else name or host,
            summary=_get_text(data, "message", "event_opdata"),
            entity=_get_text(data, *ENTITY),
            links=[("Zabbix", _get_text(data, "url", "event_url"))],
            at=data.get("event_timestamp"),
        )
    ]


def _read_level(data: Fields) -> Level:
    if _get_text(data, "event_value", "event_status").lower() in ENDED:
        return Level(AlertType.RESOLVED)
    is_update = _get_text(data, "event_update_status") == "1"
    if is_update and "acknowledged" in _get_text(data, "event_update_action").lower().replace("unack", ""):
        return Level(AlertType.ACKNOWLEDGED)
    return read_level(_get_text(data, "event_nseverity", "event_severity", "severity"), SEVERITIES)


parse = as_parser(KIND, _is_known, _read)
