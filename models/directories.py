"""Policies and people as decisions are given to know them: from rows to a Directory.

To be called inside a write transaction when something will be decided upon it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from models.accounts import User, display_name
from models.base import store
from models.enums import DELIVERABLE, AccountRole, AssigneeStrategy, SlaClock, TargetType, TeamRole, Urgency
from models.facts import (
    Directory,
    ForwardingFacts,
    PersonFacts,
    PolicyFacts,
    RuleFacts,
    SlaEscalationFacts,
    SlaFacts,
    StepFacts,
    StepTarget,
)
from models.oncall import recently, schedules_named, usernames_of
from models.prepared import Prepared, among, any_of
from models.teams import EscalationPolicy, Sla, Team, TeamMember
from models.users import ContactMethod, ForwardingRule, NotificationRule


def directory(
    team: Team, policies: Collection[int], at: datetime | None = None, slas: Collection[int] = ()
) -> Directory:
    """Policies and SLAs by row, everybody they name, the team's managers and the account's owner.

    Removed members are not in it: a step that names only them has nobody. It is for decisions about this
    moment (None: now) and later ones: overrides and forwarding that were long over then are not in it either.
    """
    rows = list(EscalationPolicy.select().where(any_of(EscalationPolicy.id, policies))) if policies else []
    return directory_of(team, rows, at=at, slas=_slas(slas))


def directory_of(
    team: Team,
    rows: Iterable[EscalationPolicy],
    usernames: Collection[str] = (),
    schedules: Collection[str] = (),
    at: datetime | None = None,
    slas: Iterable[Sla] = (),
) -> Directory:
    """The same of policies and SLAs that are read already, with more people and schedules, as they are
    named."""
    promised = {row.id: sla_facts(row) for row in slas if row.is_active}
    policies = {row.id: policy_facts(row) for row in rows}
    targets = (target for policy in policies.values() for step in policy.steps for target in step.targets)
    named: dict[TargetType, set[str]] = {kind: set() for kind in TargetType}
    for target in targets:
        named[target.kind].add(target.name)
    found = schedules_named(team.account_id, named[TargetType.SCHEDULE].union(schedules), at)
    responders = (each.usernames for sla in promised.values() for each in sla.escalations)
    wanted = named[TargetType.USER].union(usernames, *map(usernames_of, found.values()), *responders)
    managers = (
        TeamMember.select(TeamMember.user)
        .where(TeamMember.team == team, TeamMember.role == TeamRole.MANAGER)
        .order_by(TeamMember.joining_date, TeamMember.id)
    )
    manager_rows = [row.user_id for row in managers]
    users = list(
        User.select().where(
            User.account == team.account_id,
            User.removed_at.is_null(),
            any_of(User.username, wanted) | any_of(User.id, manager_rows) | (User.role == AccountRole.OWNER),
        )
    )
    names = {user.id: user.username for user in users}
    owner = next((user.username for user in users if user.role == AccountRole.OWNER), None)
    return Directory(
        policies=policies,
        people=_people(users, at),
        schedules=found,
        managers=tuple(names[row] for row in manager_rows if row in names),
        owner=owner,
        slas=promised,
    )


def _slas(rows: Collection[int]) -> list[Sla]:
    return list(Sla.select().where(any_of(Sla.id, rows))) if rows else []


def promises(slas: Collection[int]) -> Directory:
    """What these SLAs (by row) promise, and nobody: to plan, not to tell."""
    return Directory(slas={row.id: sla_facts(row) for row in _slas(slas) if row.is_active})


_TURNS = Prepared(
    lambda: EscalationPolicy.select(EscalationPolicy.id, EscalationPolicy.turn).where(
        among(EscalationPolicy.id, "policies")
    )
)


def turns_of(directory: Directory) -> dict[int, int]:
    """Whose turn it is by those policies that assign by turns, as it was last committed."""
    rows = [policy.row for policy in directory.policies.values() if policy.round_robin]
    return dict(_TURNS.rows(policies=rows)) if rows else {}


def with_turns(directory: Directory, policy: int | None) -> Directory:
    """The directory with the turn of this policy, kept from changing until the transaction ends."""
    known = directory.policies.get(policy or 0)
    if known is None or not known.round_robin:
        return directory
    row = store().for_update(EscalationPolicy.select().where(EscalationPolicy.id == known.row)).get()
    return replace(directory, turns={known.row: row.turn})


def people(usernames: Collection[str], at: datetime | None = None) -> dict[str, PersonFacts]:
    """Persons by username; unknown and removed ones are left out."""
    users = User.select().where(any_of(User.username, usernames), User.removed_at.is_null())
    return _people(list(users), at)


def _people(users: list[User], at: datetime | None) -> dict[str, PersonFacts]:
    """Facts of these users, and of those to whom their notices may be forwarded."""
    forwarding = _forwarding([user.id for user in users], recently(at))
    others = [rule.to_user for rule in forwarding]
    rules = _usable_rules({user.id for user in (*users, *others)})
    to = {user.id: _person(user, rules) for user in others}
    forwarded: dict[int, list[ForwardingFacts]] = {}
    for rule in forwarding:
        facts = ForwardingFacts(rule.from_date, rule.to_date, to[rule.to_user_id])
        forwarded.setdefault(rule.user_id, []).append(facts)
    return {
        user.username: replace(_person(user, rules), forwarding=tuple(forwarded.get(user.id, ())))
        for user in users
    }


def _person(user: User, rules: Mapping[int, list[RuleFacts]]) -> PersonFacts:
    return PersonFacts(user.id, user.username, display_name(user), tuple(rules.get(user.id, ())))


def _forwarding(users: Collection[int], since: datetime) -> list[ForwardingRule]:
    """The forwarding rules of these users that reach beyond a moment, to users who are still there."""
    to = User.alias()
    query = (
        ForwardingRule.select(ForwardingRule, to)
        .join(to, on=ForwardingRule.to_user == to.id)
        .where(any_of(ForwardingRule.user, users), ForwardingRule.to_date > since, to.removed_at.is_null())
    )
    return list(query.order_by(ForwardingRule.id))


def _usable_rules(users: Collection[int]) -> dict[int, list[RuleFacts]]:
    """The notification rules of these users, by user, by which somebody can be told."""
    query = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(any_of(NotificationRule.user, users))
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
    rules: dict[int, list[RuleFacts]] = {}
    for rule in query:
        if rule.contact.contact_type in DELIVERABLE:
            facts = RuleFacts(
                rule.id, rule.contact_id, rule.contact.contact_type, Urgency(rule.urgency), rule.start_delay
            )
            rules.setdefault(rule.user_id, []).append(facts)
    return rules


def policy_facts(row: EscalationPolicy) -> PolicyFacts:
    steps = tuple(
        StepFacts(
            rule["delay"],
            tuple(
                StepTarget(TargetType(target["target_type"]), target["target_id"])
                for target in rule["targets"]
            ),
        )
        for rule in row.rules
    )
    settings = row.assignment_settings
    return PolicyFacts(
        row.id,
        row.unique_id,
        row.name,
        steps,
        row.repeat_policy,
        row.move_to_next,
        settings.get("assignee_strategy") == AssigneeStrategy.ROUND_ROBIN,
        bool(settings.get("call_rr_assignee")),
    )


def sla_facts(row: Sla) -> SlaFacts:
    escalations = tuple(
        SlaEscalationFacts(
            each["unique_id"],
            SlaClock(each["type"]),
            each["time"],
            tuple(responder["user"] for responder in each["responders"]),
        )
        for each in row.escalations
    )
    return SlaFacts(row.id, row.unique_id, row.name, row.acknowledge_time, row.resolve_time, escalations)
