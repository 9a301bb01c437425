"""Incidents are created, changed and read through the interface."""

from datetime import timedelta

import pytest

from models.domain.enums import NotificationKind, NotificationStatus, TimerKind, Urgency
from models.domain.reasons import make_reason
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import User, bump_version
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Sla
from models.tables.timers import Timer
from models.tables.users import ContactMethod, NotificationRule
from models.write import change_incident
from tests.support.offenders import list_offenders

INCIDENTS = "/api/incidents/"


@pytest.fixture
def create_incident(ask, world):
    """create_incident(title="Disk", ...): the body of the answer."""

    def make(**more):
        answer = ask("POST", INCIDENTS, {"title": "Disk full", "service": world.service.unique_id, **more})
        assert answer.status_code == 201, answer.json
        return answer.json

    return make


def list_pending_timers(incident: dict) -> list[str]:
    row = Incident.get(Incident.unique_id == incident["unique_id"])
    return [timer.kind for timer in Timer.select().where(Timer.incident == row, Timer.done_at.is_null())]


def list_pending_notifications() -> list[tuple[str, str]]:
    pending = (
        Notification.select(Notification, User)
        .join(User)
        .where(Notification.state == NotificationStatus.PENDING)
    )
    return [
        (notification.user.first_name, notification.kind)
        for notification in pending.order_by(Notification.id)
    ]


def test_a_new_incident_has_the_defaults_of_its_service(create_incident, world):
    incident = create_incident()

    assert incident["incident_number"] == 1
    assert incident["status"] == 1
    assert incident["urgency"] == 1
    assert incident["escalation_policy"] == world.policy.unique_id
    assert incident["assigned_to"] == world.alice.username
    assert incident["assigned_to_name"] == "Alice"
    assert incident["context_window_start"] is None
    assert incident["service_object"]["team_name"] == "Payments"


@pytest.fixture
def gold_sla(ask, world) -> str:
    """The ID of an SLA that notifies Bob five minutes before a breach of its acknowledge target."""
    responders = [{"user": world.bob.username}]
    body = {"name": "Gold", "acknowledge_time": 900, "resolve_time": "", "is_active": True}
    escalations = [{"type": 1, "time": -300, "responders": responders}]
    path = f"/api/account/teams/{world.team.unique_id}/sla/"
    return ask("POST", path, {**body, "escalations": escalations}).json["unique_id"]


SLA_CLOCKS = {TimerKind.SLA_BREACH, TimerKind.SLA_ESCALATION}


@pytest.mark.parametrize("by", ["the body", "the service"])
def test_a_new_incident_has_the_targets_of_its_sla(create_incident, gold_sla, by):
    if by == "the service":
        Service.update(sla=Sla.get(Sla.unique_id == gold_sla)).execute()
    incident = create_incident(**{"sla": gold_sla} if by == "the body" else {})

    assert incident["sla"] == gold_sla
    assert set(list_pending_timers(incident)) == SLA_CLOCKS


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
def test_a_new_sla_starts_its_targets_and_no_sla_ends_them(create_incident, ask, gold_sla, verb):
    incident = create_incident()
    path = f"{INCIDENTS}{incident['incident_number']}/"

    ask(verb, path, {**incident, "sla": gold_sla} if verb == "PUT" else {"sla": gold_sla})
    assert set(list_pending_timers(incident)) == SLA_CLOCKS

    ask(verb, path, {**incident, "sla": None} if verb == "PUT" else {"sla": ""})
    assert set(list_pending_timers(incident)) == set()
    assert {row.outcome for row in get_sla_moments()} == {make_reason("edited", fields=("sla",), by="Alice")}


def get_sla_moments() -> list[Timer]:
    return list(Timer.select().where(Timer.kind.in_(SLA_CLOCKS)).order_by(Timer.id))


def test_an_incident_that_is_sent_back_keeps_its_sla_targets(create_incident, ask, gold_sla):
    incident = create_incident(sla=gold_sla)
    before = [(row.id, row.due_at, row.done_at) for row in get_sla_moments()]

    ask("PUT", f"{INCIDENTS}1/", {**incident, "urgency": 0})

    assert [(row.id, row.due_at, row.done_at) for row in get_sla_moments()] == before
    assert len(before) == 2


def test_a_new_incident_notifies_the_first_step(create_incident):
    create_incident()

    assert list_pending_notifications() == [("Alice", NotificationKind.ESCALATION)]


def test_incident_numbers_are_sequential_within_an_account(create_incident):
    assert [create_incident()["incident_number"] for _ in range(3)] == [1, 2, 3]


