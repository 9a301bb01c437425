"""The checks of `tocsin check`, and their findings."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from models.contacts.contact_codes import is_same_address, is_verified
from models.domain.enums import ServiceStatus, TargetType, Urgency
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, ScheduleOverview
from models.load import schedule_overview
from models.load.oncall_config import build_oncall_config, build_policy
from models.load.schedules import list_usernames
from models.store.prepared import in_list
from models.tables.accounts import Account, User, get_display_name
from models.tables.services import Maintenance, Service
from models.tables.teams import EscalationPolicy, Team
from models.tables.users import ContactMethod
from schedules.escalation import step_checks
from schedules.escalation.step_checks import CheckedSchedule
from schedules.oncall import checks
from schedules.oncall.checks import CoveredTime, Problem
from schedules.oncall.local_time import list_zone_warnings
from schedules.oncall.moved_handoffs import find_moved_handoffs
from schedules.oncall.schedule_shifts import Span, merge_spans, subtract_spans
from schedules.oncall.shifts import fit_end, format_local, list_joined_shifts
from web.checks import integrations, maintenance, people, rules
from web.checks.finding import TRUNCATED, Finding

Row = TypeVar("Row")

# Turns and restrictions that are read per schedule: half a second of processor time.
MAX_WORK = 50_000
# Findings that are listed per schedule, policy, person or service, so that one of them does not hide others.
MAX_PER_THING = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """What is called during long work.

    `report` gets how far it is, as a text. `go_on` is called before each piece of work, and may raise to end
    the check.
    """

    report: Callable[[str], object] = lambda text: None
    go_on: Callable[[], object] = lambda: None


QUIET = Progress()


@dataclass(frozen=True, slots=True)
class CheckScope:
    """What to check in an account between `start` and `end`.

    `checked_schedules` is by unique_id of the schedule, `names` (of people) by username. `policies` is by row
    number, with the name of the team. `covers` is the time in which a policy has a person on call, by the
    same number. `used` are the policies of services that are not disabled. `delivery_problems` are reasons
    why Tocsin cannot send messages. `unverified` are the usernames of people whose own address is not
    verified, `unjoined` those of people who have not joined, `unverified_contacts` the rows of contacts that
    get only their code. `windows` are the maintenance windows that have not ended.
    """

    account: Account
    start: datetime
    end: datetime
    overviews: Sequence[ScheduleOverview]
    checked_schedules: Mapping[str, CheckedSchedule]
    names: Mapping[str, str]
    policies: Mapping[int, tuple[str, PolicyFacts]]
    used: Collection[int]
    services: Sequence[Service]
    config: OnCallConfig
    covers: Mapping[int, CoveredTime]
    delivery_problems: Sequence[str]
    unverified: Collection[str]
    unjoined: Collection[str]
    unverified_contacts: Collection[int]
    windows: Sequence[Maintenance]
    progress: Progress


def run_checks(
    account: Account,
    start: datetime,
    end: datetime,
    delivery_problems: Sequence[str] = (),
    progress: Progress = QUIET,
) -> list[Finding]:
    """Return the findings of an account: minor ones last, then by team, subject and time.

    `delivery_problems` are the reasons why Tocsin cannot send messages.
    """
    scope = _load_scope(account, start, end, delivery_problems, progress)
    found: list[Finding] = []
    if scope is None:
        return found
    for find in CHECKS:
        progress.go_on()
        found += find(scope)
    found.sort(
        key=lambda finding: (
            finding.minor,
            finding.team,
            finding.about,
            finding.kind != TRUNCATED,
            finding.start or start,
        )
    )
    return list(_truncate(found))


def _truncate(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the first findings of each subject, and one that counts the others."""
    for _, group in groupby(found, key=lambda finding: (finding.minor, finding.team, finding.about)):
        about = list(group)
        yield from about[:MAX_PER_THING]
        if hidden := Counter(finding.kind for finding in about[MAX_PER_THING:]):
            first, more = about[0], hidden.total()
            kinds = ", ".join(f"{count:,} of kind {kind}" for kind, count in hidden.items())
            what = f"{first.about}: {more:,} more like these: {kinds}"
            yield Finding(TRUNCATED, first.team, first.about, what, first.minor, times=more, hidden=hidden)


