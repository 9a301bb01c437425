"""Random writes of the configuration: each is a few numbers, from which its object and values follow."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from models.domain.applications import GENERIC, HEARTBEAT
from models.store.fields import Table
from models.store.store import db
from models.tables.accounts import CustomRole, User
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertGroupingPolicy, AlertRule, OutgoingRule
from models.tables.schedules import Schedule
from models.tables.services import AddedApplication, Integration, Maintenance, Service
from models.tables.stakeholders import StakeholderAddress
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, TeamMember
from models.tables.users import ContactMethod, ForwardingRule, NotificationRule
from tests.support.changes.configuration import Rows
from tests.support.contract.samples import OUTGOING_WEBHOOK, build_step
from tests.support.world import World

TEAM = "/api/account/teams/{team}/"
USER = "/api/account/users/{user}/"
INTEGRATION = f"{TEAM}services/{{service}}/integrations/{{integration}}/"
ROUTER = "/api/v2/account/events/router/"
OURS = "/api/tocsin/"
Values = dict[str, Any]


class Refs:
    """Chooses objects that exist. `number` decides which."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number

    def find(self, table: type[Table], **where: object) -> Table | None:
        query = table.select().order_by(table.id)
        for name, value in where.items():
            query = query.where(getattr(table, name) == value)
        rows = list(query)
        return rows[self.number % len(rows)] if rows else None

    def id(self, table: type[Table]) -> str | None:
        """Return the id of an object of Alice's team, or sometimes None."""
        found = self.find(table, team=self.world.team)
        return found.unique_id if found is not None and self.number % 5 else None

    def person(self) -> str:
        people = (self.world.alice, self.world.bob, self.world.charlie)
        return str(people[self.number % 3].username)


@dataclass(frozen=True)
class Kind:
    """A kind of objects: its table, the path of its list, the values of an object, and where it is."""

    table: type[Table] | None
    path: str
    build: Callable[[Refs, int], Values]
    where: Callable[[Refs], dict[str, object]] = lambda refs: {"team": refs.world.team}
    verbs: str = "POST PATCH PUT DELETE"


def _of(name: str, table: type[Table], **where: object) -> Callable[[Refs], dict[str, object]]:
    return lambda refs: {name: refs.find(table, **where)}


def _build_layer(refs: Refs, value: int) -> Values:
    return {
        "name": f"Layer {value}",
        "shift_length": 3600 * (1 + value),
        "rotation_start_time": "2026-03-02T08:00:00Z",
        "users": [{"user": refs.person()}],
        "restriction_type": 1,
        "restrictions": [{"duration": 600 * (1 + value), "start_time_of_day": "20:00:00"}],
    }


def _build_override(refs: Refs, value: int) -> Values:
    day = f"2026-04-{1 + value % 28:02}"
    return {"user": refs.person(), "start_time": f"{day}T00:00:00Z", "end_time": f"{day}T10:00:00Z"}


def _build_service(refs: Refs, value: int) -> Values:
    policy = refs.find(EscalationPolicy, team=refs.world.team)
    return {
        "name": f"Service {value}",
        "escalation_policy": policy and policy.unique_id,
        "sla": refs.id(Sla),
        "team_priority": refs.id(Priority),
        "task_template": refs.id(TaskTemplate),
        "auto_resolve_timeout": 60 * value,
        "under_maintenance": value % 2 == 0,
        "collation": value % 2,
        "collation_time": 2 + value,
    }


def _build_integration(refs: Refs, value: int) -> Values:
    application = (GENERIC, HEARTBEAT, OUTGOING_WEBHOOK)[value % 3]
    return {
        "name": f"Integration {value}",
        "application": application,
        "integration_type": int(application == OUTGOING_WEBHOOK),
        "is_enabled": value % 4 > 0,
    }


def _build_rule(refs: Refs, value: int) -> Values:
    actions: list[Values] = [{"action_type": 8, "value": f"{value}: {{{{message}}}}"}]
    if policy := refs.id(EscalationPolicy):
        actions.append({"action_type": 4, "escalation_policy": policy})
    return {
        "description": f"Rule {value}",
        "rule_type": 1,
        "stop": value % 2 == 0,
        "position": 1 + value % 3,
        "conditions": [{"alert_condition_type": 1, "pattern": "critical"}],
        "actions": actions,
    }


