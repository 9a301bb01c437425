"""Who leaves an account, and who takes it over: everything that follows from it, in the caller's transaction.

A removed member stays as a row, to which the past points; nothing that is still to happen does.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import peewee

from models import bulk, schedules
from models.accounts import Account, User, display_name, raise_version
from models.base import store
from models.effects import Actor, begun_anew
from models.enums import (
    AccountRole,
    IncidentStatus,
    NoticeState,
    RuleAction,
    TargetType,
    TaskStatus,
    TeamRole,
    TimerKind,
)
from models.ids import new_uuid
from models.incidents import Incident, IncidentAssignment, IncidentLog, IncidentTask
from models.notices import Notice
from models.rules import AlertRule
from models.services import Integration, Service
from models.tasks import PostIncidentTask
from models.teams import EscalationPolicy, Sla, Team, TeamMember
from models.timers import Timer
from models.users import ContactMethod, ForwardingRule

# Actions of alert rules that can name a person.
_NAMING = frozenset({RuleAction.ASSIGN_USER, RuleAction.ASSIGN_ROLE, RuleAction.ADD_RESPONDER})


def remove(user: User, actor: Actor, now: datetime) -> None:
    """Take a member, who is not the owner, out of the account and of everything that would act on them.

    The caller has locked the account's services, so that no lane opens something for them meanwhile; and
    raises the version. Tokens work for present members only. What is owed to them is told no more: that is
    seen when it is to be sent.
    """
    User.update(removed_at=now, custom_role=None).where(User.id == user.id).execute()
    _hand_over_teams(user, now)
    TeamMember.delete().where(TeamMember.user == user).execute()
    _forget_in_what_teams_keep(user)
    schedules.forget(user)
    ForwardingRule.delete().where((ForwardingRule.user == user) | (ForwardingRule.to_user == user)).execute()
    ContactMethod.delete().where(ContactMethod.user == user).execute()
    _free_tasks(user)
    _free_incidents(user, actor, now)


def hand_over(account: Account, heir: User) -> User | None:
    """Make this member the account's owner, and the owner an admin, who is returned. Teams keep theirs.

    None, and nothing is changed, when the heir is removed by now.
    """
    owner = _owner_of(account.id)
    if store().for_update(User.select().where(User.id == heir.id, User.removed_at.is_null())).first() is None:
        return None
    User.update(role=AccountRole.ADMIN).where(User.id == owner.id).execute()
    User.update(role=AccountRole.OWNER).where(User.id == heir.id).execute()
    raise_version(account.id)
    return owner


def _owner_of(account_row: int) -> User:
    query = User.select().where(User.account == account_row, User.role == AccountRole.OWNER)
    owner: User = store().for_update(query).get()
    return owner


def _hand_over_teams(user: User, now: datetime) -> None:
    """Teams of theirs become those of the account's owner, who manages them from now on."""
    owned = [team.id for team in store().for_update(Team.select(Team.id).where(Team.owner == user))]
    if not owned:
        return
    owner = _owner_of(user.account_id)
    Team.update(owner=owner).where(Team.id.in_(owned)).execute()
    managed = {"user": owner, "role": TeamRole.MANAGER, "joining_date": now}
    records = [{"unique_id": new_uuid(), "team": team, **managed} for team in owned]
    bulk.insert(TeamMember, records, conflict=("team", "user"), replacing=("role",))


def _forget_in_what_teams_keep(user: User) -> None:
    """Steps and promises stay, if need be with nobody in them; an action that named them is dropped."""
    teams = Team.select(Team.id).where(Team.account == user.account_id)
    services = Service.select(Service.id).where(Service.team.in_(teams))
    integrations = Integration.select(Integration.id).where(Integration.service.in_(services))
    name: str = user.username
    _rewrite(EscalationPolicy.rules, EscalationPolicy.team.in_(teams), name, _without_target)
    _rewrite(Sla.escalations, Sla.team.in_(teams), name, _without_responder)
    _rewrite(AlertRule.actions, AlertRule.integration.in_(integrations), name, _without_action)


