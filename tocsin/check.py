"""`tocsin check`: who would not be told, found before an incident finds it."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import click
import orjson

from models import rotas
from models.accounts import Account, display_name
from models.base import store
from models.directories import directory_of, policy_facts
from models.enums import ServiceStatus, TargetType, Urgency
from models.facts import Directory, PersonFacts, PolicyFacts, RotaFacts
from models.oncall import usernames_of
from models.prepared import any_of
from models.services import Service
from models.teams import EscalationPolicy, Team
from schedules import coverage
from schedules.coverage import Problem
from schedules.oncall import Shift
from schedules.targets import first_people
from tocsin.oncall import account_option, accounts_named, plain, reading
from tocsin.people import as_json_option

# Work that takes longer says how far it has come, that often.
TELL_EVERY_S = 2.0

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to check in an account, between two moments: the schedules with their joined `shifts` by
    unique_id, the `names` of the people in these, and the policies with the names of their teams."""

    start: datetime
    end: datetime
    rotas: Sequence[RotaFacts]
    shifts: Mapping[str, Sequence[Shift]]
    names: Mapping[str, str]
    policies: Sequence[tuple[str, PolicyFacts]]
    services: Sequence[Service]
    directory: Directory


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found about something of a team: `minor` as long as nothing uses that. Without moments,
    it is so now."""

    kind: str
    team: str
    about: str
    what: str
    minor: bool = False
    start: datetime | None = None
    end: datetime | None = None


@click.command()
@click.option(
    "--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How far to look ahead."
)
@account_option
@as_json_option
def check(days: int, account_id: str | None, as_json: bool) -> None:
    """Find times in which nobody is on call, conflicts, and policies and people that cannot be reached.

    Exit code 1 when there are any.
    """
    with reading():
        start = store().now()
        found = [
            (account, finding)
            for account in accounts_named(account_id)
            for finding in findings(account, start, start + timedelta(days=days))
        ]
    if as_json:
        told = {"count": len(found), "problems": [_told(account, finding) for account, finding in found]}
        click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z))
    else:
        several = len({account.id for account, _ in found}) > 1
        for account, finding in found:
            where = f"{account.name} / {finding.team}" if several else finding.team
            click.echo(plain(f"{where}: {finding.what}"))
        if not found:
            click.echo("no problems")
    sys.exit(1 if found else 0)


def findings(account: Account, start: datetime, end: datetime) -> list[Finding]:
    """What is wrong in an account: what is used first, then by team, by what it is about, and by time."""
    look = _look(account, start, end)
    found = [finding for checked in CHECKS for finding in checked(look)] if look else []
    return sorted(found, key=lambda one: (one.minor, one.team, one.about, one.start or start))


def _look(account: Account, start: datetime, end: datetime) -> Look | None:
    teams = {team.id: team for team in Team.select().where(Team.account == account).order_by(Team.id)}
    if not teams:
        return None
    known = rotas.rotas_of(rotas.with_teams(Team.account == account), start)
    of_teams = EscalationPolicy.select().where(any_of(EscalationPolicy.team, teams))
    policies = list(of_teams.order_by(EscalationPolicy.id))
    named = {name for rota in known for name in usernames_of(rota.schedule)}
    names = {name: display_name(user) for name, user in rotas.present(account.id, named).items()}
    return Look(
        start,
        end,
        known,
        _shifts(known, start, end, names),
        names,
        [(teams[row.team_id].name, policy_facts(row)) for row in policies],
        list(Service.select(Service, Team).join(Team).where(Team.account == account)),
        directory_of(next(iter(teams.values())), policies, at=start),
    )


def _shifts(
    known: Sequence[RotaFacts], start: datetime, end: datetime, names: Mapping[str, str]
) -> dict[str, list[Shift]]:
    """The shifts of each schedule, by its unique_id; long work says how far it has come."""
    found = {}
    tell_at = time.monotonic() + TELL_EVERY_S
    for place, rota in enumerate(known):
        if time.monotonic() >= tell_at:
            click.echo(f"{place:,} of {len(known):,} schedules ...", err=True)
            tell_at = time.monotonic() + TELL_EVERY_S
        found[rota.schedule.unique_id] = coverage.shifts_of(rota.schedule, start, end, names)
    return found


def gaps(look: Look) -> Iterator[Finding]:
    """Times in which nobody is on call."""
    for rota in look.rotas:
        found = look.shifts[rota.schedule.unique_id]
        for problem in coverage.gaps(rota, found, look.start, look.end):
            yield _of_schedule(rota, problem)


def strangers(look: Look) -> Iterator[Finding]:
    """Overrides by people who are not in the schedule's team."""
    for rota in look.rotas:
        for problem in coverage.strangers(rota, look.start, look.end, look.names):
            yield _of_schedule(rota, problem)


