"""Whom an incident or its configuration names: these people can still be notified about it."""

from collections.abc import Collection
from datetime import datetime

import peewee

from models.domain.enums import TargetType
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentResponder
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import EscalationPolicy, Sla
from models.tables.users import ForwardingRule


def is_named(user: User, incident: Incident, now: datetime) -> bool:
    """Return whether Tocsin can still notify the user about this incident, now or at a later step."""
    forwarding = ForwardingRule.select(ForwardingRule.user).where(
        ForwardingRule.to_user == user, ForwardingRule.to_date > now
    )
    people = list(User.select().where((User.id == user.id) | User.id.in_(forwarding)))
    responders = IncidentResponder.select().where(IncidentResponder.incident == incident)
    if incident.assigned_to_id in {person.id for person in people}:
        return True
    if responders.where(IncidentResponder.user.in_(people)).exists():
        return True
    policies = EscalationPolicy.select().where(
        (EscalationPolicy.id == incident.escalation_policy_id)
        | EscalationPolicy.id.in_(responders.select(IncidentResponder.escalation_policy))
    )
    return any(_names(policy, people) for policy in policies) or _sla_names(incident, people)


def _names(policy: EscalationPolicy, people: Collection[User]) -> bool:
    """Return whether a step of the policy names one of these people, or a schedule that does."""
    targets = [(each["target_type"], each["target_id"]) for step in policy.rules for each in step["targets"]]
    if any((TargetType.USER, person.username) in targets for person in people):
        return True
    names = [name for kind, name in targets if kind == TargetType.SCHEDULE]
    overridden = ScheduleOverride.select(ScheduleOverride.schedule).where(ScheduleOverride.user.in_(people))
    is_named = Schedule.id.in_(overridden)
    for person in people:
        is_named |= _mentions(Schedule.layers, person)
    return bool(names) and Schedule.select().where(Schedule.unique_id.in_(names), is_named).exists()


def _sla_names(incident: Incident, people: Collection[User]) -> bool:
    sla = Sla.select().where(Sla.id == incident.sla_id)
    return any(sla.where(_mentions(Sla.escalations, person)).exists() for person in people)


def _mentions(column: peewee.Field, person: User) -> peewee.Expression:
    return column.cast("TEXT").contains(person.username)