def _load_scope(
    account: Account,
    start: datetime,
    end: datetime,
    delivery_problems: Sequence[str],
    progress: Progress,
) -> CheckScope | None:
    teams = {team.id: team for team in Team.select().where(Team.account == account).order_by(Team.id)}
    if not teams:
        return None
    known = schedule_overview.load_overviews(
        schedule_overview.select_schedules(Team.account == account), start
    )
    of_teams = EscalationPolicy.select().where(in_list(EscalationPolicy.team, teams))
    rows = list(of_teams.order_by(EscalationPolicy.id))
    policies = {row.id: (teams[row.team_id].name, build_policy(row)) for row in rows}
    usernames = {name for overview in known for name in list_usernames(overview.schedule)}
    names = {
        name: get_display_name(user)
        for name, user in schedule_overview.find_members(account.id, usernames).items()
    }
    services = list(Service.select(Service, Team).join(Team).where(Team.account == account))
    active = [service for service in services if service.status != ServiceStatus.DISABLED]
    config = build_oncall_config(next(iter(teams.values())), rows, at=start)
    checked_schedules = _check_schedules(known, start, end, names, progress)
    progress.go_on()
    return CheckScope(
        account,
        start,
        end,
        known,
        checked_schedules,
        names,
        policies,
        policies.keys() & {service.escalation_policy_id for service in active},
        services,
        config,
        {
            row: checks.find_covered_time(policy, config, checked_schedules, start, end)
            for row, (_, policy) in _each(policies.items(), progress)
        },
        delivery_problems,
        *_find_unverified(account),
        _find_unverified_contacts(account),
        _load_windows(account, start),
        progress,
    )


def _each(rows: Iterable[Row], progress: Progress) -> Iterator[Row]:
    """Yield these rows. Each is a piece of work."""
    for row in rows:
        progress.go_on()
        yield row


def _find_unverified(account: Account) -> tuple[set[str], set[str]]:
    """Return the usernames of people whose own address is not verified, and of those who have not joined."""
    users = list(User.select().where(User.account == account, User.removed_at.is_null()))
    unverified = [user for user in users if not is_same_address(user.verified_email, user.email)]
    unjoined = {user.username for user in unverified if not user.is_verified}
    return {user.username for user in unverified}, unjoined


def _find_unverified_contacts(account: Account) -> set[int]:
    contacts = ContactMethod.select(ContactMethod, User).join(User).where(User.account == account)
    return {contact.id for contact in contacts if not is_verified(contact, contact.user)}


def _load_windows(account: Account, since: datetime) -> list[Maintenance]:
    rows = Maintenance.select(Maintenance, Team).join(Team).where(Team.account == account)
    may_be_active = (Maintenance.end_time > since) | (Maintenance.repeat_interval > 0)
    return list(rows.where(may_be_active).order_by(Maintenance.id))


def _check_schedules(
    known: Sequence[ScheduleOverview],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
    progress: Progress,
) -> dict[str, CheckedSchedule]:
    """Return the shifts and the end of the checked time of each schedule."""
    found: dict[str, CheckedSchedule] = {}
    for place, overview in enumerate(_each(known, progress)):
        progress.report(f"{place:,} of {len(known):,} schedules ...")
        schedule = overview.schedule
        until = fit_end(schedule, start, end, MAX_WORK)
        shifts = list_joined_shifts(schedule, start, until, names)
        found[schedule.unique_id] = schedule, shifts, until
    return found


def find_gaps(scope: CheckScope) -> Iterator[Finding]:
    """Find times in which a policy of a service would notify nobody: no step has a person on call."""
    for row in _each(scope.used, scope.progress):
        cover = scope.covers[row]
        uncovered = _find_uncovered(scope, [cover])
        if uncovered and uncovered != [(scope.start, cover.until)]:
            for spans in checks.group_spans(uncovered):
                yield _build_policy_finding(
                    scope,
                    row,
                    checks.build_policy_gap(scope.policies[row][1], cover.schedules, spans, cover.until),
                )


def _find_uncovered(scope: CheckScope, covers: Sequence[CoveredTime]) -> list[Span]:
    """Return the time that none of these covers, up to the earliest end of a checked time."""
    until = min((cover.until for cover in covers), default=scope.end)
    return list(
        subtract_spans((scope.start, until), merge_spans(span for cover in covers for span in cover.spans))
    )


def _build_policy_finding(scope: CheckScope, row: int, problem: Problem, *, minor: bool = False) -> Finding:
    team, policy = scope.policies[row]
    about = f"policy {policy.name}"
    return Finding(problem.kind, team, about, problem.what, minor, problem.start, problem.end, problem.times)


def find_repeated_people(scope: CheckScope) -> Iterator[Finding]:
    """Find times in which a step of a policy names only people of the step before."""
    for row, (_, policy) in _each(scope.policies.items(), scope.progress):
        for problem in step_checks.find_repeated_people(
            policy, scope.config, scope.checked_schedules, scope.start, scope.end, scope.progress.go_on
        ):
            yield _build_policy_finding(scope, row, problem, minor=row not in scope.used)


