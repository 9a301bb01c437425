"""Who is on call now, in one line above the incidents: gaps first, then the other schedules."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.facts import OnCallConfig
from models.load import schedule_overview
from models.load.oncall_config import build_people_on_call
from models.load.schedules import list_usernames, load_schedule_facts
from models.reports.pages import on_call_strip
from models.tables.accounts import get_display_name
from schedules.escalation.current import find_current
from web.http import access
from web.http.auth import now, viewer

# Schedules that are computed for the strip, and those that it shows.
MAX_COMPUTED = 12
MAX_SHOWN = 4
# A twentieth of what the page of a schedule may take.
MAX_WORK = 500
# A gap that begins later is not urgent enough for the strip.
SOON = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Current:
    """A schedule now: its people, until when, and whether nobody is on call then."""

    unique_id: str
    name: str
    team: str
    people: tuple[str, ...]
    until: datetime | None
    next_people: tuple[str, ...]

    @property
    def is_gap(self) -> bool:
        """Whether nobody is on call, now or soon."""
        ends = self.until is not None and self.until < now() + SOON and not self.next_people
        return not self.people or ends


def load_strip() -> list[Current]:
    """Return the schedules of the strip, in a constant number of statements."""
    teams = access.select_permitted_teams(viewer(), "schedule_read")
    rows = on_call_strip.list_schedules(teams, MAX_COMPUTED)
    facts = load_schedule_facts(rows, now() - timedelta(days=40))
    usernames = {name for each in facts for name in list_usernames(each)}
    users = schedule_overview.find_members(viewer().account.id, usernames) if usernames else {}
    people = build_people_on_call(users.values(), now())
    names = {user.id: get_display_name(user) for user in users.values()}
    shown = []
    for row, schedule in zip(rows, facts, strict=True):
        config = OnCallConfig(people=people, schedules={schedule.unique_id: schedule})
        current = find_current(schedule, config, now(), MAX_WORK)
        shown.append(
            Current(
                row.unique_id,
                row.name,
                row.team.name,
                tuple(dict.fromkeys(get_display_name(users[each.shift.username]) for each in current.shifts)),
                current.handoff,
                tuple(names.get(person.row, person.name) for person in current.next_people),
            )
        )
    return sorted(shown, key=lambda each: not each.is_gap)[:MAX_SHOWN]
