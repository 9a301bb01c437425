"""Log stored time zones that this host does not know.

Their times are then computed in UTC (schedules/oncall/local_time.py), which pages people at other hours.
"""

from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runtime.late_logs import LateLogger

log = LateLogger()


# Cached, so that each row is logged once in a process: this runs whenever the row is loaded.
@lru_cache(maxsize=4096)
def report_unknown_zone(kind: str, unique_id: str, time_zone: str) -> None:
    """Log a warning if this host does not know the time zone of a row, given by its kind and unique_id."""
    try:
        ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        log.warning("time zone is unknown, using UTC", kind=kind, unique_id=unique_id, time_zone=time_zone)
