"""Count and measure incidents in the database (contract 3.13). The caller selects the incidents.

A time is measured from the creation of an incident to its `acknowledged_date` or `resolved_date`. An incident
without the date has no such time.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import peewee

from models.domain.enums import IncidentStatus
from models.store.fields import UtcField
from models.store.store import store
from models.tables.accounts import User
from models.tables.incidents import Incident


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers of incidents, and the numbers and sums of their times in seconds.

    `acknowledged` includes resolved incidents, also those that an alert or a timer resolved (contract 3.13).
    """

    incidents: int = 0
    acknowledged: int = 0
    resolved: int = 0
    acknowledge_times: int = 0
    acknowledge_sum_s: float = 0.0
    resolve_times: int = 0
    resolve_sum_s: float = 0.0

    def show(self) -> dict[str, int | float]:
        """Return the metrics by their names in the interface. A mean is 0 if there is no time."""
        return {
            "total_incidents": self.incidents,
            "total_acknowledged": self.acknowledged,
            "total_resolved": self.resolved,
            "mtta_seconds": _get_mean(self.acknowledge_sum_s, self.acknowledge_times),
            "mttr_seconds": _get_mean(self.resolve_sum_s, self.resolve_times),
        }


def _get_mean(total_s: float, count: int) -> float:
    return round(total_s / count, 3) if count else 0.0


def add(all_metrics: Iterable[Metrics]) -> Metrics:
    """Return the metrics of the incidents of several groups together."""
    columns = zip(*map(astuple, all_metrics), strict=True)
    return Metrics(*map(sum, columns))


def measure(
    incidents: "peewee.ModelSelect[Incident]", group: peewee.Expression | peewee.Case
) -> dict[int | None, Metrics]:
    """Return the metrics of each group of incidents, by the value of the expression `group`."""
    query = incidents.select(
        group.alias("group_key"),
        peewee.fn.COUNT(Incident.id),
        _count(Incident.status > IncidentStatus.TRIGGERED),
        _count(Incident.status == IncidentStatus.RESOLVED),
        *_measure_times(Incident.acknowledged_date),
        *_measure_times(Incident.resolved_date),
    )
    # By name: PostgreSQL does not see that two expressions with parameters are equal.
    rows = query.group_by(peewee.SQL("group_key")).tuples()
    return {key: Metrics(*(value or 0 for value in values)) for key, *values in rows}


def _measure_times(end: UtcField) -> tuple[peewee.Function, peewee.Function]:
    """Return the number of times until this date, and their sum in seconds. Without any, the sum is NULL."""
    seconds = store().measure_seconds(Incident.creation_date, end)
    return peewee.fn.COUNT(end).coerce(False), peewee.fn.SUM(seconds)


def _count(condition: peewee.Expression) -> peewee.Function:
    return peewee.fn.COUNT(peewee.Case(None, [(condition, 1)]))


def count_by_status(incidents: "peewee.ModelSelect[Incident]", user: User) -> dict[tuple[int, bool], int]:
    """Return the number of incidents by status, and by whether they are assigned to this user."""
    is_own = peewee.Case(None, [(Incident.assigned_to == user.id, 1)], 0)
    query = incidents.select(Incident.status, is_own.alias("is_own"), peewee.fn.COUNT(Incident.id))
    rows = query.group_by(Incident.status, peewee.SQL("is_own")).tuples()
    return {(status, bool(own)): count for status, own, count in rows}


def has_more_than(incidents: "peewee.ModelSelect[Incident]", count: int) -> bool:
    """Return whether more incidents are selected than this number, after reading at most one more."""
    return bool(list(incidents.select(peewee.SQL("1")).limit(1).offset(count).tuples()))