def find_unreached_policies(scope: CheckScope) -> Iterator[Finding]:
    """Find policies that would notify nobody in the whole checked time."""
    for row, (team, policy) in _each(scope.policies.items(), scope.progress):
        cover = scope.covers[row]
        if not policy.steps or _find_uncovered(scope, [cover]) == [(scope.start, cover.until)]:
            unused = "" if row in scope.used else "; no service uses it"
            zone = cover.schedules[0].time_zone if cover.schedules else "UTC"
            until = format_local(zone, cover.until)
            what = f"nobody is on call in any step of the policy {policy.name} until at least {until}{unused}"
            kind, about = "reaches_nobody", f"policy {policy.name}"
            yield Finding(kind, team, about, what, bool(unused), scope.start, cover.until)


def find_schedule_gaps(scope: CheckScope) -> Iterator[Finding]:
    """Find times in which nobody is on call in a schedule that no policy of a service names.

    For all other schedules, find_gaps checks the policies that use them.
    """
    policies_by_schedule: dict[str, list[int]] = {}
    for row, (_, policy) in scope.policies.items():
        for target in {target for step in policy.steps for target in step.targets}:
            if target.kind is TargetType.SCHEDULE:
                policies_by_schedule.setdefault(target.name, []).append(row)
    for overview in _each(scope.overviews, scope.progress):
        rows = policies_by_schedule.get(overview.schedule.unique_id, [])
        if not any(row in scope.used for row in rows):
            _, shifts, until = scope.checked_schedules[overview.schedule.unique_id]
            own = CoveredTime(list(checks.list_spans(shifts)), until)
            for spans in checks.group_spans(
                _find_uncovered(scope, [own, *(scope.covers[row] for row in rows)])
            ):
                yield _build_schedule_finding(
                    overview, checks.build_schedule_gap(overview, spans, until), minor=True
                )


def find_outsiders(scope: CheckScope) -> Iterator[Finding]:
    """Find overrides and turns of people who are not in the team of the schedule."""
    for overview in _each(scope.overviews, scope.progress):
        for problem in checks.find_outsiders(overview, scope.start, scope.end, scope.names):
            yield _build_schedule_finding(overview, problem, minor=problem.minor or not overview.is_used)


def find_double_shifts(scope: CheckScope) -> Iterator[Finding]:
    """Find people who are on call in two schedules at the same time."""
    by_row = {overview.schedule.row: overview for overview in scope.overviews}
    shifts_by_schedule = [(schedule, shifts) for schedule, shifts, _ in scope.checked_schedules.values()]
    used = {row for row, overview in by_row.items() if overview.is_used}
    for problem in checks.group_double_shifts(
        shifts_by_schedule, scope.start, scope.end, scope.names, used, scope.progress.go_on
    ):
        overview = by_row[problem.schedules[0].row]
        yield _build_schedule_finding(overview, problem, minor=problem.minor)


def find_handoffs_in_elapsed_time(scope: CheckScope) -> Iterator[Finding]:
    """Find layers whose handoffs move when clocks change."""
    for overview in _each(scope.overviews, scope.progress):
        schedule, _, until = scope.checked_schedules[overview.schedule.unique_id]
        for problem in find_moved_handoffs(schedule, scope.start, until):
            yield _build_schedule_finding(overview, problem, minor=problem.minor or not overview.is_used)


def _build_schedule_finding(overview: ScheduleOverview, problem: Problem, *, minor: bool) -> Finding:
    about = f"schedule {overview.schedule.name}"
    return Finding(
        problem.kind, overview.team, about, problem.what, minor, problem.start, problem.end, problem.times
    )


def find_truncated(scope: CheckScope) -> Iterator[Finding]:
    """Find schedules that are too large to check completely.

    The finding is minor if the check of each policy that a service uses is complete nevertheless.
    """
    needed = {
        schedule.row
        for row in scope.used
        if scope.covers[row].until < scope.end
        and list(subtract_spans((scope.start, scope.end), scope.covers[row].spans))
        for schedule in scope.covers[row].schedules
    }
    for overview in _each(scope.overviews, scope.progress):
        schedule, _, until = scope.checked_schedules[overview.schedule.unique_id]
        if until < scope.end:
            until_text = format_local(schedule.time_zone, until)
            what = f"{schedule.name} is too large to check completely: it is checked until {until_text}"
            about, minor = f"schedule {schedule.name}", schedule.row not in needed
            yield Finding(TRUNCATED, overview.team, about, what, minor, until, scope.end)


def find_unknown_zones(scope: CheckScope) -> Iterator[Finding]:
    """Find schedules and maintenance windows in a time zone that this host does not know."""
    for overview in _each(scope.overviews, scope.progress):
        schedule = overview.schedule
        for what in list_zone_warnings(schedule.name, schedule.time_zone):
            minor = not overview.is_used
            yield Finding("unknown_zone", overview.team, f"schedule {schedule.name}", what, minor)
    for window in scope.windows:
        name = f"maintenance {window.name or window.unique_id}"
        for what in list_zone_warnings(f"the {name}", window.time_zone):
            yield Finding("unknown_zone", window.team.name, name, what)