def twice(look: Look) -> Iterator[Finding]:
    """People who are on call twice at once."""
    by_schedule = {rota.schedule.unique_id: rota for rota in look.rotas}
    spread = [(rota.schedule, look.shifts[rota.schedule.unique_id]) for rota in look.rotas]
    overlaps = coverage.twice(spread, look.start, look.end, look.names)
    for problem in islice(overlaps, coverage.MOST_PROBLEMS):
        yield _of_schedule(by_schedule[problem.schedules[0].unique_id], problem)
    if next(overlaps, None):
        click.echo(f"there are more than {coverage.MOST_PROBLEMS:,} conflicts: these are the first", err=True)


def _of_schedule(rota: RotaFacts, problem: Problem) -> Finding:
    about = f"schedule {rota.schedule.name}"
    return Finding(problem.kind, rota.team, about, problem.what, not rota.is_used, problem.start, problem.end)


def unreached(look: Look) -> Iterator[Finding]:
    """Policies whose steps name nobody by now."""
    used = {service.escalation_policy_id for service in look.services}
    for team, policy in look.policies:
        if not first_people(policy, look.directory, look.start):
            unused = "" if policy.row in used else "; no service uses it"
            what = f"no step of the policy {policy.name} names anybody now{unused}"
            yield Finding("reaches_nobody", team, f"policy {policy.name}", what, bool(unused))


def without_rules(look: Look) -> Iterator[Finding]:
    """People whom policies may name, and who have no notification rule that can be used."""
    seen: set[str] = set()
    for team, policy in look.policies:
        for name in sorted(_named_by(policy, look.directory) - seen):
            seen.add(name)
            person = look.directory.people.get(name)
            lacking = person and _lacking(person)
            if person and lacking:
                rule = f"no usable notification rule for {lacking} urgency"
                what = f"{person.name} has {rule}, and is told at the account's address only"
                yield Finding("no_rule", team, f"person {person.name}", what)


def _named_by(policy: PolicyFacts, directory: Directory) -> set[str]:
    named: set[str] = set()
    for target in (target for step in policy.steps for target in step.targets):
        if target.kind is TargetType.USER:
            named.add(target.name)
        elif target.name in directory.schedules:
            named |= usernames_of(directory.schedules[target.name])
    return named


def _lacking(person: PersonFacts) -> str:
    """The urgencies for which somebody has no rule, in words."""
    have = {rule.urgency for rule in person.rules}
    return " and ".join(urgency.name.lower() for urgency in Urgency if urgency not in have)


def without_policy(look: Look) -> Iterator[Finding]:
    """Services whose incidents no policy takes to anybody."""
    for service in look.services:
        if service.escalation_policy_id is None and service.status != ServiceStatus.DISABLED:
            what = f"the service {service.name} has no escalation policy"
            yield Finding("no_policy", service.team.name, f"service {service.name}", what)


CHECKS: tuple[Callable[[Look], Iterator[Finding]], ...] = (
    gaps,
    strangers,
    twice,
    unreached,
    without_rules,
    without_policy,
)


def _told(account: Account, finding: Finding) -> Told:
    """For machines."""
    return {
        "account_id": account.account_identifier,
        "kind": finding.kind,
        "team": finding.team,
        "about": finding.about,
        "what": finding.what,
        "minor": finding.minor,
        "start_time": finding.start,
        "end_time": finding.end,
    }
