"""Write incidents of three years, with their details, directly into the tables of an instance."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from models.domain.applications import GENERIC
from models.domain.enums import AccountRole, AlertType, TeamRole, WorkState
from models.people import provisioning
from models.store import bulk
from models.store.ids import make_short_id, make_uuid
from models.store.store import connection, store
from models.tables.accounts import Account, User
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentNote, IncidentTag
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy, Priority, Sla, Tag, Team, TeamMember

TEAMS = 50
SERVICES_EACH = 4
YEARS = timedelta(days=3 * 365)
PRIORITIES = ("P1", "P2", "P3", "P4", "P5")
TAGS = ("database", "network", "deploy", "customer", "night")
# Numbers of triggered and of acknowledged incidents per thousand.
TRIGGERED, ACKNOWLEDGED = 5, 10
# Details of the first incident.
NOTES = 500
ALERTS = 2_000
BATCH_SIZE = 5_000


@dataclass
class SampleData:
    """The rows that requests name. `member_token` is the token of a user in five of the teams."""

    started_at: datetime
    incidents: int
    member_token: str = ""
    teams: list[Team] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    integrations: list[Integration] = field(default_factory=list)
    policies: list[EscalationPolicy] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    tags: dict[int, list[Tag]] = field(default_factory=dict)
    priorities: dict[int, list[Priority]] = field(default_factory=dict)
    slas: dict[int, Sla] = field(default_factory=dict)


def write_sample_data(incidents: int, account_id: str) -> SampleData:
    """Write incidents into a new account. Except for IDs, they are the same in each run."""
    now = datetime.now(UTC)
    rng = random.Random(7)
    with connection():
        account = Account.get(Account.account_identifier == account_id)
        data = SampleData(started_at=now - YEARS, incidents=incidents)
        with store().write_transaction():
            _create_teams(data, account, now)
        records = list(_build_incidents(data, account, rng))
        for start in range(0, incidents, BATCH_SIZE):
            with store().write_transaction():
                bulk.insert(Incident, records[start : start + BATCH_SIZE])
        with store().write_transaction():
            Account.update(last_incident_number=incidents).where(Account.id == account).execute()
        _add_details(data, account, rng)
    return data


def _create_teams(data: SampleData, account: Account, now: datetime) -> None:
    owner = User.get(User.account == account, User.role == AccountRole.OWNER)
    for number in range(TEAMS):
        user = provisioning.create_user(
            account, f"user{number}@example.org", AccountRole.USER, now, is_verified=True
        )
        team = provisioning.create_team(account, f"Team {number}", owner, now)
        policy = EscalationPolicy.get(EscalationPolicy.team == team)
        common = {"team": team, "creation_date": now}
        data.users.append(user)
        data.teams.append(team)
        data.policies.append(policy)
        data.tags[team.id] = [Tag.create(unique_id=make_uuid(), name=name, **common) for name in TAGS]
        data.priorities[team.id] = [
            Priority.create(unique_id=make_uuid(), name=name, **common) for name in PRIORITIES
        ]
        data.slas[team.id] = Sla.create(unique_id=make_uuid(), name="Gold", **common)
        for place in range(SERVICES_EACH):
            service = provisioning.create_service(team, f"Service {number}.{place}", policy, owner, now)
            data.services.append(service)
            data.integrations.append(provisioning.create_integration(service, "Alerts", GENERIC, owner, now))
    for team in data.teams[::10]:
        membership = {"user": data.users[0], "role": TeamRole.USER, "joining_date": now}
        TeamMember.create(unique_id=make_uuid(), team=team, **membership)
    data.member_token = provisioning.issue_token(data.users[0], "bench", now)
    # The other teams can be read only by their members.
    Team.update(account_permissions=[]).where(Team.account == account).execute()


def _build_incidents(data: SampleData, account: Account, rng: random.Random) -> Iterator[dict[str, Any]]:
    gap = YEARS / data.incidents
    for number in range(1, data.incidents + 1):
        place = rng.randrange(len(data.services))
        team = data.teams[place // SERVICES_EACH]
        roll = rng.randrange(1000)
        status = 1 if roll < TRIGGERED else 2 if roll < TRIGGERED + ACKNOWLEDGED else 3
        at = data.started_at + gap * number
        yield {
            "unique_id": make_short_id(),
            "account": account.id,
            "incident_number": number,
            "incident_key": make_short_id(),
            "service": data.services[place].id,
            "team": team.id,
            "title": f"db{number % 97} is not answering within 500 ms",
            "summary": "The check has failed three times in a row. " * rng.randrange(1, 12),
            "status": status,
            "urgency": 1,
            "assigned_to": rng.choice(data.users).id,
            "escalation_policy": data.policies[place // SERVICES_EACH].id,
            "sla": data.slas[team.id].id,
            "team_priority": rng.choice(data.priorities[team.id]).id,
            "creation_date": at,
            "run_started_at": at,
            "acknowledged_date": at if status > 1 else None,
            "resolved_date": at if status > 2 else None,
            "escalating": False,
        }


def _add_details(data: SampleData, account: Account, rng: random.Random) -> None:
    """Add tags to a third of the incidents, an alert to each, and many alerts and notes to one."""
    rows = list(
        Incident.select(Incident.id, Incident.team, Incident.service, Incident.creation_date)
        .where(Incident.account == account)
        .order_by(Incident.id)
        .tuples()
    )
    integrations = {service.id: one.id for service, one in zip(data.services, data.integrations, strict=True)}
    tagged = [
        {
            "unique_id": make_uuid(),
            "incident": row,
            "team_tag": rng.choice(data.tags[team]).id,
            "creation_date": at,
        }
        for row, team, _, at in rows[::3]
    ]
    alerts = [*rows, *[rows[0]] * ALERTS]
    receipts = [
        {
            "trace_id": make_uuid(),
            "account": account.id,
            "integration": integrations[service],
            "service": service,
            "source": "generic",
            "body": b"{}",
            "received_at": at,
            "state": WorkState.DONE,
        }
        for _, _, service, at in alerts
    ]
    notes = [
        {
            "unique_id": make_short_id(),
            "incident": rows[0][0],
            "user": data.users[0].id,
            "note": "Looking.",
            "creation_date": rows[0][3],
        }
        for _ in range(NOTES)
    ]
    for table, records in ((IncidentTag, tagged), (Receipt, receipts), (IncidentNote, notes)):
        _insert(table, records)
    received = Receipt.select(Receipt.id).where(Receipt.account == account).order_by(Receipt.id).tuples()
    _insert(
        Event,
        [
            {
                "unique_id": make_short_id(),
                "receipt": receipt,
                "position": 0,
                "integration": integrations[service],
                "service": service,
                "incident": row,
                "incident_created": True,
                "message": "not answering within 500 ms",
                "alert_type": AlertType.CRITICAL,
                "entity_id": f"db{row}",
                "alert": {"payload": {"host": "db", "check": "ping"}},
                "creation_date": at,
            }
            for (receipt,), (row, _, service, at) in zip(received, alerts, strict=True)
        ],
    )


def _insert(table: Any, records: list[dict[str, Any]]) -> None:
    for start in range(0, len(records), BATCH_SIZE):
        with store().write_transaction():
            bulk.insert(table, records[start : start + BATCH_SIZE])
