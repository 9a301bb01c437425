"""Write incidents and their logs."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from models.domain.effects import IncidentState, RecordLog, SaveGroups, SaveIncident
from models.load.incident_states import STATE_COLUMNS
from models.store import bulk, own_transaction
from models.store.peewee_internals import get_table_name
from models.store.prepared import Prepared, in_bound
from models.store.store import STORE_ERRORS, db, store
from models.tables.accounts import Account
from models.tables.incidents import FIXED, Incident, IncidentGroup, IncidentLog
from models.write.acknowledgements import count_acknowledged

# How long new incidents wait for their numbers in a transaction of its own.
NUMBERS_TIMEOUT_S = 1.0


def _build_columns(incident: IncidentState) -> dict[str, object]:
    values = {name: getattr(incident, name) for name in STATE_COLUMNS}
    return {**values, "status": int(incident.status), "urgency": int(incident.urgency)}


def write_incidents(effects: Iterable[SaveIncident], incident_rows: dict[str, int]) -> None:
    """Write the last state of each incident, and add its row number to `incident_rows`."""
    incidents = {effect.incident.unique_id: effect.incident for effect in effects}.values()
    stored = {incident.unique_id: incident.row for incident in incidents if incident.row is not None}
    incident_rows.update(stored)
    # Those that the transaction inserted before have a number, although their states do not know it.
    _update_incidents([one for one in incidents if one.unique_id in incident_rows], incident_rows)
    _insert_incidents([one for one in incidents if one.unique_id not in incident_rows], incident_rows)


def _insert_incidents(incidents: list[IncidentState], incident_rows: dict[str, int]) -> None:
    """Insert incidents with the next numbers of the account, and add their row numbers to `incident_rows`."""
    if not incidents:
        return
    account = incidents[0].account
    last = _reserve_numbers(account, len(incidents))
    numbers = {
        incident.unique_id: last - len(incidents) + place for place, incident in enumerate(incidents, start=1)
    }
    records = [{**_build_columns(i), "incident_number": numbers[i.unique_id]} for i in incidents]
    rows = store().reserve_row_numbers(Incident, len(incidents))
    if rows is None:
        bulk.insert(Incident, records)
        rows_by_id = dict(_INCIDENT_ROWS.rows(unique_ids=list(numbers)))
    else:
        rows_by_id = dict(zip(numbers, rows, strict=True))
        bulk.insert(Incident, [{"id": row, **record} for row, record in zip(rows, records, strict=True)])
    incident_rows.update(rows_by_id)


_INCIDENT_ROWS = Prepared(
    lambda: Incident.select(Incident.unique_id, Incident.id).where(in_bound(Incident.unique_id, "unique_ids"))
)


def _reserve_numbers(account: int, count: int) -> int:
    """Return the last of the next incident numbers of an account.

    Until a transaction that has changed the row of the account ends, no other lane of the account can open an
    incident. So the change has a transaction of its own. If the caller's fails, its numbers remain unused.
    """
    if not store().has_single_writer:
        with suppress(*STORE_ERRORS, TimeoutError):
            for (last,) in own_transaction.run(_build_increase(account, count), NUMBERS_TIMEOUT_S):
                return last
    # The account is new and not committed, or locked.
    ((last,),) = db.execute_sql(_build_increase(account, count)).fetchall()
    return int(last)


def _build_increase(account: int, count: int) -> str:
    """Return the statement that adds to the last incident number of an account, and returns it."""
    table, number = f'"{get_table_name(Account)}"', f'"{Account.last_incident_number.column_name}"'
    return f"UPDATE {table} SET {number} = {number} + {count:d} WHERE id = {account:d} RETURNING {number}"  # noqa: S608


_MUTABLE = tuple(name for name in STATE_COLUMNS if name not in FIXED)


def _update_incidents(incidents: list[IncidentState], incident_rows: Mapping[str, int]) -> None:
    records = [{"id": incident_rows[each.unique_id], **_build_columns(each)} for each in incidents]
    bulk.update(Incident, [{name: columns[name] for name in ("id", *_MUTABLE)} for columns in records])


def insert_groups(groups: Iterable[SaveGroups], incident_rows: Mapping[str, int]) -> None:
    records = [
        {"incident": incident_rows[group.incident], "digest": digest, "created_at": group.at}
        for group in groups
        for digest in group.digests
    ]
    bulk.insert(IncidentGroup, records)


def insert_logs(logs: Collection[RecordLog], incident_rows: Mapping[str, int]) -> None:
    bulk.insert(IncidentLog, [_build_log(log, incident_rows) for log in logs])
    acknowledged = (log for log in logs if log.what == "acknowledged")
    count_acknowledged(
        {
            (incident_rows[log.incident], log.author.user)
            for log in acknowledged
            if log.author.user is not None
        }
    )


def _build_log(log: RecordLog, incident_rows: Mapping[str, int]) -> dict[str, object]:
    return {
        "incident": incident_rows[log.incident],
        "at": log.at,
        "what": log.what,
        "reason": log.reason,
        "author_kind": log.author.kind.value,
        "user": log.author.user,
        "alert": log.author.alert,
    }
