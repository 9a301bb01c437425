"""Notifications of PRTG by "Execute HTTP Action", with the fields of our page, as a form or in JSON.

The values are PRTG's placeholders. The sensor names the problem. The end of a state has the old state and the
new one: "Down ended (now: Up)". PRTG writes states in the language of its system, so the color says the state
if the word is unknown. `%datetime` has no time zone, so the time of arrival counts.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
)
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "prtg"

STATUS = ("status", "laststatus")
STATES = {
    "down": AlertType.CRITICAL,
    "error": AlertType.CRITICAL,
    "down (partial)": AlertType.ERROR,
    "unknown": AlertType.ERROR,
    "warning": AlertType.WARNING,
    "unusual": AlertType.WARNING,
    "up": AlertType.RESOLVED,
    "ok": AlertType.RESOLVED,
}
# The colors of %colorofstate, the same in each language.
COLORS = {
    "d71920": "down",
    "ffcb05": "warning",
    "b4cc38": "up",
    "447fc1": "paused",
}
# Somebody acknowledged the alarm, or paused the sensor.
ACKNOWLEDGED, PAUSED = "down (acknowledged)", "paused"
KNOWN = {*STATES, ACKNOWLEDGED}
_NOW = re.compile(r"\(now: ([^()]{1,60}(?:\([^()]{1,60}\))?)\)", re.IGNORECASE)
_WAS = re.compile(r"\s*\(was: .{0,100}|\s+(?:ended|escalation|repeat).{0,100}", re.IGNORECASE | re.DOTALL)
_LEFT = re.compile(r"%[a-z]{1,40}")


def _is_known(data: Fields) -> bool:
    return data.has("sensorid", "sensor") and data.has(*STATUS)


def _read(sent: Fields) -> list[ParsedAlert]:
    data = without_placeholders(sent, _LEFT)
    device, sensor = data.text("device", "host", "server"), data.text("sensor", "shortname", "name")
    name = f"{device}: {sensor}" if device and sensor else device or sensor
    status, why = data.text(*STATUS), data.text("message", "lastmessage")
    title = f"{name} is {status}" if status else name
    number = data.text("sensorid")
    entity = join_entity("sensor", number) if number else join_entity(device, sensor)
    state = _find_state(status)
    if state not in KNOWN and not state.startswith(PAUSED):
        color = data.text("colorofstate", "color").lower().removeprefix("#")
        state = COLORS.get(color, state)
    if state.startswith(PAUSED):
        return [build_note(sent.value, message=title, entity=entity)]
    return [
        build_alert(
            sent.value,
            Level(AlertType.ACKNOWLEDGED) if state == ACKNOWLEDGED else read_level(state, STATES),
            message=f"{title}: {why}" if why else title,
            summary=data.text("comments", "lastvalue"),
            entity=entity,
            links=[("Sensor", data.text("linksensor")), ("Device", data.text("linkdevice"))],
        )
    ]


def _find_state(status: str) -> str:
    """Return the state that the sensor has now, in small letters."""
    found = _NOW.search(status[:300])
    return (found[1] if found else _WAS.sub("", status[:300])).strip().lower()


parse = as_parser(KIND, _is_known, _read)
