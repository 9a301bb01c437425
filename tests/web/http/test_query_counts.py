"""A list of fifty rows needs as many statements as a list of one row."""

from datetime import timedelta

import pytest
from playhouse.test_utils import count_queries

from models.domain.applications import GENERIC
from models.domain.enums import AccountRole, ContactType, TeamRole
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.tables.accounts import CustomRole
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident, IncidentAssignment, IncidentLog, IncidentTag, IncidentTask
from models.tables.notifications import Attempt, Message, Notification
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.rules import AlertRule
from models.tables.services import Service
from models.tables.teams import IncidentRole, Priority, Sla, Tag, TeamMember
from models.tables.users import ForwardingRule, NotificationRule
from tests.support.rules import RuleAction
from web.rules import rule_actions

TEAM = "/api/account/teams/{team}/"


def add_team(world, now):
    provisioning.create_team(world.account, "Search", world.alice, now)


def add_member(world, now):
    user = provisioning.create_user(world.account, f"{make_uuid()}@example.org", AccountRole.USER, now)
    TeamMember.create(unique_id=make_uuid(), team=world.team, user=user, role=TeamRole.USER, joining_date=now)


def add_priority(world, now):
    return Priority.create(unique_id=make_uuid(), team=world.team, name="P1", creation_date=now)


def add_tag(world, now):
    return Tag.create(unique_id=make_uuid(), team=world.team, name="database", creation_date=now)


def add_sla(world, now):
    return Sla.create(unique_id=make_uuid(), team=world.team, name="Gold", creation_date=now)


def add_policy(world, now):
    team = provisioning.create_team(world.account, "x", world.alice, now)
    policy = team.escalationpolicy_set.get()
    policy.team = world.team
    policy.save()
    return policy


def add_service(world, now):
    service = provisioning.create_service(world.team, "Search", add_policy(world, now), world.bob, now)
    sla, priority = add_sla(world, now), add_priority(world, now)
    Service.update(sla=sla, team_priority=priority).where(Service.id == service.id).execute()
    return Service.get_by_id(service.id)


def add_integration(world, now):
    provisioning.create_integration(world.service, "Probe", GENERIC, world.bob, now)


def add_contact(world, now):
    contact = provisioning.create_contact(world.bob, "Home", ContactType.EMAIL, "b@example.org", now)
    NotificationRule.create(
        unique_id=make_uuid(), user=world.bob, contact=contact, urgency=1, creation_date=now
    )


def add_forwarding_rule(world, now):
    """Add a forwarding rule with a new target and a new creator."""
    to, by = (
        provisioning.create_user(world.account, f"{make_uuid()}@example.org", AccountRole.USER, now)
        for _ in range(2)
    )
    ForwardingRule.create(
        unique_id=make_uuid(), user=world.bob, to_user=to, created_by=by, from_date=now, to_date=now,
        creation_date=now,
    )  # fmt: skip


def add_custom_role(world, now):
    CustomRole.create(unique_id=make_uuid(), account=world.account, name=make_uuid(), creation_date=now)


def add_router(world, now):
    return GlobalRouter.create(
        unique_id=make_uuid(), account=world.account, name="x", integration_key=make_uuid(), creation_date=now
    )


def add_router_rule(world, now):
    """Add a rule of the first router with a new integration."""
    router = GlobalRouter.get_or_none() or add_router(world, now)
    integration = provisioning.create_integration(world.service, "Probe", GENERIC, world.bob, now)
    action = {"unique_id": make_uuid(), "action_type": 0, "integration": integration.unique_id}
    RouterRule.create(
        unique_id=make_uuid(), router=router, name="x", position=RouterRule.select().count() + 1,
        actions=[action], creation_date=now,
    )  # fmt: skip


def add_alert_rule(world, now):
    """Add an alert rule that refers to a new object of each kind."""
    user = provisioning.create_user(world.account, f"{make_uuid()}@example.org", AccountRole.USER, now)
    found = {
        RuleAction.ROUTE_TO_ESCALATION_POLICY: add_policy(world, now).unique_id,
        RuleAction.ASSIGN_USER: user.username,
        RuleAction.ADD_TAGS: add_tag(world, now).unique_id,
        RuleAction.ASSIGN_SLA: add_sla(world, now).unique_id,
        RuleAction.ASSIGN_PRIORITY: add_priority(world, now).unique_id,
    }
    actions = rule_actions.build_actions(
        [{"action_type": kind, "value": id_} for kind, id_ in found.items()], world.team
    )
    AlertRule.create(
        unique_id=make_uuid(), integration=world.integration, position=1, actions=actions, creation_date=now
    )


def add_incident(world, now):
    number = Incident.select().count() + 1
    service = add_service(world, now)
    incident = Incident.create(
        unique_id=make_short_id(), incident_key=make_short_id(), incident_number=number,
        account=world.account,
        service=service, team=world.team, title="Disk", status=1, urgency=1, assigned_to=world.bob,
        escalation_policy=service.escalation_policy, sla=service.sla, team_priority=service.team_priority,
        creation_date=now + timedelta(minutes=number), run_started_at=now,
    )  # fmt: skip
    IncidentTag.create(
        unique_id=make_uuid(), incident=incident, team_tag=add_tag(world, now), creation_date=now
    )


