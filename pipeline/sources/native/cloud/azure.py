"""Alerts of Azure Monitor in the common alert schema. azure_older.py reads the older ones.

learn.microsoft.com, "Common alert schema". `alertId` is that of the instance of the alert: the same when it
fires and when it is resolved. `originAlertId` differs between the two for some kinds of monitors.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.native.cloud.azure_older import is_older, read_older
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, read_level

KIND = "microsoftazure"

SEVERITIES = {
    "sev0": AlertType.CRITICAL,
    "sev1": AlertType.CRITICAL,
    "sev2": AlertType.ERROR,
    "sev3": AlertType.WARNING,
    "sev4": AlertType.INFO,
}
PORTAL = "https://portal.azure.com/#resource"


def _is_known(data: Fields) -> bool:
    return _is_common(data) or is_older(data)


def _is_common(data: Fields) -> bool:
    return data.has("data.essentials.alertId", "data.essentials.originAlertId")


def _read(data: Fields) -> list[ParsedAlert]:
    if not _is_common(data):
        return read_older(data)
    found = data.within("data.essentials")
    resolved = found.text("monitorCondition").lower() == "resolved"
    target = found.text("alertTargetIDs")
    return [
        build_alert(
            data.value,
            Level(AlertType.RESOLVED) if resolved else read_level(found.text("severity"), SEVERITIES),
            message=_build_title(found),
            summary=found.text("description"),
            entity=found.text("alertId", "originAlertId").lower(),
            links=[
                ("Query", data.text("data.alertContext.condition.allOf.0.linkToSearchResultsUI")),
                ("Resource", f"{PORTAL}{target}" if target.startswith("/") else ""),
            ],
            at=found.get("resolvedDateTime" if resolved else "firedDateTime"),
        )
    ]


def _build_title(found: Fields) -> str:
    rule, item = found.text("alertRule"), found.text("configurationItems")
    return f"{rule}: {item}" if rule and item else rule or item


parse = as_parser(KIND, _is_known, _read)
