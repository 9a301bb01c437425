"""Build facts and alerts for tests of pure functions, with simple defaults."""

from datetime import UTC, datetime, timedelta

from models.domain.effects import IncidentState
from models.domain.enums import AlertType, ContactType, IncidentStatus, SlaTargetKind, TargetType, Urgency
from models.domain.facts import (
    IntegrationFacts,
    LaneFacts,
    NotificationRuleFacts,
    OnCallConfig,
    PersonFacts,
    PolicyFacts,
    ScheduleFacts,
    ServiceFacts,
    SlaEscalationFacts,
    SlaFacts,
    StepFacts,
    StepTarget,
)
from models.domain.values import replace
from pipeline.alert import Alert, ParsedAlert

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def person(row, name, *delays, urgency=Urgency.HIGH):
    """Build a person with a notification rule per delay, all with one urgency and one contact."""
    rules = tuple(
        NotificationRuleFacts(row * 10 + n, row * 100, ContactType.EMAIL, urgency, delay)
        for n, delay in enumerate(delays)
    )
    return PersonFacts(row, name.lower(), name, rules)


ALICE = person(1, "Alice", 0)
BOB = person(2, "Bob", 0, 5)
CHARLIE = person(3, "Charlie")


def policy(*steps, repeat=0, move_to_next=True, **options):
    """Build a policy. Steps are (minutes, username or schedule, ...)."""
    found = tuple(StepFacts(delay, tuple(map(_build_target, targets))) for delay, *targets in steps)
    return PolicyFacts(1, "policy-1", "Default", found, repeat, move_to_next, **options)


def _build_target(schedule_targets):
    if isinstance(schedule_targets, ScheduleFacts):
        return StepTarget(TargetType.SCHEDULE, schedule_targets.unique_id)
    return StepTarget(TargetType.USER, schedule_targets)


def build_config(*steps, people=(ALICE, BOB, CHARLIE), managers=(), owner=None, **options):
    policies = {1: policy(*steps, **options)} if steps else {}
    schedule_targets = (
        target for _, *targets in steps for target in targets if isinstance(target, ScheduleFacts)
    )
    return OnCallConfig(
        policies,
        {one.username: one for one in people},
        {schedule.unique_id: schedule for schedule in schedule_targets},
        tuple(managers),
        owner,
    )


def sla(*escalations, acknowledge=None, resolve=None, row=1, name="Gold"):
    """Build an SLA with times in minutes. Escalations are (type, minutes after the breach, username, ...)."""
    return SlaFacts(
        row,
        f"{row:08x}-0000-4000-8000-000000000000",
        name,
        acknowledge * 60 if acknowledge else None,
        resolve * 60 if resolve else None,
        tuple(
            SlaEscalationFacts(
                f"0000000{row}-0000-4000-8000-00000000000{place}",
                SlaTargetKind(kind),
                minutes * 60,
                schedule_targets,
            )
            for place, (kind, minutes, *rest) in enumerate(escalations)
            for schedule_targets in [tuple(rest)]
        ),
    )


def service(**changes):
    plain = ServiceFacts(
        row=1, unique_id="service-1", name="Checkout", account=1, team=1, escalation_policy=1
    )
    return replace(plain, **changes)


def lane(config=None, create_incidents_for=1, **changes):
    integration = IntegrationFacts(7, "integration-7", "Probe", create_incidents_for, Urgency.HIGH)
    return LaneFacts(service(**changes), {7: integration}, config or build_config((0, "alice")))


def alert(level=AlertType.CRITICAL, entity_id="db1", *, number=0, at=NOON, **parsed):
    body = ParsedAlert(parsed.pop("message", "Disk full"), alert_type=level, entity_id=entity_id, **parsed)
    return Alert(f"event-{number}", f"trace-{number}", number, 0, 7, at, entity_id, body)


def incident(**changes):
    plain = IncidentState(
        unique_id="incident-1",
        account=1,
        team=1,
        service=1,
        incident_key="key",
        title="Disk full",
        summary="",
        status=IncidentStatus.TRIGGERED,
        urgency=Urgency.HIGH,
        creation_date=NOON,
        run_started_at=NOON,
        escalation_policy=1,
        row=1,
    )
    return plain.with_changes(**changes)
