"""Three years of an installation, written straight into its tables: incidents, and what hangs on them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from models import bulk, founding
from models.accounts import Account, User
from models.applications import GENERIC
from models.base import connection, store
from models.enums import AccountRole, AlertType, TeamRole, WorkState
from models.events import Event, Receipt
from models.ids import new_short_id, new_uuid
from models.incidents import Incident, IncidentNote, IncidentTag
from models.services import Integration, Service
from models.teams import EscalationPolicy, Priority, Sla, Tag, Team, TeamMember

TEAMS = 50
SERVICES_EACH = 4
YEARS = timedelta(days=3 * 365)
PRIORITIES = ("P1", "P2", "P3", "P4", "P5")
TAGS = ("database", "network", "deploy", "customer", "night")
# Of a thousand incidents, so many are still triggered, and so many acknowledged.
TRIGGERED, ACKNOWLEDGED = 5, 10
# On one of the incidents.
NOTES = 500
ALERTS = 2_000
AT_ONCE = 5_000


@dataclass
class Past:
    """What questions can name; `member` is the token of somebody who is in five of the teams."""

    begun_at: datetime
    incidents: int
    member: str = ""
    teams: list[Team] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    integrations: list[Integration] = field(default_factory=list)
    policies: list[EscalationPolicy] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    tags: dict[int, list[Tag]] = field(default_factory=dict)
    priorities: dict[int, list[Priority]] = field(default_factory=dict)
    slas: dict[int, Sla] = field(default_factory=dict)


def written(incidents: int, account_id: str) -> Past:
    """Write so many incidents into an account that is new; the same ones every time, but for their ids."""
    now = datetime.now(UTC)
    choose = random.Random(7)
    with connection():
        account = Account.get(Account.account_identifier == account_id)
        past = Past(begun_at=now - YEARS, incidents=incidents)
        with store().writing():
            _found(past, account, now)
        records = list(_incidents(past, account, choose))
        for start in range(0, incidents, AT_ONCE):
            with store().writing():
                bulk.insert(Incident, records[start : start + AT_ONCE])
        with store().writing():
            Account.update(last_incident_number=incidents).where(Account.id == account).execute()
        _hang_on(past, account, choose)
    return past


def _found(past: Past, account: Account, now: datetime) -> None:
    owner = User.get(User.account == account, User.role == AccountRole.OWNER)
    for number in range(TEAMS):
        user = founding.new_user(account, f"user{number}@example.org", AccountRole.USER, now)
        team = founding.new_team(account, f"Team {number}", owner, now)
        policy = EscalationPolicy.get(EscalationPolicy.team == team)
        common = {"team": team, "creation_date": now}
        past.users.append(user)
        past.teams.append(team)
        past.policies.append(policy)
        past.tags[team.id] = [Tag.create(unique_id=new_uuid(), name=name, **common) for name in TAGS]
        past.priorities[team.id] = [
            Priority.create(unique_id=new_uuid(), name=name, **common) for name in PRIORITIES
        ]
        past.slas[team.id] = Sla.create(unique_id=new_uuid(), name="Gold", **common)
        for place in range(SERVICES_EACH):
            service = founding.new_service(team, f"Service {number}.{place}", policy, owner, now)
            past.services.append(service)
            past.integrations.append(founding.new_integration(service, "Alerts", GENERIC, owner, now))
    for team in past.teams[::10]:
        membership = {"user": past.users[0], "role": TeamRole.USER, "joining_date": now}
        TeamMember.create(unique_id=new_uuid(), team=team, **membership)
    past.member = founding.new_token_for(past.users[0], "bench", now)
    # The other teams are closed to who is not in them.
    Team.update(account_permissions=[]).where(Team.account == account).execute()


def _incidents(past: Past, account: Account, choose: random.Random) -> Iterator[dict[str, Any]]:
    gap = YEARS / past.incidents
    for number in range(1, past.incidents + 1):
        place = choose.randrange(len(past.services))
        team = past.teams[place // SERVICES_EACH]
        luck = choose.randrange(1000)
        status = 1 if luck < TRIGGERED else 2 if luck < TRIGGERED + ACKNOWLEDGED else 3
        at = past.begun_at + gap * number
        yield {
            "unique_id": new_short_id(),
            "account": account.id,
            "incident_number": number,
            "incident_key": new_short_id(),
            "service": past.services[place].id,
            "team": team.id,
            "title": f"db{number % 97} is not answering within 500 ms",
            "summary": "The check has failed three times in a row. " * choose.randrange(1, 12),
            "status": status,
            "urgency": 1,
            "assigned_to": choose.choice(past.users).id,
            "escalation_policy": past.policies[place // SERVICES_EACH].id,
            "sla": past.slas[team.id].id,
            "team_priority": choose.choice(past.priorities[team.id]).id,
            "creation_date": at,
            "chain_started_at": at,
            "acknowledged_date": at if status > 1 else None,
            "resolved_date": at if status > 2 else None,
            "escalating": False,
        }


def _hang_on(past: Past, account: Account, choose: random.Random) -> None:
    """Tags on a third of the incidents, an alert for each, and one that has many alerts and notes."""
    rows = list(
        Incident.select(Incident.id, Incident.team, Incident.service, Incident.creation_date)
        .where(Incident.account == account)
        .order_by(Incident.id)
        .tuples()
    )
    integrations = {service.id: one.id for service, one in zip(past.services, past.integrations, strict=True)}
    tagged = [
        {
            "unique_id": new_uuid(),
            "incident": row,
            "team_tag": choose.choice(past.tags[team]).id,
            "creation_date": at,
        }
        for row, team, _, at in rows[::3]
    ]
    alerts = [*rows, *[rows[0]] * ALERTS]
    receipts = [
        {
            "trace_id": new_uuid(),
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
            "unique_id": new_short_id(),
            "incident": rows[0][0],
            "user": past.users[0].id,
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
                "unique_id": new_short_id(),
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
    for start in range(0, len(records), AT_ONCE):
        with store().writing():
            bulk.insert(table, records[start : start + AT_ONCE])
