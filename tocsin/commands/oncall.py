"""`tocsin oncall`: show who is on call in each schedule at a time, and whom each policy would notify."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, ScheduleFacts
from models.load.oncall_config import build_oncall_config
from models.store.base import Table, store
from models.store.prepared import in_list
from models.tables.accounts import Account
from models.tables.schedules import Schedule
from models.tables.teams import EscalationPolicy, Team
from schedules.escalation.notifications import get_recipient
from schedules.escalation.targets import OnCallResolver, get_people_on_call, is_round_robin
from schedules.oncall import shifts
from tocsin.commands.accounts import as_json_option
from tocsin.commands.output import format_table, shorten, to_json, to_printable
from tocsin.commands.read_only import BadArguments, NoResult, open_read_only

LOOKAHEAD = timedelta(days=30)
NOBODY = "NOBODY"

JsonDict = dict[str, Any]
Row = TypeVar("Row", bound=Table)

account_option = click.option(
    "--account", "account_id", help="Identifier of one account; default: all accounts."
)


class WhenType(click.ParamType):
    """A time as in RFC 3339, or a date and time without an offset, which is UTC."""

    name = "when"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            moment = datetime.fromisoformat(value.strip())
            at = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value} is not a time: use 2026-12-24T18:00:00+01:00, or 2026-12-24 18:00 (UTC)")
        if not shifts.EARLIEST <= at < shifts.LATEST:
            self.fail(f"{value} is too far in the past or future")
        return at


@click.command()
@click.option(
    "--at", metavar="WHEN", type=WhenType(), help="The time, in UTC if it has no offset; default: now."
)
@click.option("--team", "team_name", metavar="NAME", help="Only the team with this name or unique_id.")
@account_option
@as_json_option
def oncall(at: datetime | None, team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """Show who is on call in each schedule and until when, and whom each escalation policy would notify."""
    with open_read_only():
        at = at or store().now()
        accounts = [_build_account(account, at, team_name) for account in find_accounts(account_id)]
    accounts = [account for account in accounts if account["teams"]]
    if not accounts:
        raise BadArguments(f"no team {team_name}") if team_name else NoResult("there is no team")
    if as_json:
        click.echo(to_json({"at": at, "accounts": accounts}))
        return
    for text in format_lines(accounts, at):
        click.echo(to_printable(text))


def find_accounts(identifier: str | None) -> list[Account]:
    """Return the account with this identifier, or all accounts."""
    rows = Account.select().order_by(Account.id)
    found = list(rows.where(Account.account_identifier == identifier) if identifier else rows)
    if not found:
        raise BadArguments(f"no account {identifier}") if identifier else NoResult("there is no account")
    return found


def _build_account(account: Account, at: datetime, team_name: str | None) -> JsonDict:
    teams = Team.select().where(Team.account == account).order_by(Team.name, Team.id)
    if team_name:
        teams = teams.where((Team.name == team_name) | (Team.unique_id == team_name))
    teams = list(teams)
    schedules, policies = (_list_rows(table, teams) for table in (Schedule, EscalationPolicy))
    result: JsonDict = {"account_id": account.account_identifier, "name": account.name, "teams": []}
    if teams:
        config = build_oncall_config(teams[0], policies, (), [row.unique_id for row in schedules], at)
        resolver = OnCallResolver(config, at)
        result["teams"] = [
            {
                "unique_id": team.unique_id,
                "name": team.name,
                # A schedule may be deleted between the two queries.
                "schedules": [
                    _build_schedule(config.schedules[row.unique_id], config, at)
                    for row in schedules
                    if row.team_id == team.id and row.unique_id in config.schedules
                ],
                "policies": [
                    _build_policy(config.policies[row.id], resolver, at)
                    for row in policies
                    if row.team_id == team.id
                ],
            }
            for team in teams
        ]
    return result


def _list_rows(table: type[Row], teams: Sequence[Team]) -> list[Row]:
    """Return the rows of a table that belong to these teams, ordered by name."""
    rows = table.select().where(in_list(table.team, [team.id for team in teams]))
    return list(rows.order_by(table.name, table.id))


def _build_schedule(schedule: ScheduleFacts, config: OnCallConfig, at: datetime) -> JsonDict:
    until = shifts.fit_end(schedule, at, at + LOOKAHEAD)
    found = shifts.list_joined_shifts(schedule, at, until, config.people)
    handoff = shifts.find_handoff(found, at, until)
    next_people = get_people_on_call(schedule.unique_id, config, handoff) if handoff else []
    return {
        "unique_id": schedule.unique_id,
        "name": schedule.name,
        "time_zone": schedule.time_zone,
        "oncalls": [
            {
                **_build_person(config.people[held.shift.username], at),
                "by": "override" if held.shift.is_override else "layer",
                "by_name": held.shift.source.name,
                "until": held.until,
                "until_local": held.until and shifts.format_local(schedule.time_zone, held.until),
            }
            for held in shifts.list_current(schedule, at, found, until)
        ],
        "handoff": handoff
        and {
            "at": handoff,
            "at_local": shifts.format_local(schedule.time_zone, handoff),
            "oncalls": [_build_person(person, handoff) for person in next_people],
        },
    }


def _build_policy(policy: PolicyFacts, resolver: OnCallResolver, at: datetime) -> JsonDict:
    by_step = [resolver.get_people(step) for step in policy.steps]
    delays = _compute_delays(policy, by_step)
    return {
        "unique_id": policy.unique_id,
        "name": policy.name,
        "by_turns": is_round_robin(policy),
        "steps": [
            {
                "delay": step.delay_minutes,
                "notified_after": delay,
                "people": [_build_person(person, at) for person in people],
            }
            for step, people, delay in zip(policy.steps, by_step, delays, strict=True)
        ],
    }


def _compute_delays(policy: PolicyFacts, by_step: Sequence[Sequence[PersonFacts]]) -> Iterator[int]:
    """Yield the minutes after which each step notifies its people.

    With `move_to_next`, a step notifies at the time of the step before it if that step has no people.
    """
    delay, skip_delay = 0, False
    for step, people in zip(policy.steps, by_step, strict=True):
        delay = delay if skip_delay else step.delay_minutes
        yield delay
        skip_delay = policy.move_to_next and not people


def _build_person(person: PersonFacts, at: datetime) -> JsonDict:
    notified = get_recipient(person, at)
    forwarded_to = None if notified is person else {"username": notified.username, "name": notified.name}
    return {"username": person.username, "name": person.name, "forwarded_to": forwarded_to}


def format_lines(accounts: Sequence[JsonDict], at: datetime) -> Iterator[str]:
    """Yield the output for accounts as lines of text, with times in the time zones of the schedules."""
    yield f"on call at {shifts.format_local('UTC', at)}; other times are in the time zones of the schedules"
    for account in accounts:
        yield ""
        if len(accounts) > 1:
            yield f"account {shorten(account['name'])} ({account['account_id']})"
        rows = [row for team in account["teams"] for row in _build_rows(team)]
        if rows:
            yield from format_table([("TEAM", "SCHEDULE", "ON CALL", "UNTIL", "BY", "NEXT"), *rows])
        else:
            yield "no schedules"
        for team in account["teams"]:
            for policy in team["policies"]:
                yield ""
                yield from _format_policy(team, policy)


def _build_rows(team: JsonDict) -> Iterator[tuple[str, ...]]:
    where = shorten(team["name"])
    for schedule in team["schedules"]:
        name = shorten(schedule["name"])
        handoff = schedule["handoff"]
        next_text = _format_next(handoff) if handoff else "no change"
        if not schedule["oncalls"]:
            until = handoff["at_local"] if handoff else "no end"
            yield where, name, NOBODY, until, "-", next_text
        for held in schedule["oncalls"]:
            until = held["until_local"] or "no end"
            by = f"{held['by']} {shorten(held['by_name'])}"
            yield where, name, _format_name(held), until, by, next_text


def _format_next(handoff: JsonDict) -> str:
    return f"{_format_names(handoff['oncalls'])} from {handoff['at_local']}"


def _format_policy(team: JsonDict, policy: JsonDict) -> Iterator[str]:
    yield f"{shorten(team['name'])}: {shorten(policy['name'])}"
    for place, step in enumerate(policy["steps"], start=1):
        rule = ", round robin: one per incident" if place == 1 and policy["by_turns"] else ""
        yield f"  step {place}, {_format_delay(step)}{rule}: {_format_names(step['people'])}"
    if not any(step["people"] for step in policy["steps"]):
        none = "" if policy["steps"] else "no steps: "
        yield f"  {none}nobody is on call: the team's managers are notified, or else the account owner"


def _format_delay(step: JsonDict) -> str:
    """Return when a step notifies: earlier than its own delay if the step before it has no people."""
    early = step["notified_after"] != step["delay"]
    return (
        f"{_format_minutes(step['notified_after'])} instead of {_format_minutes(step['delay'])}"
        if early
        else _format_minutes(step["delay"])
    )


def _format_minutes(minutes: int) -> str:
    return f"after {minutes} min" if minutes else "at once"


def _format_names(people: Iterable[JsonDict]) -> str:
    return ", ".join(map(_format_name, people)) or NOBODY


def _format_name(person: JsonDict) -> str:
    forwarded_to, name = person["forwarded_to"], shorten(person["name"])
    return f"{name} (forwarded to {shorten(forwarded_to['name'])})" if forwarded_to else name
