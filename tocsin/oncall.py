"""`tocsin oncall`: who is on call by each schedule at a moment, and whom each policy would tell."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from models.accounts import Account
from models.base import store
from models.directories import directory_of
from models.facts import Directory, PersonFacts, PolicyFacts, ScheduleFacts
from models.prepared import any_of
from models.schedules import Schedule
from models.teams import EscalationPolicy, Team
from schedules import coverage
from schedules.notices import recipient
from schedules.targets import Duty, is_by_turns, people_on_call
from tocsin.people import as_json_option
from tocsin.reading import CouldNotLook, Unusable, reading
from tocsin.table import as_json_text, plain, short, table

AHEAD = timedelta(days=30)
NOBODY = "NOBODY"

Told = dict[str, Any]

account_option = click.option("--account", "account_id", help="Identifier of one account; default: all.")


class WhenType(click.ParamType):
    """RFC 3339, or a date and time without an offset, which is in UTC."""

    name = "when"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        try:
            said = datetime.fromisoformat(value.strip())
            at = said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value} is no moment: say 2026-12-24T18:00:00+01:00, or 2026-12-24 18:00 (UTC)")
        if not coverage.EARLIEST <= at < coverage.LATEST:
            self.fail(f"{value} is too far away")
        return at


@click.command()
@click.option("--at", metavar="WHEN", type=WhenType(), help="A moment, in UTC unless it says; default: now.")
@click.option("--team", "team_name", metavar="NAME", help="Only the team with this name or unique_id.")
@account_option
@as_json_option
def oncall(at: datetime | None, team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """Tell who is on call by each schedule, until when, and whom each escalation policy would tell."""
    with reading():
        at = at or store().now()
        accounts = [_account(account, at, team_name) for account in accounts_named(account_id)]
    accounts = [account for account in accounts if account["teams"]]
    if not accounts:
        raise Unusable(f"no team {team_name}") if team_name else CouldNotLook("no team yet")
    if as_json:
        click.echo(as_json_text({"at": at, "accounts": accounts}))
        return
    for line in lines(accounts, at):
        click.echo(plain(line))


def accounts_named(identifier: str | None) -> list[Account]:
    """The account with this identifier, or all."""
    rows = Account.select().order_by(Account.id)
    found = list(rows.where(Account.account_identifier == identifier) if identifier else rows)
    if not found:
        raise Unusable(f"no account {identifier}") if identifier else CouldNotLook("no account yet")
    return found


def _account(account: Account, at: datetime, team_name: str | None) -> Told:
    teams = Team.select().where(Team.account == account).order_by(Team.name, Team.id)
    if team_name:
        teams = teams.where((Team.name == team_name) | (Team.unique_id == team_name))
    teams = list(teams)
    schedules, policies = (_of(table, teams) for table in (Schedule, EscalationPolicy))
    told: Told = {"account_id": account.account_identifier, "name": account.name, "teams": []}
    if teams:
        book = directory_of(teams[0], policies, (), [row.unique_id for row in schedules], at)
        duty = Duty(book, at)
        told["teams"] = [
            {
                "unique_id": team.unique_id,
                "name": team.name,
                # One may be deleted while it is read.
                "schedules": [
                    _schedule(book.schedules[row.unique_id], book, at)
                    for row in schedules
                    if row.team_id == team.id and row.unique_id in book.schedules
                ],
                "policies": [
                    _policy(book.policies[row.id], duty, at) for row in policies if row.team_id == team.id
                ],
            }
            for team in teams
        ]
    return told


def _of(table: Any, teams: Sequence[Team]) -> list[Any]:
    """What these teams have of a kind, by name."""
    rows = table.select().where(any_of(table.team, [team.id for team in teams]))
    return list(rows.order_by(table.name, table.id))


def _schedule(schedule: ScheduleFacts, book: Directory, at: datetime) -> Told:
    until = coverage.fitting(schedule, at, at + AHEAD)
    found = coverage.shifts_of(schedule, at, until, book.people)
    handoff = coverage.handoff(found, at, until)
    coming = people_on_call(schedule.unique_id, book, handoff) if handoff else []
    return {
        "unique_id": schedule.unique_id,
        "name": schedule.name,
        "time_zone": schedule.time_zone,
        "oncalls": [
            {
                **_person(book.people[held.shift.username], at),
                "by": "override" if held.shift.is_override else "layer",
                "by_name": held.shift.source.name,
                "until": held.until,
                "until_local": held.until and coverage.told_at(schedule.time_zone, held.until),
            }
            for held in coverage.held(schedule, at, found, until)
        ],
        "handoff": handoff
        and {
            "at": handoff,
            "at_local": coverage.told_at(schedule.time_zone, handoff),
            "oncalls": [_person(person, handoff) for person in coming],
        },
    }


def _policy(policy: PolicyFacts, duty: Duty, at: datetime) -> Told:
    by_step = [duty.people_of(step) for step in policy.steps]
    waits = _waits(policy, by_step)
    return {
        "unique_id": policy.unique_id,
        "name": policy.name,
        "by_turns": is_by_turns(policy),
        "steps": [
            {
                "delay": step.delay_minutes,
                "told_after": wait,
                "people": [_person(person, at) for person in people],
            }
            for step, people, wait in zip(policy.steps, by_step, waits, strict=True)
        ],
    }


def _waits(policy: PolicyFacts, by_step: Sequence[Sequence[PersonFacts]]) -> Iterator[int]:
    """After how many minutes each step is taken by now: together with an empty one before it, where the
    policy says so."""
    wait, hurry = 0, False
    for step, people in zip(policy.steps, by_step, strict=True):
        wait = wait if hurry else step.delay_minutes
        yield wait
        hurry = policy.move_to_next and not people


def _person(person: PersonFacts, at: datetime) -> Told:
    told = recipient(person, at)
    other = None if told is person else {"username": told.username, "name": told.name}
    return {"username": person.username, "name": person.name, "forwarded_to": other}


def lines(accounts: Sequence[Told], at: datetime) -> Iterator[str]:
    """What is told of accounts as lines of text, the moments in the time zones of the schedules."""
    yield f"on call at {coverage.told_at('UTC', at)}; other times are in the time zones of the schedules"
    for account in accounts:
        yield ""
        if len(accounts) > 1:
            yield f"account {short(account['name'])} ({account['account_id']})"
        rows = [row for team in account["teams"] for row in _rows(team)]
        if rows:
            yield from table([("TEAM", "SCHEDULE", "ON CALL", "UNTIL", "BY", "NEXT"), *rows])
        else:
            yield "no schedules"
        for team in account["teams"]:
            for policy in team["policies"]:
                yield ""
                yield from _policy_lines(team, policy)


def _rows(team: Told) -> Iterator[tuple[str, ...]]:
    where = short(team["name"])
    for schedule in team["schedules"]:
        name = short(schedule["name"])
        handoff = schedule["handoff"]
        coming = _coming(handoff) if handoff else "no change in sight"
        if not schedule["oncalls"]:
            until = handoff["at_local"] if handoff else "nobody in sight"
            yield where, name, NOBODY, until, "-", coming
        for held in schedule["oncalls"]:
            until = held["until_local"] or "no end in sight"
            by = f"{held['by']} {short(held['by_name'])}"
            yield where, name, _named(held), until, by, coming


def _coming(handoff: Told) -> str:
    return f"{_names(handoff['oncalls'])} from {handoff['at_local']}"


def _policy_lines(team: Told, policy: Told) -> Iterator[str]:
    yield f"{short(team['name'])}: {short(policy['name'])}"
    for place, step in enumerate(policy["steps"], start=1):
        turns = ", each incident by turns the next one's" if place == 1 and policy["by_turns"] else ""
        yield f"  step {place}, {_when(step)}{turns}: {_names(step['people'])}"
    if not any(step["people"] for step in policy["steps"]):
        none = "" if policy["steps"] else "no steps: "
        yield f"  {none}nobody is reached: the team's managers are told, or else the account's owner"


def _when(step: Told) -> str:
    """When a step is taken, which may be earlier than it says: nobody is in the one before it."""
    early = step["told_after"] != step["delay"]
    return (
        f"{_after(step['told_after'])} instead of {_after(step['delay'])}" if early else _after(step["delay"])
    )


def _after(minutes: int) -> str:
    return f"after {minutes} min" if minutes else "at once"


def _names(people: Iterable[Told]) -> str:
    return ", ".join(map(_named, people)) or NOBODY


def _named(person: Told) -> str:
    other, name = person["forwarded_to"], short(person["name"])
    return f"{name} (forwarded to {short(other['name'])})" if other else name
