"""The jobs of the clock: name, period in seconds, function.

The command adds the request to the dead-man's switch, if its URL is set (tocsin/commands/processes.py).
"""

from schedules.clock import PeriodicJob
from workers.periodic import due_scan, liveness, missing_heartbeats, release_maintenance, retention
from workers.timers import audit

PERIODIC_JOBS = (
    PeriodicJob("due-scan", 1, due_scan.enqueue_due),
    PeriodicJob("maintenance", 1, release_maintenance.enqueue_ended),
    PeriodicJob("pings", 1, missing_heartbeats.enqueue_overdue),
    PeriodicJob("sweep", 2, due_scan.enqueue_stale),
    PeriodicJob("liveness", liveness.LIVENESS_PERIOD_S, liveness.record_liveness),
    PeriodicJob("audit", 300, audit.audit, slow=True),
    PeriodicJob("clean-up", 3600, retention.clean_up, slow=True),
)
