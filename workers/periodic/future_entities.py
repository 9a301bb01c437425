"""Correct entities that alerts changed while the clock was ahead.

A resolve of the future would make Tocsin ignore the next alerts of the same entity as older ones, if their
source has the same clock. An end in the future would keep an incident open after its source fell silent.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import peewee

from models.load.lane import lock_free_services
from models.store import bulk
from models.store.store import store
from models.tables.events import Entity
from models.tables.services import Integration
from pipeline.stages.resent_alerts import EXPIRES_AFTER, REPEATS_AFTER

# Entities that are corrected by one statement.
PAGE_SIZE = 1_000


def correct_entities(
    now: datetime, skew: timedelta, set_back_by: timedelta, only: Collection[int] | None = None
) -> tuple[int, set[int]]:
    """Correct entities of the future; return their number, and the services that others have locked.

    `skew`: by how much times of several hosts differ. `set_back_by`: by how much the clock was set back; zero
    if that is not known. `only`: the services whose entities are corrected; None: all.

    A resolve of the future happened now. What ends in the future may say so rightly, because its source named
    the end: it ends earlier by `set_back_by`, but not before its source had time to send it again.
    """
    condition = _build_condition(now + skew, is_set_back=bool(set_back_by))
    found = Entity.select(Integration.service).join(Integration).where(condition).distinct()
    services = {row for (row,) in found.tuples() if only is None or row in only}
    corrected, locked = 0, set()
    for service in sorted(services):
        with store().write_transaction():
            if not lock_free_services([service]):
                locked.add(service)
                continue
            corrected += _correct_service(service, condition, now, set_back_by)
    return corrected, locked


def _build_condition(limit: datetime, *, is_set_back: bool) -> peewee.Expression:
    condition = (Entity.resolved_at > limit) | (Entity.repeats_at > limit + REPEATS_AFTER)
    return condition | (Entity.expires_at > limit + EXPIRES_AFTER) if is_set_back else condition


def _correct_service(
    service: int, condition: peewee.Expression, now: datetime, set_back_by: timedelta
) -> int:
    """Correct the entities of a locked service, and return their number."""
    columns = (Entity.id, Entity.resolved_at, Entity.resolved_source_at, Entity.expires_at, Entity.repeats_at)
    query = Entity.select(*columns).join(Integration).where(Integration.service == service, condition)
    records = [_correct(row, now, set_back_by) for row in query.order_by(Entity.id)]
    for start in range(0, len(records), PAGE_SIZE):
        bulk.update(Entity, records[start : start + PAGE_SIZE])
    return len(records)


def _correct(row: Entity, now: datetime, set_back_by: timedelta) -> dict[str, object]:
    expires_at = row.expires_at
    if expires_at is not None:
        soon = now + EXPIRES_AFTER
        expires_at = min(expires_at, max(expires_at - set_back_by, soon))
    return {
        "id": row.id,
        "resolved_at": _limit(row.resolved_at, now),
        "resolved_source_at": _limit(row.resolved_source_at, now),
        "expires_at": expires_at,
        "repeats_at": _limit(row.repeats_at, now + REPEATS_AFTER),
    }


def _limit(moment: datetime | None, latest: datetime) -> datetime | None:
    return None if moment is None else min(moment, latest)
