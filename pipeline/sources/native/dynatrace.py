"""Problems of Dynatrace, by a custom integration with the payload of our page; also events of its workflows.

docs.dynatrace.com, "Webhook integration". A problem that becomes a part of another one is MERGED: it ends,
and the other one has notifications of its own.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, read_optional_level
from pipeline.sources.reading.placeholders import without_placeholders

KIND = "dynatrace"

ENDED = frozenset({"resolved", "closed", "merged"})
SEVERITIES = {
    "availability": AlertType.CRITICAL,
    "error": AlertType.CRITICAL,
    "custom_alert": AlertType.CRITICAL,
    "monitoring_unavailable": AlertType.ERROR,
    "performance": AlertType.WARNING,
    "slowdown": AlertType.WARNING,
    "resource": AlertType.WARNING,
    "resource_contention": AlertType.WARNING,
    "info": AlertType.INFO,
}
# What the button "Send test notification" sends.
TEST_NUMBERS, TEST_TITLE = frozenset({"99999", "999999", "testid"}), "notification test run"
DETAILS = ("ProblemDetailsJSON", "ProblemDetailsJSONv2")
_LEFT = re.compile(r"\{[A-Za-z0-9]{1,60}\}")
# The fields of an event have dots in their names.
_OF_WORKFLOWS = {
    "event.id": "PID",
    "display_id": "ProblemID",
    "event.name": "ProblemTitle",
    "event.description": "ProblemDetailsText",
    "event.status": "State",
    "event.category": "ProblemSeverity",
    "event.start": "StartTime",
    "event.end": "EndTime",
}


def _is_known(data: Fields) -> bool:
    return data.has("ProblemID", "PID") or "event.id" in data.value


def _read(sent: Fields) -> list[ParsedAlert]:
    renamed = Fields({_OF_WORKFLOWS.get(name, name): value for name, value in sent.value.items()})
    data = without_placeholders(renamed, _LEFT)
    ended = data.text("State").lower() in ENDED
    title, where = data.text("ProblemTitle"), data.text("ImpactedEntity", "ImpactedEntityNames")
    return [
        build_alert(
            sent.value,
            _read_level(data, title),
            message=f"{title}: {where}" if title and where else title or data.text("ProblemID"),
            summary=data.text("ProblemDetailsText", "ProblemDetails", "ProblemDetailsMarkdown"),
            entity=data.text("PID", "ProblemID"),
            links=[("Dynatrace", data.text("ProblemURL", "Problem URL"))],
            at=_find_time(data, "end" if ended else "start"),
        )
    ]


def _read_level(data: Fields, title: str) -> Level:
    is_test = data.text("PID", "ProblemID").lower() in TEST_NUMBERS
    if is_test or title.lower().endswith(TEST_TITLE):
        return Level(AlertType.INFO)
    if data.text("State").lower() in ENDED:
        return Level(AlertType.RESOLVED)
    severity = data.text("ProblemSeverity", *(f"{name}.severityLevel" for name in DETAILS))
    return read_optional_level(severity, SEVERITIES)


def _find_time(data: Fields, name: str) -> object:
    paths = (f"{name.title()}Time", *(f"{details}.{name}Time" for details in DETAILS))
    return next((value for path in paths if (value := data.get(path)) is not None), None)


parse = as_parser(KIND, _is_known, _read)