Change = Callable[[list[dict[str, Any]], str], list[dict[str, Any]]]


def _rewrite(column: peewee.Field, within: Any, username: str, change: Change) -> None:
    """Change a list that is kept as JSON in each row that names this person."""
    table: Any = column.model
    naming = table.select(table.id, column).where(within, column.cast("TEXT").contains(username))
    rows = store().for_update(naming.order_by(table.id))
    bulk.update(
        table, [{"id": row.id, column.name: change(getattr(row, column.name), username)} for row in rows]
    )


def _without_target(rules: list[dict[str, Any]], username: str) -> list[dict[str, Any]]:
    def left(rule: dict[str, Any]) -> list[dict[str, Any]]:
        named = (TargetType.USER, username)
        kept = [each for each in rule["targets"] if (each["target_type"], each["target_id"]) != named]
        return [{**target, "position": place} for place, target in enumerate(kept)]

    return [{**rule, "targets": left(rule)} for rule in rules]


def _without_responder(escalations: list[dict[str, Any]], username: str) -> list[dict[str, Any]]:
    return [
        {**each, "responders": [one for one in each["responders"] if one["user"] != username]}
        for each in escalations
    ]


def _without_action(actions: list[dict[str, Any]], username: str) -> list[dict[str, Any]]:
    return [
        action
        for action in actions
        if action["action_type"] not in _NAMING
        or username not in (action.get("assign_to"), action["value"].strip().lower())
    ]


def _free_tasks(user: User) -> None:
    """What they were still to do is for somebody else; what they did stays theirs."""
    for table in (PostIncidentTask, IncidentTask):
        undone = (table.assigned_to == user) & (table.status != TaskStatus.DONE)
        table.update(assigned_to=None).where(undone).execute()


def _free_incidents(user: User, actor: Actor, now: datetime) -> None:
    """Open incidents of theirs are nobody's, and say why. Those that nobody has acknowledged begin their
    chain anew, as do others of which they were still owed word: it may have ended, or been stopped, because
    this person was told, or to be told. What was merged into another incident is silent, and stays so.
    """
    open_ones = Incident.select().where(Incident.status < IncidentStatus.RESOLVED)
    IncidentAssignment.delete().where(
        IncidentAssignment.user == user,
        IncidentAssignment.incident.in_(open_ones.select(Incident.id)),
    ).execute()
    owing = Notice.select(Notice.incident).where(Notice.user == user, Notice.state == NoticeState.PENDING)
    theirs = (Incident.assigned_to == user) | Incident.id.in_(owing)
    found = list(store().for_update(open_ones.where(theirs).order_by(Incident.id)))
    begun = [row for row in found if row.status == IncidentStatus.TRIGGERED and row.parent_id is None]
    rows = [row for row in found if row.assigned_to_id == user.id]
    bulk.update(Incident, [{"id": row.id, "assigned_to": None} for row in rows])
    bulk.update(Incident, [{"id": row.id, **begun_anew(row.chain, now)} for row in begun])
    bulk.insert(Timer, [_first_step(row, now) for row in begun])
    bulk.insert(IncidentLog, [_log(row, user, actor, now) for row in found if row in rows or row in begun])


def _first_step(incident: Incident, now: datetime) -> dict[str, Any]:
    """Who wakes up decides what is due, and arms what follows (schedules/timers.py)."""
    key = f"{TimerKind.ESCALATE}:{incident.chain + 1}:0"
    return {"incident": incident.id, "kind": TimerKind.ESCALATE, "key": key, "due_at": now}


def _log(incident: Incident, user: User, actor: Actor, now: datetime) -> dict[str, Any]:
    is_theirs = incident.assigned_to_id == user.id
    follows = "assigned to nobody" if is_theirs else "they were still to be told"
    return {
        "incident": incident.id,
        "at": now,
        "what": "assigned" if is_theirs else "escalated",
        "reason": f"{display_name(user)} was removed from the account by {actor.name}: {follows}",
        "actor_kind": actor.kind,
        "user": actor.user,
    }
