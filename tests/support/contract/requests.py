"""Bodies, paths and rows of the operations, for the matrices."""

import re
from typing import Any

import pytest

from models.store.ids import make_short_id
from models.store.peewee_internals import get_table_name
from models.store.store import db
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Integration
from tests.support.contract.operations import OPERATIONS, Row
from tests.support.stores import TABLES

BODIES = {(row.method, row.path): row.body for row in OPERATIONS}


# Tables that every request changes, or that change without a request.
UNCHECKED = {"token", "heartbeat", "rate_limit", "failed_authentication"}


def dump_all_rows() -> dict[str, list[Any]]:
    """Return all rows of all tables, except the tables in UNCHECKED."""
    names = [get_table_name(table) for table in TABLES if get_table_name(table) not in UNCHECKED]
    # As they are stored: to build rows of models takes five times as long.
    return {name: sorted(map(repr, db.execute_sql(f'select * from "{name}"').fetchall())) for name in names}


def get_path(row: Row, samples: Any) -> str:
    return re.sub("<([a-z_]+)>", lambda found: samples.ids[found[1]], row.path)


def free_policy(row: Row, ask: Any, samples: Any) -> None:
    """A policy can only be deleted while no service uses it."""
    if row.method == "DELETE" and row.path.endswith("<escalation_policy_id>/"):
        ask("DELETE", f"/api/account/teams/{samples.ids['team_id']}/services/{samples.ids['service_id']}/")


def build_body(row: Row, samples: Any) -> Any:
    body = samples.bodies.get(row.body or "")
    if row.method in ("PUT", "PATCH") and row.body == "member":
        return {**body, "user": samples.ids["username"]}
    return body


@pytest.fixture
def with_alert(samples):
    """Create an alert of the incident, as the pipeline stores it."""
    receipt = Receipt.get(Receipt.trace_id == samples.ids["trace_id"])
    Event.create(
        unique_id=make_short_id(),
        receipt=receipt,
        position=0,
        integration=Integration.get(Integration.unique_id == samples.ids["integration_id"]),
        incident=Incident.get(Incident.incident_number == 1),
        message="Disk full",
        alert_type=3,
        entity_id="disk",
        creation_date=receipt.received_at,
    )
