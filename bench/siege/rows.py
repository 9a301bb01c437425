"""Write what a tenant has had for a long time: incidents, each with the entity that it was about."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from bench.siege.tenants import Tenant
from models.changes.record import CHANGED
from models.domain.enums import IncidentStatus, Urgency, Way
from models.store import bulk
from models.store.ids import make_short_id
from models.store.store import connection, db, store
from models.tables.accounts import Account
from models.tables.changes import Change
from models.tables.events import Entity
from models.tables.incidents import Incident
from models.tables.services import Integration, Service

BATCH_SIZE = 5_000


def write_incidents(tenant: Tenant, resolved: int, opened: int) -> None:
    """Write incidents of a new tenant's integration for Opsgenie, first the resolved ones.

    None has a timer, so that they stay as they are.
    """
    with connection():
        integration = Integration.get(Integration.unique_id == tenant.opsgenie.unique_id)
        records = list(_build_incidents(integration, resolved, opened, store().now()))
        for piece in _split_batches(records):
            with store().write_transaction():
                bulk.insert(Incident, piece)
        account = integration.service.team.account
        with store().write_transaction():
            Account.update(last_incident_number=len(records)).where(Account.id == account).execute()
        rows = Incident.select(Incident.id, Incident.incident_number, Incident.status)
        found = rows.where(Incident.account == account).order_by(Incident.id).tuples()
        entities = [_build_entity(integration, *row) for row in found]
        for piece in _split_batches(entities):
            with store().write_transaction():
                bulk.insert(Entity, piece)
        # A database in production does this itself within minutes of such a load.
        db.execute_sql(store().upkeep_sql)


def write_changes(service: Service, count: int) -> None:
    """Write changes of one service, each with a value of a kilobyte."""
    account, team, now = service.team.account_id, service.team_id, store().now()
    records = [
        {
            "unique_id": (unique_id := make_short_id()),
            "account": account,
            "at": now - timedelta(seconds=count - number),
            "action": CHANGED,
            "kind": "service",
            "object_id": service.unique_id,
            "name": service.name,
            "number": number,
            "team": team,
            "actor": "Historian",
            "token": "",
            "way": Way.INTERFACE.value,
            "client": "",
            "detail": "",
            "batch": unique_id,
            "fields": [{"field": "summary", "before": "x" * 1_000, "after": str(number)}],
        }
        for number in range(1, count + 1)
    ]
    for piece in _split_batches(records):
        with store().write_transaction():
            bulk.insert(Change, piece)
    db.execute_sql(store().upkeep_sql)


def get_entity_id(number: int) -> str:
    """Return the ID of the entity of an incident, which has a slash as many names of hosts and checks do."""
    return f"host{number}/disk"


def _build_incidents(
    integration: Integration, resolved: int, opened: int, now: datetime
) -> Iterator[dict[str, Any]]:
    service = integration.service
    for number in range(1, resolved + opened + 1):
        is_open = number > resolved
        yield {
            "unique_id": make_short_id(),
            "account": service.team.account_id,
            "incident_number": number,
            "incident_key": make_short_id(),
            "service": service.id,
            "team": service.team_id,
            "title": f"The disk of host{number} is full",
            "summary": "The check has failed three times in a row.",
            "status": IncidentStatus.TRIGGERED if is_open else IncidentStatus.RESOLVED,
            "urgency": Urgency.LOW,
            "creation_date": now,
            "resolved_date": None if is_open else now,
            "run_started_at": now,
            "escalating": False,
        }


def _build_entity(integration: Integration, row: int, number: int, status: int) -> dict[str, Any]:
    is_open = status == IncidentStatus.TRIGGERED
    return {
        "integration": integration.id,
        "entity_id": get_entity_id(number),
        "firing": is_open,
        "incident": row if is_open else None,
        "last_incident": row,
    }


def _split_batches(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(records), BATCH_SIZE):
        yield records[start : start + BATCH_SIZE]
