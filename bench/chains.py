"""Open incidents in the middle of their chains, written straight into the tables of an instance."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from models import bulk, founding
from models.accounts import Account, User
from models.base import connection, db, store
from models.enums import AccountRole, IncidentStatus, TargetType, TimerKind, Urgency
from models.ids import new_short_id, new_uuid
from models.incidents import Incident
from models.services import Service
from models.teams import EscalationPolicy
from models.timers import Timer

SERVICES_EACH = 4
# Minutes after the beginning of the chain; the first step has been taken.
STEPS = (0, 5, 10)
STEP_TAKEN = timedelta(minutes=STEPS[1])
AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Chains:
    """What was written: the rows of the services, and how many incidents there are."""

    services: tuple[int, ...]
    incidents: int


def written(
    account_id: str, incidents: int, teams: int, due_at: Callable[[int], datetime], size: int = SERVICES_EACH
) -> Chains:
    """So many incidents over teams of `size` services; the second step of each is due when `due_at` says."""
    with connection():
        account = Account.get(Account.account_identifier == account_id)
        with store().writing():
            now = store().now()
            services = [service for number in range(teams) for service in _team(account, number, size, now)]
        moments = [due_at(number) for number in range(incidents)]
        records = list(_incidents(account, services, moments))
        for piece in _pieces(records):
            with store().writing():
                bulk.insert(Incident, piece)
        with store().writing():
            Account.update(last_incident_number=incidents).where(Account.id == account).execute()
        rows = dict(Incident.select(Incident.unique_id, Incident.id).tuples())
        for piece in _pieces([_timer(rows[one["unique_id"]], one) for one in records]):
            with store().writing():
                bulk.insert(Timer, piece)
        # What a server does by itself within minutes of such a load.
        db.execute_sql("VACUUM ANALYZE" if store().name == "postgresql" else "PRAGMA wal_checkpoint")
    return Chains(tuple(service.id for service in services), incidents)


def _team(account: Account, number: int, size: int, now: datetime) -> list[Service]:
    owner = User.get(User.account == account, User.role == AccountRole.OWNER)
    user = founding.new_user(account, f"chain{number}@example.org", AccountRole.USER, now)
    team = founding.new_team(account, f"Chains {number}", user, now)
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    policy.rules = [_step(place, delay, user) for place, delay in enumerate(STEPS, start=1)]
    policy.save(only=[EscalationPolicy.rules])
    founding.raise_version(account.id)
    return [
        founding.new_service(team, f"Chain {number}.{place}", policy, owner, now) for place in range(size)
    ]


def _step(place: int, delay: int, user: User) -> dict[str, Any]:
    target = {"target_type": TargetType.USER, "target_id": user.username, "position": 0}
    return {"unique_id": new_uuid(), "delay": delay, "position": place, "targets": [target]}


def _incidents(
    account: Account, services: list[Service], moments: list[datetime]
) -> Iterator[dict[str, Any]]:
    for number, due_at in enumerate(moments):
        service = services[number % len(services)]
        begun_at = due_at - STEP_TAKEN
        yield {
            "unique_id": new_short_id(),
            "account": account.id,
            "incident_number": number + 1,
            "incident_key": new_short_id(),
            "service": service.id,
            "team": service.team_id,
            "title": f"db{number % 97} is not answering within 500 ms",
            "summary": "The check has failed three times in a row.",
            "status": IncidentStatus.TRIGGERED,
            "urgency": Urgency.HIGH,
            "escalation_policy": service.escalation_policy_id,
            "creation_date": begun_at,
            "promised_from": begun_at,
            "chain_started_at": begun_at,
            "next_step": 1,
            "reached": True,
        }


def _timer(row: int, incident: dict[str, Any]) -> dict[str, Any]:
    kind = TimerKind.ESCALATE
    due_at = incident["chain_started_at"] + STEP_TAKEN
    return {"incident": row, "kind": kind.value, "key": f"{kind}:1:1", "due_at": due_at}


def _pieces(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(records), AT_ONCE):
        yield records[start : start + AT_ONCE]
