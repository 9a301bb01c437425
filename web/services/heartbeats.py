"""Heartbeats: how often an integration expects a ping, and whether a ping is missing (under /api/tocsin/)."""

from datetime import datetime, timedelta

from marshmallow import ValidationError, validates

from models.domain.applications import accepts_pings
from models.domain.enums import IntegrationType
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.events import Entity
from models.tables.services import Integration, Service
from pipeline.sources import heartbeat
from web.http import serialization
from web.http.auth import now
from web.http.errors import reject
from web.http.fields import Boolean, Moment, Number, Schema, explain
from web.http.resource import config_transaction, lock_services
from web.http.writing import NumberedAnswer, Part, Writing, begin_change, read_update
from web.services.own_integration import access_integration

# Default period and grace of a new heartbeat integration, in seconds.
DEFAULT_EVERY_S, DEFAULT_GRACE_S = 300, 60
MIN_S, MAX_S = 30, 31 * 24 * 3600


class HeartbeatSchema(Schema):
    """How often a ping is expected, and whether one is missing."""

    every = Number(
        min_value=0,
        max_value=MAX_S,
        metadata=explain("Seconds between two pings; default: 300. 0: no ping is expected."),
    )
    grace = Number(
        min_value=0, max_value=MAX_S, metadata=explain("Seconds that a ping may be late; default: 60.")
    )
    last_ping = Moment(
        allow_none=True,
        dump_only=True,
        metadata=explain("When the last ping without a failure came; null: never."),
    )
    expected_at = Moment(
        allow_none=True,
        dump_only=True,
        metadata=explain("A ping is missing if none comes until this time; null: none is expected."),
    )
    is_missing = Boolean(dump_only=True, metadata=explain("true: a ping is missing now."))

    @validates("every")
    def _require_length(self, seconds: int, **kwargs: object) -> None:
        if 0 < seconds < MIN_S:
            raise ValidationError(f"Must be from {MIN_S} to {MAX_S} seconds, or 0 for never.")


HEARTBEAT = HeartbeatSchema()


def retrieve(heartbeat_id: str) -> dict[str, object]:
    """Get the heartbeat of an integration. It has the last ping, and says whether one is missing."""
    return _show(_access_integration(heartbeat_id), store().now())


def update(heartbeat_id: str) -> dict[str, object]:
    """Update how often an integration expects a ping. The first period begins now."""
    found = _access_integration(heartbeat_id)
    return write(found, serialization.read_as(HEARTBEAT, partial=True), read_update())


def write(found: Integration, values: dict[str, int], writing: Writing) -> dict[str, object]:
    """Change the heartbeat of an integration that accepts pings, and return it."""
    with config_transaction():
        # Lock the service first, like the worker of its lane. So no ping is processed with the old settings.
        lock_services(Service.id == found.service_id)
        row = begin_change(found, writing, PART)
        row.heartbeat_interval = values.get("every", row.heartbeat_interval)
        row.heartbeat_grace = values.get("grace", row.heartbeat_grace)
        changed = build_expectation(row, now())
        get_values(row).update(changed)
        row.save(only=["heartbeat_interval", "heartbeat_grace", *changed])
    return _show(row, now())


def build_expectation(row: Integration, moment: datetime) -> dict[str, object]:
    """Return the columns of an integration that expects its next ping from `moment` on.

    The time of the last ping does not change.
    """
    expected = None
    if row.heartbeat_interval and is_accepting(row):
        expected = moment + timedelta(seconds=row.heartbeat_interval + row.heartbeat_grace)
    return {
        "expected_at": expected,
        "last_ping_at": row.last_ping_at or moment,
        "is_missing": False,
        "is_extended": False,
    }


def is_accepting(row: Integration) -> bool:
    """Return whether the integration accepts pings. A ping is missing only for such an integration."""
    return bool(row.is_enabled and row.integration_type == IntegrationType.ALERT)


def _access_integration(integration_id: str) -> Integration:
    row = access_integration(integration_id)
    if not accepts_pings(row.application, row.kind):
        reject("integration", "Only integrations of the application Heartbeat expect pings.")
    return row


def _show(row: Integration, moment: datetime) -> dict[str, object]:
    """Return the heartbeat for an answer.

    `last_ping` is the time of the last ping that reported no failure.
    """
    condition = (Entity.integration == row) & (Entity.entity_id == heartbeat.ENTITY)
    late = row.expected_at is None or row.expected_at <= moment
    values = {
        "every": row.heartbeat_interval,
        "grace": row.heartbeat_grace,
        "last_ping": Entity.select(Entity.resolved_at).where(condition).scalar(),
        "expected_at": row.expected_at,
        "is_missing": bool(row.heartbeat_interval and is_accepting(row) and (row.is_missing or late)),
    }
    return NumberedAnswer(row.number, values)


def _describe(row: Integration) -> dict[str, object]:
    return {"every": row.heartbeat_interval, "grace": row.heartbeat_grace}


def _show_now(row: Integration) -> object:
    return HEARTBEAT.dump(_show(row, now()))


PART = Part("integration", "heartbeat", _describe, _show_now, write=write)