def test_an_incident_is_found_by_number_by_id_and_with_an_extra_brace(ask, create_incident):
    incident = create_incident()

    for reference in ("1", incident["unique_id"], "1}", "1%7D", f"{incident['unique_id']}%7D"):
        assert ask("GET", f"{INCIDENTS}{reference}/").json == incident
    for reference in ("2", "0", "-1", "1.0", "9" * 30, "0" * 11 + "19", "²", "x" * 22, "%00", "1/alerts/x"):
        assert ask("GET", f"{INCIDENTS}{reference}/").status_code == 404


def test_a_given_assignee_is_assigned_and_notified(create_incident, world):
    incident = create_incident(assigned_to=world.bob.username)

    assert incident["assigned_to"] == world.bob.username
    assert list_pending_notifications() == [
        ("Alice", NotificationKind.ESCALATION),
        ("Bob", NotificationKind.ASSIGNMENT),
    ]


def test_an_assignee_in_the_policy_is_notified_once(create_incident, world):
    create_incident(assigned_to=world.alice.username)

    assert list_pending_notifications() == [("Alice", NotificationKind.ESCALATION)]


@pytest.mark.parametrize(("status", "date"), [(2, "acknowledged_date"), (3, "resolved_date")])
def test_an_incident_created_as_acknowledged_or_resolved_notifies_nobody(create_incident, status, date):
    incident = create_incident(status=status)

    assert incident["status"] == status
    assert incident[date] is not None
    assert list_pending_notifications() == []


def test_blank_references_get_the_values_of_the_service(create_incident, world):
    incident = create_incident(escalation_policy="", sla="", team_priority="", assigned_to="")

    assert incident["escalation_policy"] == world.policy.unique_id
    assert incident["sla"] is None


def test_a_title_is_cleaned_and_not_refused(ask, create_incident):
    assert create_incident(title="Disk\x00\r\nfull \u202e!")["title"] == "Disk full !"
    assert ask("POST", INCIDENTS, {"title": "\x00", "service": "x"}).status_code == 400


def test_acknowledge_and_resolve_cancel_pending_notifications(ask, create_incident):
    create_incident()

    acknowledged = ask("PATCH", f"{INCIDENTS}1/", {"status": 2}, who="bob").json
    assert acknowledged["acknowledged_date"] is not None
    assert list_pending_notifications() == []

    resolved = ask("PUT", f"{INCIDENTS}1/", {"status": "3"}).json
    assert (resolved["status"], resolved["resolved_date"] is not None) == (3, True)

    again = ask("PATCH", f"{INCIDENTS}1/", {"status": 1}).json
    assert (again["status"], again["acknowledged_date"], again["resolved_date"]) == (1, None, None)
    assert list_pending_notifications() == [("Alice", NotificationKind.ESCALATION)]


def test_a_status_of_zero_changes_nothing(ask, create_incident):
    incident = create_incident()

    assert ask("PATCH", f"{INCIDENTS}1/", {"status": 0}).json == incident
    assert IncidentLog.select().count() == 2


def test_a_service_in_an_update_is_ignored(ask, create_incident, world):
    incident = create_incident()
    body = {"title": "Disk", "summary": "s", "status": 1, "service": world.charlies_team.unique_id}

    changed = ask("PUT", f"{INCIDENTS}{incident['unique_id']}/", body, scheme="Token").json

    assert (changed["title"], changed["summary"]) == ("Disk", "s")
    assert changed["service"] == world.service.unique_id


def test_an_assignment_stops_the_escalation_run_and_notifies_the_person(ask, create_incident, world):
    Service.update(auto_resolve_timeout=600).execute()
    two = [{"delay": d, "targets": [{"target_type": 2, "target_id": world.alice.username}]} for d in (0, 5)]
    EscalationPolicy.update(rules=two).where(EscalationPolicy.id == world.policy.id).execute()
    incident = create_incident()
    assert sorted(list_pending_timers(incident)) == [TimerKind.AUTO_RESOLVE, TimerKind.ESCALATE]

    changed = ask("PATCH", f"{INCIDENTS}1/", {"assigned_to": world.bob.username}).json

    assert changed["assigned_to_name"] == "Bob"
    assert list_pending_notifications() == [("Bob", NotificationKind.ASSIGNMENT)]
    assert list_pending_timers(incident) == [TimerKind.AUTO_RESOLVE]


