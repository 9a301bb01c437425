"""Say which incidents have the alerts that a body repeats. Such alerts are not stored (decision 0075)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import peewee

from models.domain.enums import IncidentStatus, WorkState
from models.store.prepared import in_list
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from models.tables.teams import Team

# Entities that are looked up, and incidents that are named.
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RepeatedIncident:
    """The incident that has, or had last, the entity of a repeated alert."""

    number: int
    status: IncidentStatus


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body without a stored alert, as its source reads it."""

    source: str
    integration: int | None
    raw: bytes
    headers: Mapping[str, str] | None


def is_repetition(receipt: Receipt) -> bool:
    """Return whether a body is processed and has no alert of its own: all of them say nothing new."""
    if receipt.state != WorkState.DONE or receipt.error is not None:
        return False
    return not Event.select().where(Event.receipt == receipt.id).exists()


def load_body(receipt: Receipt, max_bytes: int) -> StoredBody | None:
    """Return the body of a receipt; None: it has more bytes than this."""
    columns = (Receipt.source, Receipt.integration, Receipt.body, Receipt.headers)
    is_small = peewee.fn.LENGTH(Receipt.body) <= max_bytes
    found = Receipt.select(*columns).where(Receipt.id == receipt.id, is_small).tuples().first()
    if found is None:
        return None
    source, integration, raw, headers = found
    return StoredBody(source, integration, bytes(raw), headers)


def find_incidents(
    receipt: Receipt, entity_ids: Sequence[str], services: peewee.ModelSelect | None = None
) -> list[RepeatedIncident]:
    """Return the incidents of these entities, by number. `services` is as in alert_trace.build_trace()."""
    held = peewee.fn.COALESCE(Entity.incident, Entity.last_incident)
    query = (
        Entity.select(Incident.incident_number, Incident.status)
        .join(Integration)
        .join(Service)
        .join(Team)
        .switch(Entity)
        .join(Incident, on=(Incident.id == held))
        .where(in_list(Entity.entity_id, _list_first(entity_ids)), Team.account == receipt.account_id)
    )
    if receipt.integration_id is not None:
        query = query.where(Entity.integration == receipt.integration_id)
    if services is not None:
        query = query.where(Integration.service.in_(services))
    rows = query.distinct().order_by(Incident.incident_number).limit(MAX_SHOWN).tuples()
    return [RepeatedIncident(number, IncidentStatus(status)) for number, status in rows]


def _list_first(entity_ids: Sequence[str]) -> Collection[str]:
    return list(dict.fromkeys(entity_ids))[:MAX_SHOWN]


def describe(repeated: Sequence[RepeatedIncident]) -> str:
    """Return what a body repeats, as a part of a sentence."""
    if not repeated:
        return "the source sent again what is known, and nothing else"
    if len(repeated) == 1:
        (one,) = repeated
        return f"the alert repeats one that is known: incident #{one.number} has it and is {_name(one)}"
    named = ", ".join(f"incident #{one.number} ({_name(one)})" for one in repeated)
    return f"the alerts repeat ones that are known: {named}"


def _name(repeated: RepeatedIncident) -> str:
    return repeated.status.name.lower()
