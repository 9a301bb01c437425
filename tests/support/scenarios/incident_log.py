"""The log of incidents, in the order in which it was written."""

from models.domain.reasons import Reason
from models.tables.incidents import IncidentLog


def list_log_reasons(what: str) -> list[Reason]:
    """Return the reasons of all entries of a kind. Without an order, PostgreSQL may return rows in any."""
    found = IncidentLog.select().where(IncidentLog.what == what).order_by(IncidentLog.id)
    return [row.reason for row in found]