def _build_router_rule(refs: Refs, value: int) -> Values:
    target = refs.find(Integration, integration_type=0)
    actions = [{"action_type": 0, "integration": target.unique_id}] if target else []
    return {"name": f"Rule {value}", "rule_json": f'{{"==": [{value}, 1]}}', "actions": actions}


def _build_sla(refs: Refs, value: int) -> Values:
    return {
        "name": f"SLA {value}",
        "acknowledge_time": 60 * (1 + value),
        "resolve_time": 600 * (1 + value),
        "escalations": [{"time": -10 * value, "type": 1, "responders": [{"user": refs.person()}]}],
    }


def _build_policy(refs: Refs, value: int) -> Values:
    steps = [build_step(5 * place, refs.person()) for place in range(1 + value % 3)]
    if schedule := refs.id(Schedule):
        steps.append({"delay": value, "targets": [{"target_type": 1, "target_id": schedule}]})
    return {"name": f"Policy {value}", "rules": steps, "repeat_policy": value % 3}


def _build_maintenance(refs: Refs, value: int) -> Values:
    service = refs.find(Service, team=refs.world.team)
    return {
        "name": f"Window {value}",
        "start_time": "2026-03-08T22:00:00Z",
        "end_time": f"2026-03-08T23:{value % 60:02}:00Z",
        "services": [{"service": service.unique_id}] if service else [],
    }


def _build_template_task(refs: Refs, value: int) -> Values:
    return {"title": f"Task {value}", "due_in": value, "role": refs.id(IncidentRole)}


def _build_notification_rule(refs: Refs, value: int) -> Values:
    contact = refs.find(ContactMethod, user=refs.world.bob)
    return {"contact": contact and contact.unique_id, "start_delay": value, "urgency": value % 2}


def _build_forwarding_rule(refs: Refs, value: int) -> Values:
    return {
        "from_date": "2026-12-24T08:00:00Z",
        "to_date": f"2026-12-27T08:{value % 60:02}:00Z",
        "time_zone": "Europe/Berlin",
        "to_user": refs.world.alice.username,
    }


def _named(noun: str, **more: Callable[[int], object]) -> Callable[[Refs, int], Values]:
    def build(refs: Refs, value: int) -> Values:
        return {"name": f"{noun} {value}", **{name: make(value) for name, make in more.items()}}

    return build


def _in_account(refs: Refs) -> dict[str, object]:
    return {"account": refs.world.account}


def _of_bob(refs: Refs) -> dict[str, object]:
    return {"user": refs.world.bob}


