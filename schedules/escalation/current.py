"""Find who is on call by a schedule at a moment, until when, and who is next.

The HTTP interface and `tocsin oncall` show these answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.facts import OnCallConfig, PersonFacts, ScheduleFacts
from schedules.escalation.person_notifications import get_recipient
from schedules.escalation.targets import get_people_on_call
from schedules.oncall.local_time import DAY
from schedules.oncall.shifts import FullShift, find_handoff, fit_end, list_current, list_joined_shifts

# The next handoff is looked for in this time, or for a large schedule in the time of `MAX_WORK`.
LOOKAHEAD = timedelta(days=30)
# Limit of turns and restrictions to compute: about a tenth of a second of processor time.
MAX_WORK = 10_000


@dataclass(frozen=True, slots=True)
class CurrentOnCall:
    """The complete shifts of a moment, in paging order, and the next handoff.

    `recipients` has the person who is notified instead of the person of a shift, by username. `handoff` is
    None if the same people are on call until `until`; `next_people` are on call from the handoff on.
    """

    at: datetime
    until: datetime
    shifts: Sequence[FullShift]
    recipients: Mapping[str, PersonFacts]
    handoff: datetime | None
    next_people: Sequence[PersonFacts]

    def list_rows(self) -> set[int]:
        """Return the row numbers of all users in this answer, except those of `shifts`."""
        return {person.row for person in (*self.recipients.values(), *self.next_people)}


def find_current(
    schedule: ScheduleFacts, config: OnCallConfig, at: datetime, most: int = MAX_WORK
) -> CurrentOnCall:
    """Find who is on call, with at most this much work; `config` has the schedule and its people.

    The handoff is looked for in the next day first and then in longer times, because most are near. The
    schedule must have all overrides, also old ones: they may have split a present shift.
    """
    until = fit_end(schedule, at, at + LOOKAHEAD, most)
    end = min(at + DAY, until)
    found = list_joined_shifts(schedule, at, end, config.people)
    while (handoff := find_handoff(found, at, end)) is None and end < until:
        end = min(at + 2 * (end - at), until)
        found = list_joined_shifts(schedule, at, end, config.people)
    shifts = list_current(schedule, at, found, end)
    usernames = {held.shift.username for held in shifts}
    recipients = {name: get_recipient(config.people[name], at) for name in usernames}
    return CurrentOnCall(
        at,
        until,
        shifts,
        {name: other for name, other in recipients.items() if other is not config.people[name]},
        handoff,
        get_people_on_call(schedule.unique_id, config, handoff) if handoff else (),
    )
