"""The periodic jobs that the clock process runs: name, period in seconds, function.

One more job sends the request to the dead-man's switch, if its URL is set. The command `tocsin clock` adds it
(tocsin/commands/processes.py), because its code is in a higher layer.
"""

from schedules.clock_process import PeriodicJob
from workers.periodic import due_scan, liveness, missing_heartbeats, release_maintenance, retention
from workers.timers import audit

PERIODIC_JOBS = (
    PeriodicJob("due-scan", 1, due_scan.enqueue_due),
    PeriodicJob("end-of-maintenance", 1, release_maintenance.enqueue_ended),
    PeriodicJob("missing-pings", 1, missing_heartbeats.enqueue_overdue),
    PeriodicJob("stale-lanes", 2, due_scan.enqueue_stale),
    PeriodicJob("liveness", liveness.LIVENESS_PERIOD_S, liveness.record_liveness),
    PeriodicJob("audit", 300, audit.audit, slow=True),
    PeriodicJob("clean-up", 3600, retention.clean_up, slow=True),
)