def find_missing_rules(scope: CheckScope) -> Iterator[Finding]:
    """Find people in policies and their schedules who have no usable notification rule.

    A person without a rule for low urgency only is notified at the own e-mail address (contract 4.4, row 6),
    and may want that. It is a minor finding if this address is not verified, since it then gets few messages.
    People who have not joined are one finding.
    """
    seen: set[str] = set()
    unjoined: dict[str, bool] = {}
    for team, policy in _each(scope.policies.values(), scope.progress):
        for name in sorted(_list_named(policy, scope.config) - seen):
            seen.add(name)
            person = scope.config.people.get(name)
            missing = [] if person is None else _list_missing_urgencies(person, scope.unverified_contacts)
            is_minor = missing == [Urgency.LOW]
            if person is None or not missing or (is_minor and name not in scope.unverified):
                continue
            if name in scope.unjoined:
                unjoined[person.name] = is_minor
                continue
            urgencies = " and ".join(urgency.name.lower() for urgency in missing)
            rule = f"no usable notification rule for {urgencies} urgency"
            what = f"{person.name} has {rule}, and is notified at the user's own e-mail address only"
            if name in scope.unverified:
                what = f"{what}, which is not verified"
            yield Finding("no_rule", team, f"person {person.name}", what, is_minor)
    if unjoined:
        yield people.build_unjoined(list(unjoined), minor=all(unjoined.values()))


def _list_named(policy: PolicyFacts, config: OnCallConfig) -> set[str]:
    named: set[str] = set()
    for target in (target for step in policy.steps for target in step.targets):
        if target.kind is TargetType.USER:
            named.add(target.name)
        elif target.name in config.schedules:
            named |= list_usernames(config.schedules[target.name])
    return named


def _list_missing_urgencies(person: PersonFacts, unverified_contacts: Collection[int]) -> list[Urgency]:
    """Return the urgencies for which a person has no rule with a verified contact."""
    have = {rule.urgency for rule in person.rules if rule.contact not in unverified_contacts}
    return [urgency for urgency in Urgency if urgency not in have]


def find_missing_policies(scope: CheckScope) -> Iterator[Finding]:
    """Find services without an escalation policy."""
    for service in scope.services:
        if service.escalation_policy_id is None and service.status != ServiceStatus.DISABLED:
            what = f"the service {service.name} has no escalation policy"
            yield Finding("no_policy", service.team.name, f"service {service.name}", what)


def find_steps_without_target(scope: CheckScope) -> Iterator[Finding]:
    """Find steps of policies that name nobody, for example after their only target was removed."""
    for row, (team, policy) in scope.policies.items():
        for number, step in enumerate(policy.steps, start=1):
            if not step.targets:
                what = f"step {number} of the policy {policy.name} has no target, so it notifies nobody"
                about = f"policy {policy.name}"
                yield Finding("no_target", team, about, what, minor=row not in scope.used)


def find_services_without_name(scope: CheckScope) -> Iterator[Finding]:
    """Find services without a name: messages about their incidents do not say what is wrong."""
    for service in scope.services:
        if not service.name.strip():
            what = f"the service {service.unique_id} has no name"
            yield Finding("no_name", service.team.name, f"service {service.unique_id}", what, minor=True)


def find_missing_channel(scope: CheckScope) -> Iterator[Finding]:
    """Find settings with which Tocsin cannot send messages."""
    for problem in scope.delivery_problems:
        yield Finding("no_channel", "", "settings", problem)


CHECKS: tuple[Callable[[CheckScope], Iterator[Finding]], ...] = (
    find_gaps,
    find_repeated_people,
    find_unreached_policies,
    find_schedule_gaps,
    find_outsiders,
    find_double_shifts,
    find_handoffs_in_elapsed_time,
    find_truncated,
    find_unknown_zones,
    find_missing_rules,
    find_missing_policies,
    find_steps_without_target,
    find_services_without_name,
    find_missing_channel,
    lambda scope: people.find_forwarded_again(scope.account, scope.start, scope.end, scope.progress.go_on),
    lambda scope: maintenance.find_endless(scope.services, scope.windows, scope.start),
    lambda scope: rules.find_unknown_fields(scope.account, scope.progress.go_on),
    lambda scope: rules.find_routers_without_catch_all(scope.account, scope.progress.go_on),
    lambda scope: integrations.find_unheard_integrations(scope.account, scope.start, scope.progress.go_on),
    lambda scope: integrations.find_unread_integrations(scope.account, scope.start, scope.progress.go_on),
    lambda scope: integrations.find_silent_integrations(scope.account, scope.start, scope.progress.go_on),
)