def test_a_new_policy_starts_with_its_first_step(ask, create_incident, world):
    create_incident()
    team = f"/api/account/teams/{world.team.unique_id}"
    rules = [{"delay": 0, "targets": [{"target_type": 2, "target_id": world.bob.username}]}]
    policy = ask("POST", f"{team}/escalation_policies/", {"name": "Night", "rules": rules}).json

    changed = ask("PATCH", f"{INCIDENTS}1/", {"escalation_policy": policy["unique_id"]}).json

    assert changed["escalation_policy_object"]["name"] == "Night"
    assert list_pending_notifications() == [("Bob", NotificationKind.ESCALATION)]


def test_all_changes_of_one_update_are_applied_and_logged(ask, create_incident, world):
    create_incident()
    body = {"title": "Disk", "urgency": 0, "assigned_to": world.bob.username, "status": 2}

    changed = ask("PATCH", f"{INCIDENTS}1/", body, who="bob").json

    assert (changed["title"], changed["urgency"], changed["status"]) == ("Disk", 0, 2)
    assert changed["assigned_to"] == world.bob.username
    logged = [log.what for log in IncidentLog.select().order_by(IncidentLog.id)]
    assert logged == ["opened", "escalated", "edited", "assigned", "acknowledged"]


WRONG_UPDATES = [
    {"status": 4}, {"status": -1}, {"status": True}, {"urgency": 2}, {"title": ""}, {"assigned_to": "x"},
    {"escalation_policy": "x"}, {"sla": 7}, {"status": 2, "team_priority": "x"},
]  # fmt: skip


def test_an_invalid_update_changes_nothing(ask, create_incident):
    incident = create_incident()

    def check(body):
        assert ask("PATCH", f"{INCIDENTS}1/", body).status_code == 400
        assert ask("GET", f"{INCIDENTS}1/").json == incident

    assert list_offenders(check, WRONG_UPDATES) == []


def test_the_go_client_gets_no_priority_object(ask, create_incident, world):
    team = f"/api/account/teams/{world.team.unique_id}"
    priority = ask("POST", f"{team}/priority/", {"name": "P1"}).json["unique_id"]
    incident = create_incident(team_priority=priority)
    go = {"User-Agent": "Go-http-client/1.1"}

    assert incident["team_priority_object"]["name"] == "P1"
    assert (
        ask("GET", f"{INCIDENTS}1/", headers=go).json["team_priority_object"]
        == incident["team_priority_object"]
    )
    shown = ask("GET", f"{INCIDENTS}1/", headers=go, scheme="Token").json
    assert (shown["team_priority"], shown["team_priority_object"]) == (priority, None)


def test_an_incident_stays_when_its_service_is_deleted(ask, create_incident, world):
    create_incident()
    team = f"/api/account/teams/{world.team.unique_id}"
    assert ask("DELETE", f"{team}/services/{world.service.unique_id}/").status_code == 204

    left = ask("PATCH", f"{INCIDENTS}1/", {"status": 3}).json

    assert (left["status"], left["service"], left["service_object"]) == (3, None, None)


def test_a_user_who_is_removed_at_the_same_time_is_not_assigned(ask, world, monkeypatch):
    ask("POST", "/api/incidents/", {"title": "x", "service": world.service.unique_id})
    found = change_incident.lock_incident

    def assign_after_removal(*arguments, **more):
        User.update(removed_at=store().now()).where(User.id == world.bob.id).execute()
        return found(*arguments, **more)

    monkeypatch.setattr(change_incident, "lock_incident", assign_after_removal)
    refused = ask("PATCH", "/api/incidents/1/", {"assigned_to": world.bob.username}, scheme="Token")

    assert refused.status_code == 400
    assert list(refused.json["errors"]) == ["assigned_to"]


# --- another urgency --------------------------------------------------------------------------------


@pytest.fixture
def rules(world):
    """rules(bob, high=[0, 15], low=[]): set the delays in minutes of a person's notification rules."""

    def set_rules(user, **delays):
        contact = ContactMethod.get(ContactMethod.user == user)
        NotificationRule.delete().where(NotificationRule.user == user).execute()
        for urgency, minutes in delays.items():
            for delay in minutes:
                NotificationRule.create(
                    unique_id=make_uuid(), user=user, contact=contact, urgency=Urgency[urgency.upper()],
                    start_delay=delay, creation_date=contact.creation_date,
                )  # fmt: skip
        bump_version(world.account.id)

    return set_rules


def list_notified(
    incident: dict, state: NotificationStatus = NotificationStatus.PENDING
) -> list[tuple[str, int | None]]:
    """Return the people with notifications in this state, each with the delay of the rule or None."""
    rows = Notification.select().join(Incident).where(Incident.unique_id == incident["unique_id"])
    rows = rows.where(Notification.state == state).order_by(Notification.id)
    return [(row.user.first_name, row.rule.start_delay if row.rule else None) for row in rows]


