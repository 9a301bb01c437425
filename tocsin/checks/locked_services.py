"""Find services whose work waits for the lock of a process that hangs."""

from collections.abc import Iterator
from datetime import datetime

from models.reports.locked_services import list_locked_services
from web.checks.finding import Finding


def find_locked_services(now: datetime) -> Iterator[Finding]:
    """Find services that a transaction has locked for more than some seconds, so that their pages wait."""
    for unique_id in list_locked_services(now):
        what = (
            f"alerts, timers or messages of service {unique_id} wait for a lock that another process has held"
            " for more than 5 s: its host is lost, or it hangs"
        )
        yield Finding("locked_service", "", unique_id, what)
