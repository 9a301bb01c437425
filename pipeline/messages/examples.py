"""Examples of messages: for docs/messages.md, and to try an operator's templates before they are needed."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from models.domain.enums import AlertType, IncidentStatus, Urgency
from models.domain.values import replace
from pipeline.messages.account import build_test_content
from pipeline.messages.content import MessageContent, Recipient
from pipeline.messages.incidents import IncidentDetails, IncidentSummary, NextStep, build_incidents_content

PUBLIC_URL = "https://tocsin.example.org"
AT = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC)
READER = Recipient("Alice", "Europe/Berlin")

_TOKEN = "WzQyLDcsMTMsMTc3MzIzMDQwNV0.c2lnbmF0dXJl"  # noqa: S105 - it is not signed
INCIDENT = IncidentSummary(
    number=12,
    title="Disk full on db1 <97 %> & rising",
    service="Checkout",
    urgency=Urgency.HIGH,
    level=AlertType.CRITICAL,
    since=AT,
    reason="named by step 1 of policy Default",
    link=f"{PUBLIC_URL}/i/{_TOKEN}",
    summary="97 % of /var is used.\nIt grows by 1 % a minute.",
    token=_TOKEN,
    trace_id="186ad360",
    unique_id="k3yq",
    notification=13,
    details=IncidentDetails(
        labels=(("instance", "db1:9100"),),
        sources=(("Runbook", "https://runbook.example.org/disk"),),
        also_notified=("Bob",),
        next_steps=(NextStep(300, ("Carol",)),),
    ),
)


def build_examples() -> Mapping[str, MessageContent]:
    """Return one message of each kind that a template must be able to show, by its name."""
    others = (replace(INCIDENT, number=13, title="Disk full on db2", link=f"{INCIDENT.link}x", details=None),)
    resolved = replace(
        INCIDENT,
        status=IncidentStatus.RESOLVED,
        is_recovery=True,
        resolved_at=AT + timedelta(minutes=14),
        reason="you were notified of this incident",
        details=IncidentDetails(ended_by="resolved by Bob"),
    )
    return {
        "An incident": build_incidents_content([INCIDENT], READER),
        "Two incidents": build_incidents_content([replace(INCIDENT, details=None), *others], READER),
        "A resolved incident": build_incidents_content([resolved], READER),
        "A test message": build_test_content("Bob", READER, AT),
    }
