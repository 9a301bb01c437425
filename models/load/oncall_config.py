"""Load policies, SLAs and people as an OnCallConfig.

Call these functions inside the write transaction that writes the decision.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import peewee

from models.domain.channels import CHANNELS
from models.domain.enums import (
    AccountRole,
    AssigneeStrategy,
    SlaTargetKind,
    TargetType,
    TeamRole,
    Urgency,
)
from models.domain.facts import (
    ForwardingFacts,
    NotificationRuleFacts,
    OnCallConfig,
    PersonFacts,
    PolicyFacts,
    SlaEscalationFacts,
    SlaFacts,
    StepFacts,
    StepTarget,
)
from models.domain.values import replace
from models.load.schedules import get_lookback_start, list_usernames, load_schedules
from models.store.peewee_internals import list_field_names
from models.store.prepared import Prepared, bind, build_model, in_bound, in_list
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.teams import EscalationPolicy, Sla, Team, TeamMember
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule

_POLICIES = Prepared(lambda: EscalationPolicy.select().where(in_bound(EscalationPolicy.id, "rows")))


def load_oncall_config(
    team: Team, policies: Collection[int], at: datetime | None = None, slas: Collection[int] = ()
) -> OnCallConfig:
    """Load policies and SLAs, the people and schedules they name, the team managers and the account owner.

    Removed users are left out, so a step that names only removed users has no people. The config is for
    decisions at time `at` (None: now) and later. It does not contain overrides and forwarding rules that
    ended long before.
    """
    rows = _POLICIES.load(EscalationPolicy, rows=policies) if policies else []
    return build_oncall_config(team, rows, at=at, slas=_select_slas(slas))


_MANAGERS = Prepared(
    lambda: (
        TeamMember.select(TeamMember.user)
        .where(TeamMember.team == bind("team"), TeamMember.role == TeamRole.MANAGER)
        .order_by(TeamMember.joining_date, TeamMember.id)
    )
)
# The users with these names or row numbers, and the owner of the account.
_USERS = Prepared(
    lambda: User.select().where(
        User.account == bind("account"),
        User.removed_at.is_null(),
        in_bound(User.username, "usernames") | in_bound(User.id, "rows") | (User.role == AccountRole.OWNER),
    )
)


def build_oncall_config(
    team: Team,
    rows: Iterable[EscalationPolicy],
    usernames: Collection[str] = (),
    schedules: Collection[str] = (),
    at: datetime | None = None,
    slas: Iterable[Sla] = (),
) -> OnCallConfig:
    """Build the config from loaded policies (`rows`) and SLAs, with additional usernames and schedules."""
    active_slas = {row.id: build_sla(row) for row in slas if row.is_active}
    policies = {row.id: build_policy(row) for row in rows}
    targets = (target for policy in policies.values() for step in policy.steps for target in step.targets)
    names_by_kind: dict[TargetType, set[str]] = {kind: set() for kind in TargetType}
    for target in targets:
        names_by_kind[target.kind].add(target.name)
    schedule_facts = load_schedules(team.account_id, names_by_kind[TargetType.SCHEDULE].union(schedules), at)
    responders = (each.usernames for sla in active_slas.values() for each in sla.escalations)
    needed = names_by_kind[TargetType.USER].union(
        usernames, *map(list_usernames, schedule_facts.values()), *responders
    )
    managers = [row for (row,) in _MANAGERS.rows(team=team.id)]
    users = _USERS.load(User, account=team.account_id, usernames=needed, rows=managers)
    names = {user.id: user.username for user in users}
    owner = next((user.username for user in users if user.role == AccountRole.OWNER), None)
    return OnCallConfig(
        policies=policies,
        people=_build_people(users, at),
        schedules=schedule_facts,
        managers=tuple(names[row] for row in managers if row in names),
        owner=owner,
        slas=active_slas,
    )


_SLAS = Prepared(lambda: Sla.select().where(in_bound(Sla.id, "rows")))


def _select_slas(rows: Collection[int]) -> list[Sla]:
    return _SLAS.load(Sla, rows=rows) if rows else []


def load_slas(slas: Collection[int]) -> OnCallConfig:
    """Load only the active SLAs, without people: enough for expected timers, not for notifications."""
    return OnCallConfig(slas={row.id: build_sla(row) for row in _select_slas(slas) if row.is_active})


_NEXT_TARGETS = Prepared(
    lambda: EscalationPolicy.select(EscalationPolicy.id, EscalationPolicy.next_target).where(
        in_bound(EscalationPolicy.id, "policies")
    )
)


def load_next_targets(policies: Collection[int]) -> dict[int, int]:
    """Load the committed position of the next target, by row number, of these round-robin policies."""
    return dict(_NEXT_TARGETS.rows(policies=policies))


def lock_next_target(config: OnCallConfig, policy: int | None) -> OnCallConfig:
    """Lock a round robin policy until the transaction ends; return the config with its next target."""
    facts = config.policies.get(policy or 0)
    if facts is None or not facts.round_robin:
        return config
    row = store().for_update(EscalationPolicy.select().where(EscalationPolicy.id == facts.row)).get()
    return replace(config, next_targets={facts.row: row.next_target})


def load_people(usernames: Collection[str], at: datetime | None = None) -> dict[str, PersonFacts]:
    """Load people by username; unknown and removed users are left out."""
    users = User.select().where(in_list(User.username, usernames), User.removed_at.is_null())
    return _build_people(list(users), at)


class _Forwarding(NamedTuple):
    """A forwarding rule of a user (row number) with the person whom it names."""

    user: int
    from_date: datetime
    to_date: datetime
    to: User


def build_people_on_call(users: Collection[User], at: datetime | None) -> dict[str, PersonFacts]:
    """Build the facts of these users for the question who is on call: without their notification rules."""
    return _combine_people(users, _load_forwarding([user.id for user in users], get_lookback_start(at)), {})


def _build_people(users: list[User], at: datetime | None) -> dict[str, PersonFacts]:
    """Build the facts of these users, with the users in their forwarding rules."""
    forwarding = _load_forwarding([user.id for user in users], get_lookback_start(at))
    rules = _load_rules({user.id for user in (*users, *(rule.to for rule in forwarding))})
    return _combine_people(users, forwarding, rules)


def _combine_people(
    users: Iterable[User],
    forwarding: Collection[_Forwarding],
    rules: Mapping[int, list[NotificationRuleFacts]],
) -> dict[str, PersonFacts]:
    to = {rule.to.id: _build_person(rule.to, rules) for rule in forwarding}
    forwarded: dict[int, list[ForwardingFacts]] = {}
    for rule in forwarding:
        facts = ForwardingFacts(rule.from_date, rule.to_date, to[rule.to.id])
        forwarded.setdefault(rule.user, []).append(facts)
    return {
        user.username: replace(_build_person(user, rules), forwarding=tuple(forwarded.get(user.id, ())))
        for user in users
    }


def _build_person(user: User, rules: Mapping[int, list[NotificationRuleFacts]]) -> PersonFacts:
    return PersonFacts(user.id, user.username, get_display_name(user), tuple(rules.get(user.id, ())))


def _select_forwarding() -> peewee.ModelSelect:
    to = User.alias()
    columns_of_person = [getattr(to, name) for name in list_field_names(User)]
    return (
        ForwardingRule.select(
            ForwardingRule.user, ForwardingRule.from_date, ForwardingRule.to_date, *columns_of_person
        )
        .join(to, on=ForwardingRule.to_user == to.id)
        .where(
            in_bound(ForwardingRule.user, "users"),
            ForwardingRule.to_date > bind("since"),
            to.removed_at.is_null(),
        )
        .order_by(ForwardingRule.id)
    )


_FORWARDING = Prepared(_select_forwarding)


def _load_forwarding(users: Collection[int], since: datetime) -> list[_Forwarding]:
    """Load the forwarding rules that end after `since`; rules to removed users are left out."""
    return [
        _Forwarding(user, from_date, to_date, build_model(User, person))
        for user, from_date, to_date, *person in _FORWARDING.rows(users=users, since=since)
    ]


_RULES = Prepared(
    lambda: (
        NotificationRule.select(
            NotificationRule.user,
            NotificationRule.id,
            NotificationRule.contact,
            ContactMethod.contact_type,
            NotificationRule.urgency,
            NotificationRule.start_delay,
        )
        .join(ContactMethod)
        .where(in_bound(NotificationRule.user, "users"))
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
)


def _load_rules(users: Collection[int]) -> dict[int, list[NotificationRuleFacts]]:
    """Load the usable notification rules by user row: those whose contact type has a channel."""
    rules: dict[int, list[NotificationRuleFacts]] = {}
    for user, rule, contact, contact_type, urgency, start_delay in _RULES.rows(users=users):
        if contact_type in CHANNELS:
            facts = NotificationRuleFacts(rule, contact, contact_type, Urgency(urgency), start_delay)
            rules.setdefault(user, []).append(facts)
    return rules


def build_policy(row: EscalationPolicy) -> PolicyFacts:
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


def build_sla(row: Sla) -> SlaFacts:
    escalations = tuple(
        SlaEscalationFacts(
            each["unique_id"],
            SlaTargetKind(each["type"]),
            each["time"],
            tuple(responder["user"] for responder in each["responders"]),
        )
        for each in row.escalations
    )
    return SlaFacts(row.id, row.unique_id, row.name, row.acknowledge_time, row.resolve_time, escalations)
