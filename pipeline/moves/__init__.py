"""The incident state machine: what it means to acknowledge, resolve, reopen, assign or re-route.

Used alike by alerts, timers, the HTTP interface and signed links. Each function answers with the
whole change; nothing here looks at a clock or a table. Contract sections 4.3 and 4.4.
"""

from pipeline.moves.answers import against_snoozing, move, snooze, wake
from pipeline.moves.chain import after, open_incident, rearm, start, start_assigned
from pipeline.moves.families import against_merging, merge, unmerge
from pipeline.moves.handing import assign, change_policy, change_sla, change_urgency, give_role

__all__ = [
    "after",
    "against_merging",
    "against_snoozing",
    "assign",
    "change_policy",
    "change_sla",
    "change_urgency",
    "give_role",
    "merge",
    "move",
    "open_incident",
    "rearm",
    "snooze",
    "start",
    "start_assigned",
    "unmerge",
    "wake",
]
