"""The state machine of an incident: acknowledge, resolve, reopen, snooze, merge, assign, change the policy.

Alerts, timers, the HTTP interface and signed links use it. Each function returns the whole change as effects.
Nothing here reads the clock or a table. Contract sections 4.3 and 4.4.
"""

from pipeline.incidents.assignment import assign, assign_role, change_policy, change_sla, change_urgency
from pipeline.incidents.escalation_run import (
    get_saved,
    open_incident,
    save_with_timers,
    start_escalation,
    start_for_assignee,
)
from pipeline.incidents.merging import check_merge, merge, unmerge
from pipeline.incidents.status import change_status, check_snooze, snooze, unsnooze

__all__ = [
    "assign",
    "assign_role",
    "change_policy",
    "change_sla",
    "change_status",
    "change_urgency",
    "check_merge",
    "check_snooze",
    "get_saved",
    "merge",
    "open_incident",
    "save_with_timers",
    "snooze",
    "start_escalation",
    "start_for_assignee",
    "unmerge",
    "unsnooze",
]