_MAKE_ROLE = ("incident_read", "team_read", "sla_read")
# The values of contacts and addresses are not kept, so that a change of them cannot be undone: they stay.
KINDS = (
    Kind(Tag, f"{TEAM}tags/", _named("Tag", color=lambda n: f"#0000{n:02}")),
    Kind(Priority, f"{TEAM}priority/", _named("P", description=str, color=lambda n: f"#0000{n:02}")),
    Kind(Sla, f"{TEAM}sla/", _build_sla),
    Kind(IncidentRole, f"{TEAM}roles/", lambda refs, n: {"title": f"Role {n}", "rank": n}),
    Kind(TaskTemplate, f"{TEAM}task_templates/", _named("Template", due_immediately=lambda n: n % 2)),
    Kind(
        TemplateTask,
        f"{TEAM}task_templates/{{task_template}}/tasks/",
        _build_template_task,
        lambda refs: {"task_template": refs.find(TaskTemplate, team=refs.world.team)},
    ),
    Kind(
        Schedule,
        f"{TEAM}schedules/",
        lambda refs, n: {
            "name": f"Schedule {n}",
            "layers": [_build_layer(refs, n + each) for each in range(n % 3)],
            "overrides": [_build_override(refs, n + each) for each in range(n % 3)],
        },
    ),
    Kind(
        None,
        "/api/v2/account/teams/{team}/schedules/{schedule}/overrides/",
        _build_override,
        lambda refs: {"schedule": refs.find(Schedule, team=refs.world.team)},
        "POST",
    ),
    Kind(EscalationPolicy, f"{TEAM}escalation_policies/", _build_policy),
    Kind(Service, f"{TEAM}services/", _build_service),
    Kind(
        Integration,
        f"{TEAM}services/{{service}}/integrations/",
        _build_integration,
        lambda refs: {"service": refs.find(Service, team=refs.world.team)},
    ),
    Kind(AlertRule, f"{INTEGRATION}transformers/", _build_rule, lambda refs: _find_integration(refs)),
    Kind(
        OutgoingRule,
        f"{INTEGRATION}outgoingrules/".replace("/api/", "/api/v2/"),
        lambda refs, n: {"rule_json": f'{{"==": [{{"var": "urgency"}}, {n}]}}', "is_enabled": n % 2 == 0},
        lambda refs: _find_integration(refs),
    ),
    Kind(
        AlertGroupingPolicy,
        f"{TEAM}services/{{service}}/alert-grouping-policies/",
        lambda refs, n: {"match_fields": {"static_fields": ["incident_title"]}, "time_window": 2 + n},
        lambda refs: {"service": refs.find(Service, team=refs.world.team)},
    ),
    Kind(Maintenance, f"{TEAM}maintenance/", _build_maintenance),
    Kind(GlobalRouter, ROUTER, _named("Router", is_enabled=lambda n: n % 2 == 0), _in_account),
    Kind(RouterRule, f"{ROUTER}{{router}}/rulesets/", _build_router_rule, _of("router", GlobalRouter)),
    Kind(
        StakeholderAddress,
        f"{OURS}stakeholders/",
        lambda refs, n: {"name": f"Press {n}", "email": f"press{n}@example.org"},
        _in_account,
        "POST DELETE",
    ),
    Kind(
        ContactMethod,
        f"{USER}contacts/",
        lambda refs, n: {"name": f"Mail {n}", "contact_type": 1, "value": f"bob{n}@example.org"},
        _of_bob,
        "POST DELETE",
    ),
    Kind(NotificationRule, f"{USER}notification_rules/", _build_notification_rule, _of_bob),
    Kind(ForwardingRule, f"{USER}forwarding_rules/", _build_forwarding_rule, _of_bob),
    Kind(TeamMember, f"{TEAM}members/", lambda refs, n: {"user": refs.person(), "role": 1 + n % 2}),
    Kind(
        CustomRole,
        "/api/account/customroles/",
        _named("Custom", permissions=lambda n: list(_MAKE_ROLE[: n % 4])),
        _in_account,
    ),
    Kind(
        AddedApplication,
        f"{OURS}applications/",
        lambda refs, n: {"unique_id": f"8f0d2f3c-3a7e-4f3b-9d0a-51c1a4f4c0{n:02}", "kind": "grafana"},
        _in_account,
        "POST DELETE",
    ),
    # What is changed, but not created or deleted, by its own operations.
    Kind(None, f"{USER}customroles/", lambda refs, n: {"custom_role": _find_role(refs)}, _of_bob, "POST"),
    Kind(
        None,
        f"{TEAM}permissions/",
        lambda refs, n: {"account_permissions": list(_MAKE_ROLE[: n % 4])},
        verbs="PUT PATCH",
    ),
    Kind(None, TEAM, _named("Team"), verbs="PATCH PUT"),
    Kind(
        None, "/api/account/users/{user}/", lambda refs, n: {"first_name": f"B{n}"}, _of_bob, "PATCH"
    ),
    Kind(
        None, "/api/account/members/{user}/", lambda refs, n: {"role": 3 + n % 2, "time_zone": "Asia/Tokyo"},
        _of_bob, "PATCH",
    ),
    Kind(
        None,
        f"{OURS}users/{{user}}/messages/",
        lambda refs, n: {"recovery_mails": n % 2 == 0},
        _of_bob,
        "PATCH",
    ),
    Kind(
        None,
        f"{OURS}schedules/{{schedule}}/checks/",
        lambda refs, n: {"double_shifts": ("minor", "intended", "problem")[n % 3]},
        lambda refs: {"schedule": refs.find(Schedule, team=refs.world.team)},
        "PUT",
    ),
    Kind(
        None,
        f"{OURS}integrations/{{integration}}/heartbeat/",
        lambda refs, n: {"every": 60 * (1 + n), "grace": 60 + n},
        lambda refs: _find_integration(refs),
        "PUT",
    ),
    Kind(
        None,
        f"{OURS}integrations/{{integration}}/source/",
        lambda refs, n: {"default_alert_type": (None, "warning", "critical")[n % 3]},
        lambda refs: _find_integration(refs),
        "PUT",
    ),
    Kind(
        None,
        f"{ROUTER}{{router}}/rulesets/",
        lambda refs, n: {"rule": _find_rule(refs), "position": 1 + n % 3},
        _of("router", GlobalRouter),
        "PUT",
    ),
)  # fmt: skip


