"""`tocsin check`: who would not be told, found before an incident finds it."""

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import click

from models import rotas
from models.accounts import Account, display_name
from models.base import store
from models.directories import directory_of, policy_facts
from models.enums import ServiceStatus, TargetType, Urgency
from models.facts import Directory, PersonFacts, PolicyFacts, RotaFacts, ScheduleFacts
from models.oncall import usernames_of
from models.prepared import any_of
from models.services import Service
from models.teams import EscalationPolicy, Team
from schedules import coverage, problems
from schedules.oncall import Shift, Span, union, without
from schedules.problems import Cover, Problem
from tocsin.oncall import account_option, accounts_named
from tocsin.people import as_json_option
from tocsin.reading import FOUND, reading
from tocsin.settings import unsendable
from tocsin.table import as_json_text, plain

# Work that takes longer says how far it has come, that often.
TELL_EVERY_S = 2.0
# Turns and restrictions that are looked at of each schedule: half a second of a processor's time.
MOST_WORK = 50_000
# What is told about one thing, so that nobody's troubles hide another's.
MOST_LINES = 20
# The kind of what says that there is more than is told.
CUT = "cut"
# Instead of a team.
EVERYBODY = "everybody"

Told = dict[str, Any]
# A schedule with its joined shifts, and until when it was looked at.
Seen = tuple[ScheduleFacts, Sequence[Shift], datetime]


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to check in an account, between two moments: the schedules, and what is known of each by
    unique_id; the `names` of the people in these; the policies by row, with the names of their teams, and
    when they name anybody (`covers`); `used` are the policies of services; `unsendable` is why nobody can be
    told at all."""

    start: datetime
    end: datetime
    rotas: Sequence[RotaFacts]
    looked_at: Mapping[str, Seen]
    names: Mapping[str, str]
    policies: Mapping[int, tuple[str, PolicyFacts]]
    used: Collection[int]
    services: Sequence[Service]
    directory: Directory
    covers: Mapping[int, Cover]
    unsendable: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found about something of a team, or of all ("" then); nobody need do anything by now about
    what is `minor`. It is told with moments where it is about a time, and how many `times` it is then; else,
    it is so now."""

    kind: str
    team: str
    about: str
    what: str
    minor: bool = False
    start: datetime | None = None
    end: datetime | None = None
    times: int = 1


@click.command()
@click.option(
    "--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How far to look ahead."
)
@account_option
@as_json_option
def check(days: int, account_id: str | None, as_json: bool) -> None:
    """Find times in which a policy reaches nobody, conflicts, and people that cannot be reached.

    Exit code 1 when there are any, but for what is minor; 2 when what is asked cannot be used, 3 when the
    database cannot be read.
    """
    with reading() as settings:
        start = store().now().replace(second=0, microsecond=0)
        end = start + timedelta(days=days)
        found = [
            (account, finding)
            for account in accounts_named(account_id)
            for finding in findings(account, start, end, unsendable(settings))
        ]
    minor = sum(finding.minor for _, finding in found)
    count = len(found) - minor
    if as_json:
        told = {
            "start_time": start,
            "end_time": end,
            "count": count,
            "minor_count": minor,
            "is_cut": any(finding.kind == CUT for _, finding in found),
            "problems": [_told(account, finding) for account, finding in found],
        }
        click.echo(as_json_text(told))
    else:
        for line in _lines(found):
            click.echo(plain(line))
        counted = f"{count:,} problem{'s' * (count != 1)}" if count else "no problems"
        besides = f" and {minor:,} minor" if minor else ""
        click.echo(f"{counted}{besides} until {coverage.told_at('UTC', end)}")
    sys.exit(FOUND if count else 0)


def _lines(found: Sequence[tuple[Account, Finding]]) -> Iterator[str]:
    several = len({account.id for account, _ in found}) > 1
    for account, finding in found:
        team = finding.team or EVERYBODY
        where = f"{account.name} / {team}" if several else team
        yield f"{'minor: ' if finding.minor else ''}{where}: {finding.what}"


