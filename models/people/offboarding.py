"""Remove a user from an account, and transfer the ownership of an account, in the caller's transaction.

A removed user stays as a row, because rows about the past refer to it. Configuration and open work do not.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import peewee

from models.domain.effects import Author, restarted_escalation
from models.domain.enums import (
    AccountRole,
    IncidentStatus,
    NotificationStatus,
    TargetType,
    TaskStatus,
    TeamRole,
    TimerKind,
)
from models.domain.reasons import make_reason
from models.sign_in.people import remove_ways
from models.store import bulk
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import Account, User, bump_version, get_display_name
from models.tables.changes import Change
from models.tables.incidents import Incident, IncidentAssignment, IncidentLog, IncidentTask
from models.tables.notifications import Notification
from models.tables.rules import AlertRule, StoredAction
from models.tables.schedules import Schedule, ScheduleOverride, ShiftSwap, StoredLayer, StoredTurn
from models.tables.services import Integration, Service
from models.tables.tasks import PostIncidentTask
from models.tables.teams import (
    EscalationPolicy,
    Sla,
    StoredSlaEscalation,
    StoredStep,
    StoredTarget,
    Team,
    TeamMember,
)
from models.tables.timers import Timer
from models.tables.users import ContactMethod, ForwardingRule

# Whether an action of an alert rule refers to the user with this username.
NamesUser = Callable[[StoredAction, str], bool]


def remove(user: User, author: Author, now: datetime, names_user: NamesUser) -> None:
    """Remove a user, who must not be the owner, from the account and from all its configuration.

    `names_user` is the function of pipeline/rules/action_table.py.

    The caller records the removal, and locks the services of the account first, so that no lane opens an
    incident for the user meanwhile. The caller also raises the version of the configuration. Tokens of
    removed users stop working, because each request checks the user. A delivery checks the user too, and
    cancels pending notifications.
    """
    User.update(removed_at=now, custom_role=None).where(User.id == user.id).execute()
    remove_ways(user)
    _transfer_teams(user, now)
    TeamMember.delete().where(TeamMember.user == user).execute()
    _remove_from_config(user, names_user)
    _remove_overrides(user)
    ShiftSwap.delete().where((ShiftSwap.asker == user) | (ShiftSwap.partner == user)).execute()
    ForwardingRule.delete().where((ForwardingRule.user == user) | (ForwardingRule.to_user == user)).execute()
    ContactMethod.delete().where(ContactMethod.user == user).execute()
    _forget_changes(user)
    _unassign_tasks(user)
    _unassign_incidents(user, author, now)


def _forget_changes(user: User) -> None:
    """Delete the history of the person's own configuration. What was done with rights and sign-ins stays."""
    Change.delete().where(Change.user == user, Change.kind != "").execute()


def transfer_ownership(account: Account, new_owner: User) -> User | None:
    """Make this user the owner of the account and the previous owner an admin. Teams keep their owners.

    Return the previous owner. Return None and change nothing if the new owner was removed meanwhile.
    """
    owner = _lock_owner(account.id)
    if (
        store().for_update(User.select().where(User.id == new_owner.id, User.removed_at.is_null())).first()
        is None
    ):
        return None
    for person, role in ((owner, AccountRole.ADMIN), (new_owner, AccountRole.OWNER)):
        User.update({"role": role, **User.raise_number()}).where(User.id == person.id).execute()
    bump_version(account.id)
    return owner


def _lock_owner(account_row: int) -> User:
    query = User.select().where(User.account == account_row, User.role == AccountRole.OWNER)
    owner: User = store().for_update(query).get()
    return owner


def _transfer_teams(user: User, now: datetime) -> None:
    """Make the owner of the account the owner and a manager of the user's teams."""
    owned = [team.id for team in store().for_update(Team.select(Team.id).where(Team.owner == user))]
    if not owned:
        return
    owner = _lock_owner(user.account_id)
    Team.update({"owner": owner, **Team.raise_number()}).where(Team.id.in_(owned)).execute()
    managed = {"user": owner, "role": TeamRole.MANAGER, "joining_date": now, "number": 1}
    records = [{"unique_id": make_uuid(), "team": team, **managed} for team in owned]
    bulk.insert(TeamMember, records, conflict=("team", "user"), replacing=("role",), adding=("number",))


def _remove_from_config(user: User, names_user: NamesUser) -> None:
    """Remove the user from policies, SLAs, alert rules and schedules.

    Steps and SLA escalations stay, even without people. Actions of rules that name the user are deleted.
    Later users in a layer move up one position.
    """
    teams = Team.select(Team.id).where(Team.account == user.account_id)
    services = Service.select(Service.id).where(Service.team.in_(teams))
    integrations = Integration.select(Integration.id).where(Integration.service.in_(services))
    name: str = user.username

    def remove_actions(actions: list[StoredAction], username: str) -> list[StoredAction]:
        return [action for action in actions if not names_user(action, username)]

    _rewrite(EscalationPolicy.rules, EscalationPolicy.team.in_(teams), name, _remove_target)
    _rewrite(Sla.escalations, Sla.team.in_(teams), name, _remove_responder)
    _rewrite(AlertRule.actions, AlertRule.integration.in_(integrations), name, remove_actions)
    _rewrite(Schedule.layers, Schedule.team.in_(teams), name, _remove_turns)