def send_due() -> None:
    """Mark the due notifications as sent, as a delivery does."""
    Notification.update(state=NotificationStatus.SENT).where(
        Notification.not_before <= store().now()
    ).execute()


def change(ask, **body) -> None:
    assert ask("PATCH", f"{INCIDENTS}1/", body).status_code == 200


def test_lower_urgency_replaces_pending_notifications_by_the_rules_of_low_urgency(
    create_incident, ask, rules, world
):
    rules(world.alice, high=[15], low=[30])
    incident = create_incident()

    change(ask, urgency=0)
    assert list_notified(incident) == [("Alice", 30)]
    assert [
        row.outcome for row in Notification.select().where(Notification.state == NotificationStatus.CANCELLED)
    ] == [make_reason("urgency_lowered", by="Alice")]

    change(ask, urgency=0, title="The same")
    assert list_notified(incident) == [("Alice", 30)]


@pytest.mark.parametrize("urgency", [0, 1])
def test_a_notification_delayed_by_a_rule_stays_delayed(create_incident, ask, rules, world, urgency):
    rules(world.alice, high=[0, 5], low=[5])
    incident = create_incident(urgency=1 - urgency)
    later = store().now() + timedelta(hours=1)
    Incident.update(run_started_at=later).execute()
    Notification.update(not_before=later).execute()

    change(ask, urgency=urgency)
    assert list_notified(incident) == [[("Alice", 5)], [("Alice", 0), ("Alice", 5)]][urgency]
    pending = Notification.select().where(Notification.state == NotificationStatus.PENDING)
    assert {row.not_before - later for row in pending} == {
        timedelta(minutes=row.rule.start_delay) for row in pending
    }


def test_lower_urgency_does_not_notify_a_contact_again(create_incident, ask, rules, world):
    rules(world.alice, high=[0, 15], low=[0])
    incident = create_incident()
    send_due()

    change(ask, urgency=0)
    assert list_notified(incident) == []
    assert list_notified(incident, NotificationStatus.CANCELLED) == [("Alice", 15)]


@pytest.mark.parametrize(("high", "expected"), [([15], [("Alice", None)]), ([0, 15], [])])
def test_lower_urgency_without_a_rule_uses_the_users_own_address_once(
    create_incident, ask, rules, world, high, expected
):
    rules(world.alice, high=high)
    incident = create_incident()
    send_due()

    change(ask, urgency=0)
    assert list_notified(incident) == expected


def test_higher_urgency_notifies_the_last_notified_people_by_its_rules(create_incident, ask, rules, world):
    rules(world.alice, high=[0, 5], low=[0])
    rules(world.bob, high=[0], low=[0])
    incident = create_incident(urgency=0)
    send_due()

    change(ask, urgency=1)
    assert list_notified(incident) == [("Alice", 0), ("Alice", 5)]
    reasons = {
        row.reason for row in Notification.select().where(Notification.state == NotificationStatus.PENDING)
    }
    assert reasons == {
        make_reason(
            "named_by_step", step=make_reason("step", number=1, policy="Default Escalation Policy")
        ).add(make_reason("urgency_raised", by="Alice"))
    }

    change(ask, assigned_to=world.bob.username)
    send_due()
    change(ask, urgency=0)
    change(ask, urgency=1)
    assert list_notified(incident) == []
    assert list_notified(incident, NotificationStatus.SENT)[-1] == ("Bob", 0)


def test_lower_and_higher_urgency_restore_the_notifications(create_incident, ask, rules, world):
    rules(world.alice, high=[0, 15], low=[0, 30])
    incident = create_incident()
    send_due()

    for urgency, delay in ((0, []), (1, [15]), (0, []), (1, [15])):
        change(ask, urgency=urgency)
        assert list_notified(incident) == [("Alice", minutes) for minutes in delay]
    assert list_notified(incident, NotificationStatus.SENT) == [("Alice", 0)]


def test_higher_urgency_of_an_acknowledged_incident_notifies_nobody(create_incident, ask, rules, world):
    rules(world.alice, high=[0], low=[0])
    incident = create_incident(urgency=0)
    send_due()
    change(ask, status=2)

    change(ask, urgency=1)
    assert list_notified(incident) == []


def test_an_assignment_with_a_new_urgency_notifies_only_the_new_assignee(create_incident, ask, rules, world):
    rules(world.bob, high=[5], low=[30])
    incident = create_incident(urgency=0)

    change(ask, urgency=1, assigned_to=world.bob.username)
    assert list_notified(incident) == [("Bob", 5)]
