"""Findings of Amazon GuardDuty, as events of EventBridge, also in notifications of Amazon SNS; and the
findings of AWS Security Hub.

docs.aws.amazon.com, "Processing GuardDuty findings with Amazon EventBridge" and "AWS Security Finding
Format". GuardDuty sends a finding again when its count grows. It reports no end, but an archived finding is
over.
"""

import re
from collections.abc import Mapping

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.native.cloud.console import build_console_link
from pipeline.sources.native.cloud.notifications import is_notification, read_notification
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    as_parser,
    build_alert,
    clean_items,
    join_entity,
    read_items,
    read_level,
)

KIND = "guardduty"

# The lowest number of each level. GuardDuty calls 7.0 and more high, and 9.0 and more critical.
SEVERITIES = ((7.0, AlertType.CRITICAL), (4.0, AlertType.WARNING), (0.0, AlertType.INFO))
# Security Hub has labels, and states in which a person has dealt with a finding.
LABELS = {**LEVELS, "high": AlertType.CRITICAL, "informational": AlertType.INFO}
ENDED = frozenset({"resolved", "suppressed"})
SAMPLE = "[sample]"
# The findings of an event of Security Hub. Each of them is an alert.
FINDINGS = "detail.findings"
_NUMBER = re.compile(r"\d{1,3}(\.\d{1,10})?")


def _is_known(data: Fields) -> bool:
    return is_notification(data) or _has_findings(data)


def _has_findings(data: Fields) -> bool:
    if isinstance(data.get(FINDINGS), list):
        return True
    found = _find_detail(data)
    return found.has("id") and found.has("severity", "type")


def _find_detail(data: Fields) -> Fields:
    """Return the finding of an event, or of a body that is the finding itself, with its names in small
    initials: the API of GuardDuty answers with capitals."""
    detail = data.within("detail") if data.has("detail") else data
    return Fields(_lower(detail.value))


def _lower(value: Mapping[str, object]) -> dict[str, object]:
    inner = {name[:1].lower() + name[1:]: one for name, one in value.items()}
    service = inner.get("service")
    return {**inner, "service": _lower(service)} if isinstance(service, dict) else inner


def _read(data: Fields) -> list[ParsedAlert]:
    return _read_event(data) or read_notification(KIND, data, _read_event)


def _read_event(data: Fields) -> list[ParsedAlert]:
    """Return the findings of an event; [] if it is about something else."""
    if not _has_findings(data):
        return []
    findings = data.get(FINDINGS)
    if isinstance(findings, list) and any(isinstance(one, dict) for one in findings):
        return read_items(KIND, clean_items(findings), _read_hub)
    return [] if isinstance(findings, list) else [_read_finding(data, _find_detail(data))]


def _read_finding(data: Fields, found: Fields) -> ParsedAlert:
    number, region = found.text("id"), found.text("region") or data.text("region")
    title = found.text("title", "type")
    return build_alert(
        data.value,
        _read_level(found, title),
        message=title,
        summary=found.text("description", "type"),
        entity=join_entity(found.text("accountId") or data.text("account"), region, number),
        links=[("GuardDuty", _build_link(found.text("arn"), region, number))],
        at=found.get("updatedAt") or data.get("time"),
    )


def _read_level(found: Fields, title: str) -> Level:
    if found.get("service.archived") is True:
        return Level(AlertType.RESOLVED)
    if title.lower().startswith(SAMPLE):
        return Level(AlertType.INFO)
    sent = found.text("severity")
    if _NUMBER.fullmatch(sent):
        return Level(next(level for lowest, level in SEVERITIES if float(sent) >= lowest))
    return read_level(sent, LABELS)


def _build_link(arn: str, region: str, number: str) -> str:
    fragment = f"/findings?fId={number}"
    return build_console_link(arn, region, "guardduty", fragment) if number.isalnum() else ""


def _read_hub(item: Fields) -> ParsedAlert:
    state = item.text("Workflow.Status", "WorkflowState").lower()
    ended = state in ENDED or item.text("RecordState").lower() == "archived"
    passed = item.text("Compliance.Status").lower() == "passed"
    return build_alert(
        item.value,
        Level(AlertType.RESOLVED) if ended or passed else read_level(item.text("Severity.Label"), LABELS),
        message=item.text("Title"),
        summary=item.text("Description"),
        entity=item.text("Id"),
        links=[("Source", item.text("SourceUrl")), ("Remedy", item.text("Remediation.Recommendation.Url"))],
        at=item.get("UpdatedAt"),
    )


parse = as_parser(KIND, _is_known, _read)
