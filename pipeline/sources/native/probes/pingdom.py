"""Webhooks of Pingdom: uptime checks and transaction checks.

pingdom.com, "Webhooks". `importance_level` is that of the check: one of low importance is a warning.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, build_note, read_level

KIND = "pingdom"

STATES = {
    "down": AlertType.CRITICAL,
    "failing": AlertType.CRITICAL,
    "failed": AlertType.CRITICAL,
    "up": AlertType.RESOLVED,
    "success": AlertType.RESOLVED,
    "successful": AlertType.RESOLVED,
}
NOTES = frozenset({"paused", "unpaused", "maintenance"})
REPORT = "https://my.pingdom.com/app/reports/uptime#check="


def _is_known(data: Fields) -> bool:
    return data.has("check_id") and data.has("current_state", "check_name")


def _read(data: Fields) -> list[ParsedAlert]:
    check, state = data.text("check_id"), data.text("current_state")
    name = data.text("check_name") or data.text("check_params.hostname", "check_params.full_url")
    title = f"{name} is {state}" if state else name
    entity = f"check {check}"
    if state.lower() in NOTES:
        return [build_note(data.value, message=title, entity=entity)]
    why = data.text("description")
    return [
        build_alert(
            data.value,
            _read_level(data, state),
            message=f"{title}: {why}" if why else title,
            summary=data.text("long_description", "custom_message"),
            entity=entity,
            links=[
                ("Pingdom", f"{REPORT}{check}" if check.isascii() and check.isdecimal() else ""),
                ("Monitored", data.text("check_params.full_url", "check_params.url")),
            ],
            at=data.get("state_changed_timestamp") or data.get("state_changed_utc_time"),
        )
    ]


def _read_level(data: Fields, state: str) -> Level:
    level = read_level(state, STATES)
    is_low = data.text("importance_level").lower() == "low"
    return Level(AlertType.WARNING) if level == Level(AlertType.CRITICAL) and is_low else level


parse = as_parser(KIND, _is_known, _read)
