"""Issues of New Relic: the default payload of workflows, and the older form of alert channels.

docs.newrelic.com, "Workflow variables". Values can be lists; then the first one counts.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import LEVELS, Fields, Level, as_parser, build_alert, read_level

KIND = "newrelic"

ENTITY = ("issueId", "issue_id", "incident_id", "id")
ENDED, ACKNOWLEDGED = frozenset({"closed", "resolved"}), "acknowledged"
PRIORITIES = {**LEVELS, "high": AlertType.ERROR, "medium": AlertType.WARNING, "low": AlertType.INFO}


def _is_known(data: Fields) -> bool:
    return data.has(*ENTITY) and data.has("state", "current_state", "priority", "severity")


def _read(data: Fields) -> list[ParsedAlert]:
    state = data.text("state", "current_state").lower()
    return [
        build_alert(
            data.value,
            _read_level(data, state),
            message=data.text("title", "issueTitle", "condition_name", "alertConditionNames"),
            summary=data.text("details", "description", "alertConditionNames"),
            entity=data.text(*ENTITY),
            links=[
                ("New Relic", data.text("issueUrl", "issuePageUrl", "incident_url")),
                ("Runbook", data.text("runbookUrl", "runbook_url")),
            ],
            at=data.get("updatedAt") or data.get("timestamp"),
        )
    ]


def _read_level(data: Fields, state: str) -> Level:
    if state in ENDED:
        return Level(AlertType.RESOLVED)
    if state == ACKNOWLEDGED:
        return Level(AlertType.ACKNOWLEDGED)
    return read_level(data.text("priority", "severity"), PRIORITIES)


parse = as_parser(KIND, _is_known, _read)