def _find_integration(refs: Refs) -> dict[str, object]:
    integration = refs.find(Integration)
    return {"integration": integration, "service": integration and integration.service}


def _find_role(refs: Refs) -> str | None:
    role = refs.find(CustomRole, account=refs.world.account)
    return role.unique_id if role is not None and refs.number % 3 else None


def _find_rule(refs: Refs) -> str | None:
    rule = refs.find(RouterRule)
    return rule and rule.unique_id


def send(ask: Callable[..., Any], world: World, kind: int, verb: int, choice: int, value: int) -> Any:
    """Send a random write, and return the answer; None: there is no object for it."""
    spec, refs = KINDS[kind % len(KINDS)], Refs(world, choice)
    verbs = spec.verbs.split()
    method = verbs[verb % len(verbs)]
    above = spec.where(refs)
    if None in above.values():
        return None
    ids = {name: each.username if isinstance(each, User) else each.unique_id for name, each in above.items()}
    path = spec.path.format(**{"team": world.team.unique_id, **ids})
    body = spec.build(refs, value)
    if spec.table is not None and method != "POST":
        owner = {name: each for name, each in above.items() if hasattr(spec.table, name)}
        row = refs.find(spec.table, **owner)
        if row is None:
            return None
        path = f"{path}{row.unique_id}/"
    if method == "PATCH" and len(body) > 1:
        names = sorted(body)
        body = {name: body[name] for name in (names[choice % len(names)], names[value % len(names)])}
    return ask(method, path, None if method == "DELETE" else body)


# What an undo does not bring back, by table and column.
NOT_RESTORED = {
    # The time at which somebody changed it.
    ("alert_grouping_policy", "updated_at"),
    ("source_setup", "updated_at"),
    # An override that comes back by a change of its schedule is a new row with the id of before.
    ("schedule_override", "creation_date"),
    # Only a link: each write of the window makes another one.
    ("maintenance_service", "unique_id"),
}
# Names in JSON: the ids of steps, actions, conditions and so on, which each write makes again, and times.
NOT_RESTORED_IN_JSON = {"unique_id", "last_edited"}


def keep_restored(rows: Rows) -> Rows:
    """Return the rows without what an undo does not bring back."""
    found = {
        name: {
            key: {
                column: _strip(value) for column, value in row.items() if (name, column) not in NOT_RESTORED
            }
            for key, row in table.items()
        }
        for name, table in rows.items()
    }
    links = found["maintenance_service"].values()
    found["maintenance_service"] = {f"{each['maintenance']} {each['service']}": each for each in links}
    # A setup with nothing in it is the same as none.
    found["source_setup"] = {
        key: row
        for key, row in found["source_setup"].items()
        if any(value for column, value in row.items() if column != "integration")
    }
    return found


def _strip(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return _strip(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, list):
        return [_strip(each) for each in value]
    if isinstance(value, dict):
        return {name: _strip(each) for name, each in value.items() if name not in NOT_RESTORED_IN_JSON}
    return value


@contextmanager
def remember_database() -> Iterator[Callable[[], None]]:
    """Return what gives the database its rows of now again. On PostgreSQL it does nothing."""
    stored = db.connection()
    if not isinstance(stored, sqlite3.Connection):
        yield lambda: None
        return
    with sqlite3.connect(":memory:") as copy:
        stored.backup(copy)
        yield lambda: copy.backup(db.connection())
