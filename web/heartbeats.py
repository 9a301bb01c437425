"""How often a monitored thing is to send a ping, and whether one is missing (under /api/tocsin/)."""

from datetime import datetime, timedelta
from typing import Any

from marshmallow import ValidationError, validates

from models.applications import HEARTBEAT as APPLICATION
from models.base import store
from models.enums import IntegrationType
from models.events import Entity
from models.services import Integration, Service
from models.teams import Team
from pipeline.sources import heartbeat
from web import access, wire
from web.auth import now, viewer
from web.errors import bad
from web.resource import configuring, locked, wait_for_lanes
from web.shapes import Flag, Moment, Number, Shape

# What a new integration of the application expects, in seconds.
EVERY, GRACE = 300, 60
SHORTEST, LONGEST = 30, 31 * 24 * 3600


class HeartbeatShape(Shape):
    """A ping is expected `every` so many seconds (0: never), and may be late by `grace`."""

    every = Number(least=0, most=LONGEST)
    grace = Number(least=0, most=LONGEST)
    last_ping = Moment(allow_none=True, dump_only=True)
    expected_at = Moment(allow_none=True, dump_only=True)
    is_missing = Flag(dump_only=True)

    @validates("every")
    def _require_length(self, seconds: int, **kwargs: Any) -> None:
        if 0 < seconds < SHORTEST:
            raise ValidationError(f"Must be from {SHORTEST} to {LONGEST} seconds, or 0 for never.")


HEARTBEAT = HeartbeatShape()


def retrieve(heartbeat_id: str) -> dict[str, Any]:
    """Show what pings an integration expects, when the last one came, and whether one is missing."""
    return _shown(_found(heartbeat_id), store().now())


def update(heartbeat_id: str) -> dict[str, Any]:
    """Say how often an integration expects a ping; the first one is expected that long from now."""
    found = _found(heartbeat_id)
    values = wire.read(HEARTBEAT, partial=True)
    with configuring():
        # First the service's, as its lane does: no ping is worked on by what was said before.
        wait_for_lanes(Service.id == found.service_id)
        row = locked(found)
        row.heartbeat_every = values.get("every", row.heartbeat_every)
        row.heartbeat_grace = values.get("grace", row.heartbeat_grace)
        changed = expecting_from(row, now())
        row.__data__.update(changed)
        row.save(only=["heartbeat_every", "heartbeat_grace", *changed])
    return _shown(row, now())


def expecting_from(row: Integration, moment: datetime) -> dict[str, Any]:
    """The columns of an integration whose next ping is waited for from this moment on. When the last one came
    stays true."""
    expected = None
    if row.heartbeat_every and is_open(row):
        expected = moment + timedelta(seconds=row.heartbeat_every + row.heartbeat_grace)
    return {
        "expected_at": expected,
        "heard_at": row.heard_at or moment,
        "is_missing": False,
        "is_excused": False,
    }


def is_open(row: Integration) -> bool:
    """Whether it takes pings: from others none is missing."""
    return bool(row.is_enabled and row.integration_type == IntegrationType.ALERT)


def _found(integration_id: str) -> Integration:
    rows = Integration.select(Integration, Service).join(Service).join(Team)
    rows = rows.where(Team.account == viewer().account)
    row: Integration = access.find(rows, Integration.unique_id, integration_id)
    access.require(viewer(), row.service.team_id)
    if row.application != APPLICATION:
        bad("integration", "Only those of the application Heartbeat expect pings.")
    return row


def _shown(row: Integration, moment: datetime) -> dict[str, Any]:
    """The last ping is the last that said that all is well."""
    of = (Entity.integration == row) & (Entity.entity_id == heartbeat.ENTITY)
    late = row.expected_at is None or row.expected_at <= moment
    return {
        "every": row.heartbeat_every,
        "grace": row.heartbeat_grace,
        "last_ping": Entity.select(Entity.resolved_at).where(of).scalar(),
        "expected_at": row.expected_at,
        "is_missing": bool(row.heartbeat_every and is_open(row) and (row.is_missing or late)),
    }
