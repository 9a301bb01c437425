"""What became of accepted alerts, for the senders that wait for it (web/ingest/alert_results.py)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from models.domain.enums import WorkState
from models.reports import alert_trace
from models.tables.events import Receipt


@dataclass(frozen=True, slots=True)
class AlertResult:
    """What became of an alert: the number of its incident, if it has one, and whether it opened it."""

    incident: int | None
    incident_created: bool


def find_results(trace_ids: Collection[str]) -> Mapping[str, AlertResult | None]:
    """Return the results of the receipts that are not pending, by trace_id. None: a dead letter.

    The result of a receipt with several alerts is that of the first one, as in the alert status.
    """
    done = Receipt.select(Receipt.id, Receipt.trace_id, Receipt.state, Receipt.error).where(
        Receipt.trace_id.in_(list(trace_ids)), Receipt.state != WorkState.PENDING
    )
    found: dict[str, AlertResult | None] = {}
    for receipt in done:
        event = alert_trace.find_first_event(receipt)
        status = alert_trace.get_status(receipt, [event] if event else [])
        if status == alert_trace.STATE_NAMES[WorkState.DEAD_LETTER]:
            found[receipt.trace_id] = None
        elif status == alert_trace.STATE_NAMES[WorkState.DONE]:
            incident = event.incident if event else None
            found[receipt.trace_id] = AlertResult(
                incident.incident_number if incident else None, bool(event and event.incident_created)
            )
    return found
