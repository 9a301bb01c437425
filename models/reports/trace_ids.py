"""Find trace_ids: the trace of an alert (alert_trace.py) says why people were or were not notified."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import peewee

from models.domain.identity import is_short_id, is_uuid
from models.reports.alert_trace import PAGE_SIZE, JsonDict, build_incident, build_trace, find_receipt
from models.store.prepared import in_list
from models.tables.accounts import Account
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident

LAST = "last"

# What a table in a narrow terminal shows of a trace_id.
_BEGINNING = re.compile(r"([0-9a-f]{8}[0-9a-f-]{0,27})…?")
_NUMBER = re.compile(r"#?([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FoundAlert:
    """What a reference names. `event` is None if it names a whole receipt.

    `receipt` is None if the alert that opened the incident is not stored, for example because a person
    created the incident.
    """

    receipt: Receipt | None
    event: Event | None = None
    incident: Incident | None = None


def parse_number(reference: str) -> int | None:
    """Return the number of an incident, written as 12 or #12. None: the text is no such number."""
    number = _NUMBER.fullmatch(reference.strip())
    return int(number[1]) if number else None


def find_alert(reference: str, accounts: Collection[Account]) -> FoundAlert | None:
    """Find what a reference names: a trace_id, the unique_id of an alert, or "last". None: nothing."""
    reference = reference.strip()
    rows = [account.id for account in accounts]
    if reference.lower() == LAST:
        newest = Receipt.select(Receipt.trace_id).where(Receipt.account.in_(rows)).order_by(Receipt.id.desc())
        trace_id = newest.limit(1).scalar()
        return FoundAlert(find_receipt(trace_id)) if trace_id else None
    if is_uuid(reference.lower()):
        receipt = find_receipt(reference.lower())
        return FoundAlert(receipt) if receipt and receipt.account_id in rows else None
    if is_short_id(reference):
        return _find_event(Event.unique_id == reference, rows)
    return None


def find_by_beginning(reference: str, accounts: Collection[Account]) -> FoundAlert | None:
    """Find a receipt by the beginning of its trace_id, at least 8 characters. None: no such, or several."""
    beginning = _BEGINNING.fullmatch(reference.strip().lower())
    if beginning is None:
        return None
    begins_so = peewee.fn.SUBSTR(Receipt.trace_id, 1, len(beginning[1])) == beginning[1]
    rows = Receipt.select(Receipt.trace_id).where(
        Receipt.account.in_([account.id for account in accounts]), begins_so
    )
    found = [trace_id for (trace_id,) in rows.limit(2).tuples()]
    return FoundAlert(find_receipt(found[0])) if len(found) == 1 else None


def find_incident(number: int, account: Account) -> FoundAlert | None:
    """Find an incident by its number, and the alert that opened it, if it is stored. None: no such."""
    incident = Incident.get_or_none(Incident.account == account, Incident.incident_number == number)
    if incident is None:
        return None
    opened = Event.select(peewee.fn.MIN(Event.id)).where(Event.incident == incident, Event.incident_created)
    found = _find_event(Event.id == opened, [account.id])
    return FoundAlert(found.receipt, found.event, incident) if found else FoundAlert(None, None, incident)


def build_trace_of(found: FoundAlert, page: int = 1) -> JsonDict:
    """Return a page of the trace of a receipt, or the trace of one alert of it, or of an incident alone."""
    if found.receipt is None:
        assert found.incident is not None
        return {
            "trace_id": None,
            "status": None,
            "received_at": found.incident.creation_date,
            "error": None,
            "alerts": [],
            "count": 0,
            "incidents": [build_incident(found.incident)],
        }
    if found.event is None:
        return build_trace(found.receipt, start=(page - 1) * PAGE_SIZE)
    return build_trace(found.receipt, start=count_events_before(found.event), size=1)


def _find_event(where: peewee.Expression, accounts: Collection[int]) -> FoundAlert | None:
    query = Event.select(Event.id, Event.position, Receipt.id, Receipt.trace_id).join(Receipt)
    event = query.where(where, Receipt.account.in_(list(accounts))).get_or_none()
    return FoundAlert(find_receipt(event.receipt.trace_id), event) if event else None


def count_events_before(event: Event) -> int:
    """Return how many alerts of the same receipt a trace shows before this one."""
    before = (Event.position < event.position) | ((Event.position == event.position) & (Event.id < event.id))
    return int(Event.select().where(Event.receipt == event.receipt_id, before).count())


def find_trace_ids(incidents: Collection[int]) -> dict[int, str]:
    """Return the trace_id of the alert that opened each incident, by row number.

    Incidents are left out if a person created them, or if this alert was deleted because of its age.
    """
    first = Event.alias()
    is_opening = (first.incident == Incident.id) & first.incident_created
    opened = first.select(peewee.fn.MIN(first.id)).where(is_opening)
    query = Incident.select(Incident.id, Receipt.trace_id).join(Event, on=Event.id == opened).join(Receipt)
    return dict(query.where(in_list(Incident.id, list(incidents))).tuples()) if incidents else {}


def find_trace_ids_of_alerts(alerts: Collection[str]) -> dict[str, str]:
    """Return the trace_id of each of these alerts that is stored, by the unique_id of the alert."""
    query = Event.select(Event.unique_id, Receipt.trace_id).join(Receipt)
    return dict(query.where(in_list(Event.unique_id, list(alerts))).tuples()) if alerts else {}
