"""`tocsin oncall`: show who is on call in each schedule at a time, and whom each policy would notify."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

import click

from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, ScheduleFacts
from models.load.oncall_config import build_oncall_config
from models.load.schedules import load_schedule_facts
from models.store.fields import Table
from models.store.prepared import in_list
from models.store.store import store
from models.tables.accounts import Account, User
from models.tables.schedules import Schedule
from models.tables.teams import EscalationPolicy, StoredStep, Team
from schedules.escalation.current import CurrentOnCall, find_current
from schedules.escalation.person_notifications import get_recipient
from schedules.escalation.targets import OnCallResolver, is_round_robin
from schedules.oncall import shifts
from schedules.oncall.local_time import get_zone, list_zone_warnings
from tocsin.commands.names import find_accounts
from tocsin.commands.options import accounts_option, as_json_option
from tocsin.commands.output import format_table, get_width, print_json, shorten, to_printable
from tocsin.commands.read_only import BadArguments, NoResult, open_read_only
from tocsin.commands.times import ZoneType, parse_time

NOBODY = "NOBODY"
HEADINGS = ("TEAM", "SCHEDULE", "ON CALL", "UNTIL", "BY", "NEXT")

Row = TypeVar("Row", bound=Table)


@click.command()
@click.option(
    "--at", "at_text", metavar="WHEN", help="The time, in --zone if it has no offset; default: now."
)
@click.option(
    "--zone",
    type=ZoneType(),
    help="Time zone of all times; default: UTC for --at, and for other times the zones of the schedules.",
)
@click.option("--team", "team_name", metavar="NAME", help="Only the team with this name or unique_id.")
@accounts_option
@as_json_option
def oncall(
    at_text: str | None, zone: ZoneInfo | None, team_name: str | None, account_id: str | None, as_json: bool
) -> None:
    """Show who is on call in each schedule and until when, and whom each escalation policy would notify.

    Schedules and policies in JSON have the form of the answers over HTTP.
    """
    at = parse_time(at_text, zone or get_zone("UTC"))
    with open_read_only():
        at = at or store().now()
        known = [_load_account(account, at, team_name) for account in find_accounts(account_id)]
    accounts = [account for account in known if account.teams]
    if not accounts:
        raise BadArguments(f"no team {team_name}") if team_name else NoResult("there is no team")
    if as_json:
        # The forms of the answers over HTTP need the interface, which takes longest to load.
        from tocsin.commands.account.oncall_json import build_json

        print_json({"at": at, "accounts": [build_json(account) for account in accounts]})
        return
    for text in format_lines(accounts, at, zone):
        click.echo(to_printable(text))
    for schedule, _ in (one for account in accounts for team in account.teams for one in team.schedules):
        for warning in list_zone_warnings(schedule.name, schedule.time_zone):
            click.echo(to_printable(warning), err=True)


def _load_account(account: Account, at: datetime, team_name: str | None) -> "AccountOnCall":
    teams = Team.select().where(Team.account == account).order_by(Team.name, Team.id)
    if team_name:
        teams = teams.where((Team.name == team_name) | (Team.unique_id == team_name))
    rows = list(teams)
    if not rows:
        return AccountOnCall(account, at, OnCallConfig(), {}, ())
    schedules, policies = _list_rows(Schedule, rows), _list_rows(EscalationPolicy, rows)
    # Shifts are shown completely, so old overrides are needed: they may have split a present shift.
    facts = load_schedule_facts(schedules, shifts.EARLIEST)
    config = build_oncall_config(rows[0], policies, (), [each.unique_id for each in facts], at)
    config = replace(config, schedules={**config.schedules, **{each.unique_id: each for each in facts}})
    users = User.select().where(User.account == account, User.removed_at.is_null())
    return AccountOnCall(
        account,
        at,
        config,
        {user.id: user for user in users},
        [
            TeamOnCall(
                team,
                [
                    (each, find_current(each, config, at))
                    for row, each in zip(schedules, facts, strict=True)
                    if row.team_id == team.id
                ],
                [row for row in policies if row.team_id == team.id],
            )
            for team in rows
        ],
    )


@dataclass(frozen=True, slots=True)
class TeamOnCall:
    """A team with its schedules and who is on call in them, and its policies."""

    team: Team
    schedules: Sequence[tuple[ScheduleFacts, CurrentOnCall]]
    policies: Sequence[EscalationPolicy]


@dataclass(frozen=True, slots=True)
class AccountOnCall:
    """Who is on call in an account at a moment. `users` is by row number."""

    account: Account
    at: datetime
    config: OnCallConfig
    users: Mapping[int, User]
    teams: Sequence[TeamOnCall]

    def resolve(self, row: EscalationPolicy) -> "list[tuple[StoredStep, int, list[PersonFacts]]]":
        """Return the steps of a policy, each with the minutes after which it notifies, and its people."""
        policy, resolver = self.config.policies[row.id], OnCallResolver(self.config, self.at)
        by_step = [resolver.get_people(step) for step in policy.steps]
        return list(zip(row.rules, _compute_delays(policy, by_step), by_step, strict=True))


def _list_rows(table: type[Row], teams: Sequence[Team]) -> list[Row]:
    """Return the rows of a table that belong to these teams, ordered by name."""
    rows = table.select().where(in_list(table.team, [team.id for team in teams]))
    return list(rows.order_by(table.name, table.id))


def _compute_delays(policy: PolicyFacts, by_step: Sequence[Sequence[PersonFacts]]) -> Iterator[int]:
    """Yield the minutes after which each step notifies its people.

    With `move_to_next`, a step notifies at the time of the step before it if that step has no people.
    """
    delay, skip_delay = 0, False
    for step, people in zip(policy.steps, by_step, strict=True):
        delay = delay if skip_delay else step.delay_minutes
        yield delay
        skip_delay = policy.move_to_next and not people


def format_lines(accounts: Sequence[AccountOnCall], at: datetime, zone: ZoneInfo | None) -> Iterator[str]:
    """Yield the output for accounts as lines of text. Without `zone`, times are in those of the schedules."""
    others = f"all times are in {zone.key}" if zone else "other times are in the time zones of the schedules"
    yield f"on call at {shifts.format_local(zone.key if zone else 'UTC', at)}; {others}"
    for found in accounts:
        yield ""
        if len(accounts) > 1:
            yield f"account {shorten(found.account.name)} ({found.account.account_identifier})"
        rows = [
            row
            for each in found.teams
            for schedule, current in each.schedules
            for row in _build_rows(each.team, schedule, current, found.config, zone)
        ]
        if rows:
            yield from format_table(rows, HEADINGS, get_width())
        else:
            yield "no schedules"
        for each in found.teams:
            for policy in each.policies:
                yield ""
                yield from _format_policy(each.team, policy, found)


def _build_rows(
    team: Team, schedule: ScheduleFacts, current: CurrentOnCall, config: OnCallConfig, zone: ZoneInfo | None
) -> Iterator[tuple[str, ...]]:
    where, name = shorten(team.name), shorten(schedule.name)
    zone_name = zone.key if zone else schedule.time_zone
    handoff = current.handoff and shifts.format_local(zone_name, current.handoff)
    next_text = "no change"
    if current.handoff is not None:
        next_text = f"{_format_people(current.next_people, current.handoff)} from {handoff}"
    if not current.shifts:
        yield where, name, NOBODY, handoff or "no end", "-", next_text
    for held in current.shifts:
        person = _format_person(config.people[held.shift.username], current.at)
        until = shifts.format_local(zone_name, held.until) if held.until else "no end"
        by = f"{'override' if held.shift.is_override else 'layer'} {shorten(held.shift.source.name)}"
        yield where, name, person, until, by, next_text


def _format_policy(team: Team, row: EscalationPolicy, found: AccountOnCall) -> Iterator[str]:
    yield f"{shorten(team.name)}: {shorten(row.name)}"
    steps = found.resolve(row)
    by_turns = is_round_robin(found.config.policies[row.id])
    for place, (step, delay, people) in enumerate(steps, start=1):
        rule = ", round robin: one per incident" if place == 1 and by_turns else ""
        after = _format_delay(step["delay"], delay)
        yield f"  step {place}, {after}{rule}: {_format_people(people, found.at)}"
    if not any(people for _, _, people in steps):
        none = "" if steps else "no steps: "
        yield f"  {none}nobody is on call: the team's managers are notified, or else the account owner"


def _format_delay(delay: int, notified_after: int) -> str:
    """Return when a step notifies: earlier than its own delay if the step before it has no people."""
    if notified_after == delay:
        return _format_minutes(delay)
    return f"{_format_minutes(notified_after)} instead of {_format_minutes(delay)}"


def _format_minutes(minutes: int) -> str:
    return f"after {minutes} min" if minutes else "at once"


def _format_people(people: Iterable[PersonFacts], at: datetime) -> str:
    return ", ".join(_format_person(person, at) for person in people) or NOBODY


def _format_person(person: PersonFacts, at: datetime) -> str:
    notified, name = get_recipient(person, at), shorten(person.name)
    return name if notified is person else f"{name} (forwarded to {shorten(notified.name)})"