def findings(account: Account, start: datetime, end: datetime, problem: str | None = None) -> list[Finding]:
    """What is wrong in an account: what is minor last, then by team, by what it is about, and by time;
    `problem` is why nobody can be told at all."""
    look = _look(account, start, end, problem)
    found = [finding for checked in CHECKS for finding in checked(look)] if look else []
    found.sort(key=lambda one: (one.minor, one.team, one.about, one.kind != CUT, one.start or start))
    return list(_cut(found))


def _cut(found: Sequence[Finding]) -> Iterator[Finding]:
    """The first about each thing, and how many more there are."""
    for _, group in groupby(found, key=lambda one: (one.minor, one.team, one.about)):
        about = list(group)
        yield from about[:MOST_LINES]
        more = len(about) - MOST_LINES
        if more > 0:
            first = about[0]
            yield Finding(
                CUT, first.team, first.about, f"{first.about}: {more:,} more like these", first.minor
            )


def _look(account: Account, start: datetime, end: datetime, problem: str | None) -> Look | None:
    teams = {team.id: team for team in Team.select().where(Team.account == account).order_by(Team.id)}
    if not teams:
        return None
    known = rotas.rotas_of(rotas.with_teams(Team.account == account), start)
    of_teams = EscalationPolicy.select().where(any_of(EscalationPolicy.team, teams))
    rows = list(of_teams.order_by(EscalationPolicy.id))
    policies = {row.id: (teams[row.team_id].name, policy_facts(row)) for row in rows}
    named = {name for rota in known for name in usernames_of(rota.schedule)}
    names = {name: display_name(user) for name, user in rotas.present(account.id, named).items()}
    services = list(Service.select(Service, Team).join(Team).where(Team.account == account))
    active = [service for service in services if service.status != ServiceStatus.DISABLED]
    directory = directory_of(next(iter(teams.values())), rows, at=start)
    looked_at = _looked_at(known, start, end, names)
    return Look(
        start,
        end,
        known,
        looked_at,
        names,
        policies,
        policies.keys() & {service.escalation_policy_id for service in active},
        services,
        directory,
        {
            row: problems.cover(policy, directory, looked_at, start, end)
            for row, (_, policy) in policies.items()
        },
        problem,
    )


def _looked_at(
    known: Sequence[RotaFacts], start: datetime, end: datetime, names: Mapping[str, str]
) -> dict[str, Seen]:
    """Each schedule with its shifts and until when it was looked at; long work says how far it has come."""
    found: dict[str, Seen] = {}
    tell_at = time.monotonic() + TELL_EVERY_S
    for place, rota in enumerate(known):
        if time.monotonic() >= tell_at:
            click.echo(f"{place:,} of {len(known):,} schedules ...", err=True)
            tell_at = time.monotonic() + TELL_EVERY_S
        schedule = rota.schedule
        until = coverage.fitting(schedule, start, end, MOST_WORK)
        shifts = coverage.shifts_of(schedule, start, until, names)
        found[schedule.unique_id] = schedule, shifts, until
    return found


def gaps(look: Look) -> Iterator[Finding]:
    """Times in which a policy of a service names nobody, whatever the step."""
    for row in look.used:
        cover = look.covers[row]
        left = _left(look, [cover])
        if left and left != [(look.start, cover.until)]:
            for spans in problems.in_few(left):
                yield _of_policy(
                    look,
                    row,
                    problems.gap_of_policy(look.policies[row][1], cover.schedules, spans, cover.until),
                )


def _left(look: Look, covers: Sequence[Cover]) -> list[Span]:
    """What none of these covers, of the time that is known of all of them."""
    until = min((cover.until for cover in covers), default=look.end)
    return list(without((look.start, until), union(span for cover in covers for span in cover.spans)))


def _of_policy(look: Look, row: int, problem: Problem) -> Finding:
    team, policy = look.policies[row]
    about = f"policy {policy.name}"
    return Finding(problem.kind, team, about, problem.what, False, problem.start, problem.end, problem.times)


