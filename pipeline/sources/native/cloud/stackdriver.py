"""Incidents of Google Cloud Monitoring, by a webhook channel (versions 1.1 and 1.2 of its schema).

cloud.google.com, "Create and manage notification channels". `documentation` is an object or a text.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, read_level

KIND = "stackdriver"

NO_SEVERITY = "no severity"


def _is_known(data: Fields) -> bool:
    return data.has("incident.incident_id")


def _read(data: Fields) -> list[ParsedAlert]:
    found = data.within("incident")
    closed = found.text("state").lower() == "closed"
    return [
        build_alert(
            data.value,
            Level(AlertType.RESOLVED) if closed else _read_severity(found),
            message=found.text("documentation.subject") or _build_title(found),
            summary=found.text("summary", "documentation.content", "documentation"),
            entity=found.text("incident_id"),
            links=[("Google Cloud", found.text("url"))],
            at=found.get("ended_at" if closed else "started_at"),
        )
    ]


def _read_severity(found: Fields) -> Level:
    sent = found.text("severity")
    is_missing = sent.lower() in {"", NO_SEVERITY}
    return read_level(found.text("policy_user_labels.severity") if is_missing else sent)


def _build_title(found: Fields) -> str:
    policy, what = found.text("policy_name"), found.text("condition_name", "resource_name")
    return f"{policy}: {what}" if policy and what else policy or what


parse = as_parser(KIND, _is_known, _read)
