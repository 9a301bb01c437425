"""Write open incidents in the middle of their escalation runs directly into the tables of an instance."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from models.domain.enums import AccountRole, IncidentStatus, TargetType, TimerKind, Urgency
from models.people import provisioning
from models.store import bulk
from models.store.ids import make_short_id, make_uuid
from models.store.store import connection, db, store
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import EscalationPolicy
from models.tables.timers import Timer

SERVICES_EACH = 4
# Minutes after the start of the escalation run; the first step has been taken.
STEPS = (0, 5, 10)
STEP_TAKEN = timedelta(minutes=STEPS[1])
BATCH_SIZE = 5_000


@dataclass(frozen=True, slots=True)
class WrittenIncidents:
    """The written incidents: the rows of their services, and their number."""

    services: tuple[int, ...]
    incidents: int


def write_incidents(
    account_id: str, incidents: int, teams: int, due_at: Callable[[int], datetime], size: int = SERVICES_EACH
) -> WrittenIncidents:
    """Write incidents over teams of `size` services. `due_at` gives the due time of each second step."""
    with connection():
        account = Account.get(Account.account_identifier == account_id)
        with store().write_transaction():
            now = store().now()
            services = [
                service for number in range(teams) for service in _create_team(account, number, size, now)
            ]
        moments = [due_at(number) for number in range(incidents)]
        records = list(_build_incidents(account, services, moments))
        for piece in _split_batches(records):
            with store().write_transaction():
                bulk.insert(Incident, piece)
        with store().write_transaction():
            Account.update(last_incident_number=incidents).where(Account.id == account).execute()
        rows = dict(Incident.select(Incident.unique_id, Incident.id).tuples())
        for piece in _split_batches([_build_timer(rows[one["unique_id"]], one) for one in records]):
            with store().write_transaction():
                bulk.insert(Timer, piece)
        # A database in production does this itself within minutes of such a load.
        db.execute_sql(store().upkeep_sql)
    return WrittenIncidents(tuple(service.id for service in services), incidents)


def _create_team(account: Account, number: int, size: int, now: datetime) -> list[Service]:
    owner = User.get(User.account == account, User.role == AccountRole.OWNER)
    user = provisioning.create_user(
        account, f"escalation{number}@example.org", AccountRole.USER, now, is_verified=True
    )
    team = provisioning.create_team(account, f"Escalations {number}", user, now)
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    policy.rules = [_build_step(place, delay, user) for place, delay in enumerate(STEPS, start=1)]
    policy.save(only=[EscalationPolicy.rules])
    provisioning.bump_version(account.id)
    return [
        provisioning.create_service(team, f"Escalation {number}.{place}", policy, owner, now)
        for place in range(size)
    ]


def _build_step(place: int, delay: int, user: User) -> dict[str, Any]:
    target = {"target_type": TargetType.USER, "target_id": user.username, "position": 0}
    return {"unique_id": make_uuid(), "delay": delay, "position": place, "targets": [target]}


def _build_incidents(
    account: Account, services: list[Service], moments: list[datetime]
) -> Iterator[dict[str, Any]]:
    for number, due_at in enumerate(moments):
        service = services[number % len(services)]
        started_at = due_at - STEP_TAKEN
        yield {
            "unique_id": make_short_id(),
            "account": account.id,
            "incident_number": number + 1,
            "incident_key": make_short_id(),
            "service": service.id,
            "team": service.team_id,
            "title": f"db{number % 97} is not answering within 500 ms",
            "summary": "The check has failed three times in a row.",
            "status": IncidentStatus.TRIGGERED,
            "urgency": Urgency.HIGH,
            "escalation_policy": service.escalation_policy_id,
            "creation_date": started_at,
            "sla_started_at": started_at,
            "run_started_at": started_at,
            "next_step": 1,
            "paged_someone": True,
        }


def _build_timer(row: int, incident: dict[str, Any]) -> dict[str, Any]:
    kind = TimerKind.ESCALATE
    due_at = incident["run_started_at"] + STEP_TAKEN
    return {"incident": row, "kind": kind.value, "key": f"{kind}:1:1", "due_at": due_at}


def _split_batches(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(records), BATCH_SIZE):
        yield records[start : start + BATCH_SIZE]