def unreached(look: Look) -> Iterator[Finding]:
    """Policies that name nobody in all of the time."""
    for row, (team, policy) in look.policies.items():
        cover = look.covers[row]
        if not policy.steps or _left(look, [cover]) == [(look.start, cover.until)]:
            unused = "" if row in look.used else "; no service uses it"
            zone = cover.schedules[0].time_zone if cover.schedules else "UTC"
            until = coverage.told_at(zone, cover.until)
            what = f"no step of the policy {policy.name} names anybody until at least {until}{unused}"
            kind, about = "reaches_nobody", f"policy {policy.name}"
            yield Finding(kind, team, about, what, bool(unused), look.start, cover.until)


def gaps_of_schedules(look: Look) -> Iterator[Finding]:
    """Times in which nobody is on call by a schedule that no service's policy names. Of all others, what
    counts is whether their policies name anybody."""
    naming: dict[str, list[int]] = {}
    for row, (_, policy) in look.policies.items():
        for target in {target for step in policy.steps for target in step.targets}:
            if target.kind is TargetType.SCHEDULE:
                naming.setdefault(target.name, []).append(row)
    for rota in look.rotas:
        rows = naming.get(rota.schedule.unique_id, [])
        if not any(row in look.used for row in rows):
            _, shifts, until = look.looked_at[rota.schedule.unique_id]
            own = Cover(list(problems.spans_of(shifts)), until)
            for spans in problems.in_few(_left(look, [own, *(look.covers[row] for row in rows)])):
                yield _of_schedule(rota, problems.gap_of_schedule(rota, spans, until), minor=True)


def strangers(look: Look) -> Iterator[Finding]:
    """Overrides by people who are not in the schedule's team, and turns."""
    for rota in look.rotas:
        for problem in problems.strangers(rota, look.start, look.end, look.names):
            yield _of_schedule(rota, problem, minor=problem.minor or not rota.is_used)


def twice(look: Look) -> Iterator[Finding]:
    """People who are on call twice at once."""
    by_row = {rota.schedule.row: rota for rota in look.rotas}
    spread = [(schedule, shifts) for schedule, shifts, _ in look.looked_at.values()]
    for problem in problems.folded_twice(spread, look.start, look.end, look.names):
        rota = by_row[problem.schedules[0].row]
        # By a draft nobody is paged.
        minor = not all(by_row[schedule.row].is_used for schedule in problem.schedules)
        yield _of_schedule(rota, problem, minor=minor)


def _of_schedule(rota: RotaFacts, problem: Problem, *, minor: bool) -> Finding:
    about = f"schedule {rota.schedule.name}"
    return Finding(
        problem.kind, rota.team, about, problem.what, minor, problem.start, problem.end, problem.times
    )


def unknown(look: Look) -> Iterator[Finding]:
    """Schedules in which there is too much to look at all of it: minor where that leaves no policy of a
    service unknown."""
    unsure = {
        schedule.row
        for row in look.used
        if look.covers[row].until < look.end and list(without((look.start, look.end), look.covers[row].spans))
        for schedule in look.covers[row].schedules
    }
    for rota in look.rotas:
        schedule, _, until = look.looked_at[rota.schedule.unique_id]
        if until < look.end:
            told = coverage.told_at(schedule.time_zone, until)
            what = f"there is too much in {schedule.name} to look at: it is known until {told} only"
            about, minor = f"schedule {schedule.name}", schedule.row not in unsure
            yield Finding(CUT, rota.team, about, what, minor, until, look.end)


def without_rules(look: Look) -> Iterator[Finding]:
    """People whom policies may name, and who have no notification rule that can be used."""
    seen: set[str] = set()
    for team, policy in look.policies.values():
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


def without_channel(look: Look) -> Iterator[Finding]:
    """Settings by which nobody can be told."""
    if look.unsendable:
        yield Finding("no_channel", "", "settings", look.unsendable)


CHECKS: tuple[Callable[[Look], Iterator[Finding]], ...] = (
    gaps,
    unreached,
    gaps_of_schedules,
    strangers,
    twice,
    unknown,
    without_rules,
    without_policy,
    without_channel,
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
        "times": finding.times,
    }
