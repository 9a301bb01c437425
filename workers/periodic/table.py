"""The periodic jobs that the clock process runs: name, period in seconds, function.

One more job sends the request to the dead-man's switch, if its URL is set. The command `tocsin clock` adds it
(tocsin/commands/installation/processes.py), because its code is in a higher layer. While the installation is
paused, only liveness is recorded.
"""

from schedules.clock_process import PeriodicJob
from workers.pause import unless_paused
from workers.periodic import (
    clock_set_back,
    due_scan,
    end_drills,
    expired_entities,
    liveness,
    missing_heartbeats,
    past_swaps,
    release_maintenance,
    retention,
)
from workers.timers import audit

PERIODIC_JOBS = (
    PeriodicJob("due-scan", 1, unless_paused(due_scan.enqueue_due)),
    PeriodicJob("end-of-maintenance", 1, unless_paused(release_maintenance.enqueue_ended)),
    PeriodicJob("missing-pings", 1, unless_paused(missing_heartbeats.enqueue_overdue)),
    PeriodicJob("expired-entities", 1, unless_paused(expired_entities.enqueue_expired)),
    PeriodicJob("stale-lanes", 2, unless_paused(due_scan.enqueue_stale)),
    PeriodicJob("drills", 5, unless_paused(end_drills.end_drills), slow=True),
    PeriodicJob("liveness", liveness.LIVENESS_PERIOD_S, liveness.record_liveness),
    PeriodicJob(
        "future-rows", clock_set_back.EVERY_S, unless_paused(clock_set_back.future_rows.correct), slow=True
    ),
    PeriodicJob("past-swaps", past_swaps.EVERY_S, unless_paused(past_swaps.end_past), slow=True),
    PeriodicJob("audit", audit.EVERY_S, unless_paused(audit.run), slow=True),
    PeriodicJob("clean-up", 3600, unless_paused(retention.clean_up), slow=True),
)