# An item of a list in a JSON column.
Item = TypeVar("Item")


def _rewrite(
    column: peewee.Field,
    condition: peewee.Expression,
    username: str,
    change: Callable[[list[Item], str], list[Item]],
) -> None:
    """Apply a change to a JSON column, in each row that contains this username."""
    table: Any = column.model
    matching = table.select(table.id, table.number, column).where(
        condition, column.cast("TEXT").contains(username)
    )
    rows = store().for_update(matching.order_by(table.id))
    bulk.update(
        table,
        [
            {
                "id": row.id,
                "number": row.number + 1,
                column.name: change(getattr(row, column.name), username),
            }
            for row in rows
        ],
    )


def _remove_target(rules: list[StoredStep], username: str) -> list[StoredStep]:
    def filter_targets(rule: StoredStep) -> list[StoredTarget]:
        target_key = (TargetType.USER, username)
        remaining = [
            each for each in rule["targets"] if (each["target_type"], each["target_id"]) != target_key
        ]
        return [{**target, "position": place} for place, target in enumerate(remaining)]

    return [{**rule, "targets": filter_targets(rule)} for rule in rules]


def _remove_responder(escalations: list[StoredSlaEscalation], username: str) -> list[StoredSlaEscalation]:
    return [
        {
            **each,
            "responders": [responder for responder in each["responders"] if responder["user"] != username],
        }
        for each in escalations
    ]


def _remove_turns(layers: list[StoredLayer], username: str) -> list[StoredLayer]:
    def filter_turns(layer: StoredLayer) -> list[StoredTurn]:
        remaining = [turn for turn in layer["users"] if turn["user"] != username]
        return [{**turn, "position": place} for place, turn in enumerate(remaining, start=1)]

    return [{**layer, "users": filter_turns(layer)} for layer in layers]


def _remove_overrides(user: User) -> None:
    """Remove the user's overrides, which are parts of their schedules."""
    own = ScheduleOverride.user == user
    schedules = Schedule.id.in_(ScheduleOverride.select(ScheduleOverride.schedule).where(own))
    Schedule.update(Schedule.raise_number()).where(schedules).execute()
    ScheduleOverride.delete().where(own).execute()


def _unassign_tasks(user: User) -> None:
    """Unassign the user's open tasks; done tasks keep their user."""
    for table, raised in ((PostIncidentTask, PostIncidentTask.raise_number()), (IncidentTask, {})):
        open_tasks = (table.assigned_to == user) & (table.status != TaskStatus.DONE)
        table.update({"assigned_to": None, **raised}).where(open_tasks).execute()


def _unassign_incidents(user: User, author: Author, now: datetime) -> None:
    """Unassign the user's open incidents, restart escalation runs, and write the reasons to the log.

    The escalation run restarts if the incident is not acknowledged and was assigned to the user, or has a
    pending notification for the user. Such a run may have ended or stopped because of this user. Merged
    incidents are silent and are not restarted.
    """
    open_incidents = Incident.select().where(Incident.status < IncidentStatus.RESOLVED)
    IncidentAssignment.delete().where(
        IncidentAssignment.user == user,
        IncidentAssignment.incident.in_(open_incidents.select(Incident.id)),
    ).execute()
    with_pending = Notification.select(Notification.incident).where(
        Notification.user == user, Notification.state == NotificationStatus.PENDING
    )
    affected = (Incident.assigned_to == user) | Incident.id.in_(with_pending)
    found = list(store().for_update(open_incidents.where(affected).order_by(Incident.id)))
    restarted = [row for row in found if row.status == IncidentStatus.TRIGGERED and row.parent_id is None]
    rows = [row for row in found if row.assigned_to_id == user.id]
    bulk.update(Incident, [{"id": row.id, "assigned_to": None} for row in rows])
    bulk.update(
        Incident, [{"id": row.id, **restarted_escalation(row.escalation_run, now)} for row in restarted]
    )
    bulk.insert(Timer, [_build_timer(row, now) for row in restarted])
    bulk.insert(
        IncidentLog, [_build_log(row, user, author, now) for row in found if row in rows or row in restarted]
    )


def _build_timer(incident: Incident, now: datetime) -> dict[str, object]:
    """Build the first timer of the new run. The worker that fires it reconciles the other timers
    (pipeline/incidents/timer_table.py)."""
    key = f"{TimerKind.ESCALATE}:{incident.escalation_run + 1}:0"
    return {"incident": incident.id, "kind": TimerKind.ESCALATE, "key": key, "due_at": now}


def _build_log(incident: Incident, user: User, author: Author, now: datetime) -> dict[str, object]:
    was_assigned = incident.assigned_to_id == user.id
    names = {"person": get_display_name(user), "by": author.name}
    if was_assigned:
        why = make_reason("member_removed_assigned", **names)
    else:
        why = make_reason("member_removed_pending", **names)
    return {
        "incident": incident.id,
        "at": now,
        "what": "assigned" if was_assigned else "escalated",
        "reason": why,
        "author_kind": author.kind,
        "user": author.user,
    }