def get_incident(world, now):
    if not Incident.select().exists():
        add_incident(world, now)
    return Incident.get()


def add_role_assignment(world, now):
    incident = get_incident(world, now)
    role = IncidentRole.create(unique_id=make_uuid(), team=world.team, title="Scribe", creation_date=now)
    IncidentAssignment.create(
        unique_id=make_uuid(), incident=incident, role=role, user=world.bob, creation_date=now
    )


def add_incident_task(world, now):
    incident = get_incident(world, now)
    role = IncidentRole.create(unique_id=make_uuid(), team=world.team, title="Scribe", creation_date=now)
    IncidentTask.create(
        unique_id=make_uuid(), incident=incident, title="Look", role=role, assigned_to=world.bob,
        creation_date=now,
    )  # fmt: skip


REASON = make_reason("text", text="x")


def add_timeline_entry(world, now):
    """Add a log entry, and a notification with its message and its attempt."""
    incident = get_incident(world, now)
    IncidentLog.create(
        incident=incident, at=now, what="edited", reason=REASON, author_kind="user", user=world.bob
    )
    message = Message.create(
        message_id=make_uuid(), account=world.account, user=world.bob, channel=1, created_at=now,
        next_attempt_at=now, first_attempt_at=now,
    )  # fmt: skip
    Attempt.create(message=message, at=now, outcome="sent", detail=REASON, milliseconds=1)
    Notification.create(
        key=make_uuid(), incident=incident, user=world.bob, kind="escalation", reason=REASON, not_before=now,
        state=1, done_at=now, message=message,
    )  # fmt: skip


def add_alert(world, now):
    receipt = Receipt.create(
        trace_id=make_uuid(), account=world.account, source="generic", body=b"{}", received_at=now
    )
    Event.create(
        unique_id=make_short_id(), receipt=receipt, position=0, integration=world.integration,
        incident=get_incident(world, now), message="Disk", alert_type=3, entity_id="disk", creation_date=now,
    )  # fmt: skip


LISTS = (
    ("GET", "/api/account/teams/", add_team),
    ("GET", "/api/account/available_incident_services/", add_service),
    ("GET", "/api/account/available_account_eps/", add_policy),
    ("GET", "/api/account/members/", add_member),
    ("GET", TEAM + "members/", add_member),
    ("GET", TEAM + "tags/", add_tag),
    ("GET", TEAM + "priority/", add_priority),
    ("GET", TEAM + "sla/", add_sla),
    ("GET", TEAM + "escalation_policies/", add_policy),
    ("GET", TEAM + "services/", add_service),
    ("GET", TEAM + "services/{service}/integrations/", add_integration),
    ("GET", "/api/account/users/{bob}/contacts/", add_contact),
    ("GET", "/api/account/users/{bob}/notification_rules/", add_contact),
    ("GET", "/api/account/users/{bob}/forwarding_rules/", add_forwarding_rule),
    ("GET", "/api/account/customroles/", add_custom_role),
    ("GET", "/api/account/users/", add_member),
    (
        "GET",
        TEAM + "services/{service}/integrations/{integration}/transformers/",
        add_alert_rule,
    ),
    ("GET", "/api/v2/account/events/router/", add_router),
    ("GET", "/api/v2/account/events/router/{router}/rulesets/", add_router_rule),
    ("GET", "/api/incidents/?page_size=100", add_incident),
    ("POST", "/api/incidents/filter/?page_size=100", add_incident),
    ("GET", "/api/incidents/1/alerts/?page_size=100", add_alert),
    ("GET", "/api/tocsin/incidents/1/roles/", add_role_assignment),
    ("GET", "/api/tocsin/incidents/1/tasks/", add_incident_task),
    ("GET", "/api/tocsin/incidents/1/timeline/?page_size=100", add_timeline_entry),
)


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
@pytest.mark.parametrize(
    ("method", "path", "add_object"), LISTS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_longer_list_needs_no_more_statements(ask, world, store, now, method, path, add_object, scheme):
    def count_statements() -> tuple[int, int]:
        router = GlobalRouter.get_or_none()
        place = path.format(
            team=world.team.unique_id,
            service=world.service.unique_id,
            integration=world.integration.unique_id,
            bob=world.bob.username,
            router=router and router.unique_id,
        )
        with count_queries() as counted:
            listed = ask(method, place, {} if method == "POST" else None, scheme=scheme)
        body = listed.json
        if isinstance(body, dict):
            body = next(value for value in body.values() if isinstance(value, list))
        return counted.count, len(body)

    def add(times: int) -> None:
        with store.write_transaction():
            for _ in range(times):
                add_object(world, now)

    add(1)
    ask("GET", "/api/account/teams/")  # records the last use of the token
    few_statements, short = count_statements()
    add(49)
    many_statements, long = count_statements()

    assert long >= short + 49
    assert many_statements == few_statements <= 14
