"""Load policies, SLAs and people as an OnCallConfig.

Call these functions inside the write transaction that writes the decision.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

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
from models.store.base import store
from models.store.prepared import Prepared, in_bound, in_list
from models.tables.accounts import User, get_display_name
from models.tables.teams import EscalationPolicy, Sla, Team, TeamMember
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule


def load_oncall_config(
    team: Team, policies: Collection[int], at: datetime | None = None, slas: Collection[int] = ()
) -> OnCallConfig:
    """Load policies and SLAs, the people and schedules they name, the team managers and the account owner.

    Removed users are left out, so a step that names only removed users has no people. The config is for
    decisions at time `at` (None: now) and later. It does not contain overrides and forwarding rules that
    ended long before.
    """
    rows = list(EscalationPolicy.select().where(in_list(EscalationPolicy.id, policies))) if policies else []
    return build_oncall_config(team, rows, at=at, slas=_select_slas(slas))


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
            in_list(User.username, needed)
            | in_list(User.id, manager_rows)
            | (User.role == AccountRole.OWNER),
        )
    )
    names = {user.id: user.username for user in users}
    owner = next((user.username for user in users if user.role == AccountRole.OWNER), None)
    return OnCallConfig(
        policies=policies,
        people=_build_people(users, at),
        schedules=schedule_facts,
        managers=tuple(names[row] for row in manager_rows if row in names),
        owner=owner,
        slas=active_slas,
    )


def _select_slas(rows: Collection[int]) -> list[Sla]:
    return list(Sla.select().where(in_list(Sla.id, rows))) if rows else []


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


def build_people_on_call(users: Collection[User], at: datetime | None) -> dict[str, PersonFacts]:
    """Build the facts of these users for the question who is on call: without their notification rules."""
    return _combine_people(users, _load_forwarding([user.id for user in users], get_lookback_start(at)), {})


def _build_people(users: list[User], at: datetime | None) -> dict[str, PersonFacts]:
    """Build the facts of these users, with the users in their forwarding rules."""
    forwarding = _load_forwarding([user.id for user in users], get_lookback_start(at))
    rules = _load_rules({user.id for user in (*users, *(rule.to_user for rule in forwarding))})
    return _combine_people(users, forwarding, rules)


def _combine_people(
    users: Iterable[User],
    forwarding: Iterable[ForwardingRule],
    rules: Mapping[int, list[NotificationRuleFacts]],
) -> dict[str, PersonFacts]:
    to = {rule.to_user_id: _build_person(rule.to_user, rules) for rule in forwarding}
    forwarded: dict[int, list[ForwardingFacts]] = {}
    for rule in forwarding:
        facts = ForwardingFacts(rule.from_date, rule.to_date, to[rule.to_user_id])
        forwarded.setdefault(rule.user_id, []).append(facts)
    return {
        user.username: replace(_build_person(user, rules), forwarding=tuple(forwarded.get(user.id, ())))
        for user in users
    }


def _build_person(user: User, rules: Mapping[int, list[NotificationRuleFacts]]) -> PersonFacts:
    return PersonFacts(user.id, user.username, get_display_name(user), tuple(rules.get(user.id, ())))


def _load_forwarding(users: Collection[int], since: datetime) -> list[ForwardingRule]:
    """Load the forwarding rules that end after `since`; rules to removed users are left out."""
    to = User.alias()
    query = (
        ForwardingRule.select(ForwardingRule, to)
        .join(to, on=ForwardingRule.to_user == to.id)
        .where(in_list(ForwardingRule.user, users), ForwardingRule.to_date > since, to.removed_at.is_null())
    )
    return list(query.order_by(ForwardingRule.id))


def _load_rules(users: Collection[int]) -> dict[int, list[NotificationRuleFacts]]:
    """Load the usable notification rules by user row: those whose contact type has a channel."""
    query = (
        NotificationRule.select(NotificationRule, ContactMethod)
        .join(ContactMethod)
        .where(in_list(NotificationRule.user, users))
        .order_by(NotificationRule.start_delay, NotificationRule.id)
    )
    rules: dict[int, list[NotificationRuleFacts]] = {}
    for rule in query:
        if rule.contact.contact_type in CHANNELS:
            facts = NotificationRuleFacts(
                rule.id, rule.contact_id, rule.contact.contact_type, Urgency(rule.urgency), rule.start_delay
            )
            rules.setdefault(rule.user_id, []).append(facts)
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
