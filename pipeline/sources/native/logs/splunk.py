"""Alerts of Splunk, by its webhook action, or by a script that posts a message.

help.splunk.com, "Use a webhook alert action". A body has the first row of the results. Splunk has neither a
level nor an end of an alert: the fields `alert_type` and `entity_id` of the row can say both, if the search
sets them. `search_name` is null for some searches; then the sid without its time names the search.
"""

import re

from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    join_entity,
    read_optional_level,
)

KIND = "splunk_legacy"

# The time at which a search ran, in its sid: "scheduler__admin__search__RMD5_at_1772330975_132".
_TIME = re.compile(r"_at_(\d{9,11})_[\d.]{1,20}")
LEVELS_OF_ROW = ("result.alert_type", "result.severity", "result.urgency", "alert_type", "severity")


def _is_known(data: Fields) -> bool:
    return data.has("sid", "search_name", "results_link", "splunk_url")


def _read(data: Fields) -> list[ParsedAlert]:
    sid = data.text("sid")
    name, at = data.text("search_name"), _TIME.search(sid[:1_000])
    return [
        build_alert(
            data.value,
            _read_level(data),
            message=data.text("result.message", "message") or name or "Splunk alert",
            summary=data.text("summary") or _describe(data.get("result")),
            entity=_name_entity(data, name, sid),
            links=[("Splunk", data.text("results_link", "splunk_url"))],
            at=at[1] if at else None,
        )
    ]


def _read_level(data: Fields) -> Level:
    """Return the level of the row. The `status` of a script is "open", or a word for the end."""
    sent = data.text(*LEVELS_OF_ROW)
    status = data.text("status").lower()
    return read_optional_level(sent or ("" if status == "open" else status))


def _name_entity(data: Fields, name: str, sid: str) -> str:
    chosen = data.text("result.entity_id", "entity_id")
    if chosen:
        return chosen
    search = name or _TIME.sub("", sid[:1_000])
    return join_entity(data.text("app"), search) if search else ""


def _describe(row: object) -> str:
    """Return the fields of a row for people, without Splunk's own, whose names begin with an underscore."""
    known = row if isinstance(row, dict) else {}
    lines = [f"{name}: {value}" for name, value in known.items() if not name.startswith("_")]
    return "\n".join(lines[:50])


parse = as_parser(KIND, _is_known, _read)
