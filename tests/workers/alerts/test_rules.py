"""Alert rules and requested options change alerts and incidents, with a real database."""

import json
from datetime import timedelta

import pytest

from bench.servers.plans import list_scans
from models.domain.applications import GENERIC
from models.domain.enums import Urgency, WorkState
from models.domain.reasons import from_json, make_reason
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import bump_version
from models.tables.events import Event, list_reasons
from models.tables.incidents import (
    Incident,
    IncidentAssignment,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.notifications import Message, Notification
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag
from models.tables.timers import Timer
from pipeline.topology import build_segments
from tests.support.alerts import accept
from tests.support.rules import RuleAction, action, add_rule, equals, var
from tests.support.scenarios.incident_log import list_log_reasons
from tests.support.scenarios.processed_alerts import process_alert
from tests.support.scenarios.timers import set_policy
from workers.alerts import load_lane_state, process_lane
from workers.timers import fire

A = RuleAction
MINUTE = timedelta(minutes=1)


def create_template(world, name, *tasks):
    """Create a task template; each task is (title, minutes until it is due)."""
    template = create_named(world, TaskTemplate, name)
    for position, (title, minutes) in enumerate(tasks, start=1):
        TemplateTask.create(
            unique_id=make_uuid(), task_template=template, title=title, due_in=minutes, position=position,
            creation_date=template.creation_date,
        )  # fmt: skip
    return template


def create_role(world, title="Scribe"):
    return IncidentRole.create(
        unique_id=make_uuid(), team=world.team, title=title, creation_date=world.team.creation_date
    )


def update_row(world, row, **columns):
    """Change configuration and its version, as an operation of the interface does."""
    type(row).update(columns).where(type(row).id == row.id).execute()
    bump_version(world.account.id)


def create_named(world, table, name):
    return table.create(
        unique_id=make_uuid(), team=world.team, name=name, creation_date=world.team.creation_date
    )


def list_notified():
    query = Notification.select().order_by(Notification.not_before, Notification.id)
    return [(notification.user.first_name, notification.not_before) for notification in query]


def test_a_new_incident_follows_the_rules(world, now):
    sla, priority, tag = (create_named(world, table, "x") for table in (Sla, Priority, Tag))
    policy = EscalationPolicy.create(
        unique_id=make_uuid(), team=world.team, name="Database", rules=[], creation_date=now
    )
    add_rule(
        world,
        action(A.CHANGE_MESSAGE, "{{payload.host}}: {{message}}"),
        action(A.CHANGE_SUMMARY, "by a rule"),
        action(A.CHANGE_URGENCY, "0"),
        action(A.ASSIGN_SLA, sla=sla.unique_id),
        action(A.ASSIGN_PRIORITY, team_priority=priority.unique_id),
        action(A.ROUTE_TO_ESCALATION_POLICY, escalation_policy=policy.unique_id),
        action(A.ADD_TAGS, tag.unique_id),
        action(A.ADD_NOTE, "look at {{payload.host}}"),
    )
    process_alert(world, now, payload={"host": "db1"})

    incident = Incident.get()
    assert (incident.title, incident.summary, incident.urgency) == (
        "db1: Disk full",
        "by a rule",
        Urgency.LOW,
    )
    assert (incident.sla, incident.team_priority, incident.escalation_policy) == (sla, priority, policy)
    assert IncidentTag.get().team_tag == tag
    note = IncidentNote.get()
    assert (note.note, note.user) == ("look at db1", None)


def test_an_open_incident_gets_notes_and_tags_and_nothing_else(world, now):
    tag = create_named(world, Tag, "Disk")
    process_alert(world, now)
    before = Incident.get()
    add_rule(
        world,
        *(
            action(A.CHANGE_MESSAGE, "x"),
            action(A.CHANGE_URGENCY, "0"),
            action(A.ASSIGN_USER, world.bob.username),
        ),
        *(
            action(A.DELAY_NOTIFICATIONS, "60"),
            action(A.ADD_NOTE, "again"),
            action(A.ADD_TAGS, tag.unique_id),
        ),
    )
    for level in ("critical", "acknowledged", "critical"):
        process_alert(world, now, level=level)

    after = Incident.get()
    for name in ("title", "urgency", "assigned_to", "escalation_policy", "run_started_at"):
        assert getattr(after, name) == getattr(before, name), name
    assert [note.note for note in IncidentNote.select()] == ["again"] * 3
    assert IncidentTag.select().count() == 1
    assert [name for name, _ in list_notified()] == ["Alice"]


def test_a_new_incident_has_the_roles_tasks_and_helpers_that_rules_give_it(world, now):
    scribe, outage = create_role(world), create_template(world, "Outage", ("Look", 15))
    usual = create_template(world, "Every time", ("Inform everybody", -1))
    update_row(world, world.service, task_template=usual)
    set_policy(world, (0, world.alice))
    add_rule(
        world,
        action(A.ASSIGN_ROLE, world.bob.username, key=scribe.unique_id),
        action(A.CREATE_TASK, "Call {{payload.host}}\nand wait"),
        action(A.APPLY_TASK_TEMPLATE, task_template=outage.unique_id),
        action(A.APPLY_TASK_TEMPLATE, task_template=usual.unique_id),
        action(A.ADD_RESPONDER, world.bob.username),
    )
    process_alert(world, now, payload={"host": "db1"})

    (assignment,) = IncidentAssignment.select()
    assert (assignment.incident, assignment.role, assignment.user) == (Incident.get(), scribe, world.bob)
    assert [(task.title, task.description, task.due_at) for task in IncidentTask.select()] == [
        ("Call db1", "Call db1\nand wait", None),
        ("Inform everybody", "", None),
        ("Look", "", now + 15 * MINUTE),
    ]
    (responder,) = IncidentResponder.select()
    assert (responder.user, responder.escalation_policy) == (world.bob, None)
    assert sorted(name for name, _ in list_notified()) == ["Alice", "Bob"]
    assert list_log_reasons("role_given") == [
        make_reason("role_given", person="Bob", role="Scribe", by="an alert (critical)")
    ]
    assert list_log_reasons("task_added") == [
        make_reason("task_added", task="Call db1", by="an alert (critical)")
    ]
    assert list_log_reasons("tasks_added") == [
        make_reason("tasks_added", template="Every time"),
        make_reason("tasks_added", template="Outage"),
    ]


def test_an_open_incident_gets_roles_and_helpers_once_and_no_tasks(world, now):
    scribe = create_role(world)
    process_alert(world, now)
    add_rule(
        world,
        action(A.ASSIGN_ROLE, world.bob.username, key=scribe.unique_id),
        action(A.ADD_RESPONDER, world.bob.username),
        action(A.ADD_RESPONDER, world.policy.unique_id),
        action(A.CREATE_TASK, "again"),
        action(A.APPLY_TASK_TEMPLATE, task_template=create_template(world, "Outage", ("Look", 0)).unique_id),
    )
    for level in ("critical", "acknowledged", "critical", "warning"):
        process_alert(world, now, level=level)

    assert IncidentAssignment.get().user == world.bob
    assert {(row.user, row.escalation_policy) for row in IncidentResponder.select()} == {
        (world.bob, None),
        (None, world.policy),
    }
    assert len(list_log_reasons("called")) == 2
    assert len(list_log_reasons("role_given")) == 1
    assert not IncidentTask.select().exists()
    # Alice is notified by the escalation run and as assignee by the policy.
    assert sorted(name for name, _ in list_notified()) == ["Alice", "Alice", "Bob"]


def test_the_last_rule_decides_who_has_a_role_and_a_later_alert_changes_it(world, now):
    scribe = create_role(world)
    for who, when in ((world.alice, ""), (world.bob, ""), (world.charlie, equals("message", "worse"))):
        add_rule(world, action(A.ASSIGN_ROLE, who.username, key=scribe.unique_id), when=when)
    process_alert(world, now)
    first = IncidentAssignment.get()
    process_alert(world, now, message="worse")

    assert (first.user, IncidentAssignment.get().user) == (world.bob, world.charlie)
    assert IncidentAssignment.get().unique_id == first.unique_id
    assert list_log_reasons("role_given") == [
        make_reason("role_given", person="Bob", role="Scribe", by="an alert (critical)"),
        make_reason("role_given", person="Charlie", role="Scribe", by="an alert (critical)"),
    ]


def test_a_resolving_alert_adds_no_responder(world, now):
    process_alert(world, now)
    add_rule(world, action(A.ADD_RESPONDER, world.bob.username))
    process_alert(world, now, level="resolved")

    assert not IncidentResponder.select().exists()
    assert [name for name, _ in list_notified()] == ["Alice"]


def test_a_responder_is_notified_after_the_delay(world, now):
    add_rule(world, action(A.ADD_RESPONDER, world.bob.username), action(A.DELAY_NOTIFICATIONS, "90"))
    process_alert(world, now)
    fire.fire_due(now + timedelta(seconds=90))

    assert sorted(list_notified()) == [(name, now + timedelta(seconds=90)) for name in ("Alice", "Bob")]


@pytest.mark.parametrize("gone", ["role", "template", "user"])
def test_a_deleted_reference_gives_no_role_and_no_tasks(world, now, gone):
    scribe, outage = create_role(world), create_template(world, "Outage", ("Look", 15))
    add_rule(
        world,
        action(A.ASSIGN_ROLE, world.bob.username, key=scribe.unique_id),
        action(A.APPLY_TASK_TEMPLATE, task_template=outage.unique_id),
        action(A.ADD_RESPONDER, world.bob.username),
    )
    if gone == "user":
        update_row(world, world.bob, removed_at=now)
    else:
        {"role": scribe, "template": outage}[gone].delete_instance()
        bump_version(world.account.id)
    event = process_alert(world, now)

    notes = [from_json(done["note"]) if "note" in done else None for done in event.rules[0]["actions"]]
    assert (
        notes
        == {
            "role": [make_reason("no_such_thing", noun="incident role"), None, None],
            "template": [None, make_reason("no_such_thing", noun="task template"), None],
            "user": [
                make_reason("no_such_thing", noun="user"),
                None,
                make_reason("no_such_thing", noun="user, escalation policy or schedule"),
            ],
        }[gone]
    )
    assert event.incident_created


@pytest.mark.parametrize(
    ("level", "becomes", "statuses"),
    [("error", "critical", [1]), ("critical", "info", []), ("info", "resolved", [])],
)
def test_a_changed_level_decides_whether_an_incident_is_opened(world, now, level, becomes, statuses):
    add_rule(world, action(A.CHANGE_ALERT_TYPE, becomes))
    process_alert(world, now, level=level)

    assert [incident.status for incident in Incident.select()] == statuses


def test_a_changed_level_resolves(world, now):
    add_rule(world, action(A.CHANGE_ALERT_TYPE, "resolved"), when=equals("message", "all is well"))
    process_alert(world, now)
    process_alert(world, now, level="info", message="all is well")

    assert Incident.get().status == 3


def test_alerts_that_a_rule_gives_one_entity_id_are_one_incident(world, now):
    add_rule(world, action(A.CHANGE_ENTITY_ID, "{{payload.rack}}"))
    for entity in ("db1", "db2"):
        process_alert(world, now, entity, payload={"rack": "r1"})
    process_alert(world, now, "db3", payload={"rack": "r2"})

    assert Incident.select().count() == 2
    assert [event.entity_id for event in Event.select().order_by(Event.id)] == ["r1", "r1", "r2"]


def test_a_fresh_id_is_an_incident_for_every_alert(world, now):
    add_rule(world, action(A.CHANGE_ENTITY_ID, ""))
    for _ in range(3):
        process_alert(world, now)

    assert Incident.select().count() == 3


def test_a_hashed_entity_id_is_the_same_for_the_resolve(world, now):
    add_rule(world, action(A.HASH_ENTITY_ID))
    process_alert(world, now)
    process_alert(world, now, level="resolved")

    assert Incident.get().status == 3


def test_an_alert_soon_after_the_last_incident_is_suppressed(world, now):
    """The example of contract 4.2."""
    recent = {"and": [{"<": [var("seconds_since_last"), 600]}, equals("alert_type", "3")]}
    process_alert(world, now)
    process_alert(world, now + MINUTE, level="resolved")
    add_rule(world, action(A.SUPPRESS), when=recent)

    soon, later = process_alert(world, now + 10 * MINUTE), process_alert(world, now + 12 * MINUTE)

    assert (soon.suppressed, soon.incident) == (True, None)
    assert (later.suppressed, later.incident_created) == (False, True)


def test_a_suppressed_alert_is_stored_without_effect(world, now):
    process_alert(world, now)
    event = process_alert(world, now, level="resolved", suppressed=True)

    assert (event.suppressed, event.incident) == (True, None)
    assert list_reasons(event)[-1] == ("dedupe", make_reason("suppressed"))
    assert Incident.get().status == 1


@pytest.mark.parametrize("covers", [0, 1, 2, 3])
def test_an_integration_covers_its_configured_levels(world, now, covers):
    update_row(world, world.integration, create_incidents_for=covers)
    for level in ("info", "warning", "error", "critical"):
        process_alert(world, now, level, level)

    opened = [incident.title for incident in Incident.select()]
    assert len(opened) == covers
    created = {e.entity_id for e in Event.select() if e.incident_created}
    assert created == set(["critical", "error", "warning"][:covers])


def test_a_level_that_is_not_covered_joins_the_open_incident_of_its_entity(world, now):
    process_alert(world, now)
    event = process_alert(world, now, level="info")

    assert (event.incident, event.incident_created) == (Incident.get(), False)


def test_a_disabled_service_stores_alerts_and_opens_no_incident(world, now):
    update_row(world, world.service, status=0)
    event = process_alert(world, now)

    assert event.incident is None
    disabled = make_reason("service_disabled", service=world.service.name)
    assert list_reasons(event)[-1] == ("dedupe", disabled)


def test_an_incident_has_the_urgency_of_its_integration(world, now):
    update_row(world, world.integration, default_urgency=0)
    process_alert(world, now)

    assert Incident.get().urgency == Urgency.LOW


def test_the_context_window_reaches_half_an_hour_back(world, now):
    process_alert(world, now)

    incident = Incident.get()
    assert incident.context_window_end == incident.creation_date
    assert incident.context_window_start == incident.creation_date - 30 * MINUTE


def test_a_resolve_that_arrives_first_counts_by_the_sources_time(world, now):
    """Invariant 4 (design, section 2), with a rule that changes the entity_id."""
    add_rule(world, action(A.CHANGE_ENTITY_ID, "all of it"))
    for status, minutes in (("resolved", 5), ("firing", 1)):
        moment = (now - 10 * MINUTE + minutes * MINUTE).isoformat()
        one = {"status": status, "labels": {"alertname": "A"}, "fingerprint": status, "startsAt": moment}
        body = f'{{"alerts": [{json.dumps({**one, "endsAt": moment})}]}}'.encode()
        accept(world, now, source="prometheus", body=body)
    process_lane.run(world.service.id)

    assert not Incident.select().exists()
    (_, why) = list_reasons(Event.select().order_by(Event.id.desc()).get())[-1]
    assert why == make_reason("older_than_resolve")


def test_rules_override_the_requested_options(world, now):
    gold, silver = create_named(world, Sla, "Gold"), create_named(world, Sla, "Silver")
    priority, tag = create_named(world, Priority, "P1"), create_named(world, Tag, "Disk")
    add_rule(world, action(A.ASSIGN_SLA, silver.unique_id), when=equals("message", "ruled"))
    requested = {
        "sla": gold.unique_id,
        "priority": "p1",
        "tags": ["disk", "none"],
        "escalation_policy": "none",
    }
    process_alert(world, now, "a", **requested)
    process_alert(world, now, "b", message="ruled", **requested)

    first, second = Incident.select().order_by(Incident.id)
    assert (first.sla, first.team_priority, first.escalation_policy) == (gold, priority, world.policy)
    assert second.sla == silver
    assert [row.team_tag for row in IncidentTag.select()] == [tag, tag]
    reasons = dict(list_reasons(Event.select().order_by(Event.id).get()))
    unknown = ("escalation_policy", make_reason("tags_unknown", count=1))
    assert reasons["rules"] == make_reason("alert_rules_matched", matched=0, total=1).add(
        make_reason("options_requested", options=("sla", "tags", "team_priority")),
        make_reason("options_unknown", options=unknown),
    )


def test_nobody_is_notified_before_the_delay_is_over(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    add_rule(world, action(A.DELAY_NOTIFICATIONS, "90"))
    process_alert(world, now)
    fire.fire_due(now + timedelta(seconds=89))
    assert list_notified() == []

    fire.fire_due(now + timedelta(seconds=90))
    fire.fire_due(now + timedelta(seconds=390))

    assert list_notified() == [("Alice", now + timedelta(seconds=90)), ("Bob", now + timedelta(seconds=390))]


@pytest.mark.parametrize("reaches", ["alice", "nobody", "no policy"])
def test_nobody_is_notified_if_the_incident_is_resolved_in_the_delay(world, now, reaches):
    shorten_policy(world, reaches)
    add_rule(world, action(A.DELAY_NOTIFICATIONS, "90"), action(A.ASSIGN_USER, world.bob.username))
    process_alert(world, now)
    process_alert(world, now + MINUTE, level="resolved")
    fire.fire_due(now + 60 * MINUTE)

    assert {notification.state for notification in Notification.select()} <= {2}
    assert not Timer.select().where(Timer.done_at.is_null()).exists()


def shorten_policy(world, whom):
    if whom == "nobody":
        set_policy(world, (0,), (5,))
    elif whom == "no policy":
        Service.update(escalation_policy=None).execute()
    bump_version(world.account.id)


@pytest.mark.parametrize("reaches", ["nobody", "no policy"])
def test_the_last_resort_is_notified_once_after_the_delay(world, now, reaches):
    shorten_policy(world, reaches)
    add_rule(world, action(A.DELAY_NOTIFICATIONS, "90"))
    process_alert(world, now)
    fire.fire_due(now + timedelta(seconds=89))
    assert [message.next_attempt_at for message in Message.select()] in ([], [now + timedelta(seconds=90)])

    for seconds in (90, 120, 600, 3600):
        fire.fire_due(now + timedelta(seconds=seconds))

    assert list_notified() == [("Alice", now + timedelta(seconds=90))]
    assert len(list(Incident.get().incidentlog_set)) <= 5


def test_a_delay_does_not_postpone_the_time_out(world, now):
    """Contract 4.3: an incident is resolved when it is older than the service says."""
    update_row(world, world.service, auto_resolve_timeout=600)
    add_rule(world, action(A.DELAY_NOTIFICATIONS, "3600"))
    process_alert(world, now)
    fire.fire_due(now + 10 * MINUTE)
    fire.fire_due(now + 100 * MINUTE)

    assert Incident.get().status == 3
    assert list_notified() == []


@pytest.mark.parametrize("delay", ["0", "90"])
@pytest.mark.parametrize("steps", ["bob is the first", "bob comes later", "bob is in none"])
def test_an_assigned_person_is_notified_once_at_the_beginning(world, now, delay, steps):
    first, later = {
        "bob is the first": (world.bob, world.alice),
        "bob comes later": (world.alice, world.bob),
        "bob is in none": (world.alice, world.alice),
    }[steps]
    set_policy(world, (0, first), (30, later))
    add_rule(world, action(A.ASSIGN_USER, world.bob.username), action(A.DELAY_NOTIFICATIONS, delay))
    process_alert(world, now)
    begin = now + timedelta(seconds=int(delay))
    fire.fire_due(begin)

    assert [at for name, at in list_notified() if name == "Bob"] == [begin]
    assert Incident.get().assigned_to == world.bob


def test_a_rule_applies_to_alerts_accepted_while_it_exists(world, now):
    rule = add_rule(world, action(A.CHANGE_MESSAGE, "one"))
    titles = [process_alert(world, now, "a").message]
    update_row(world, rule, actions=[action(A.CHANGE_MESSAGE, "two")])
    titles.append(process_alert(world, now, "b").message)
    update_row(world, rule, is_enabled=False)
    titles.append(process_alert(world, now, "c").message)
    AlertRule.delete().execute()
    bump_version(world.account.id)
    titles.append(process_alert(world, now, "d").message)

    assert titles == ["one", "two", "Disk full", "Disk full"]
    (_, why) = list_reasons(Event.select().order_by(Event.id.desc()).get())[-4]
    assert why == make_reason("no_alert_rules")


def test_rules_run_by_position_and_then_by_age(world, now):
    for text, position in (("c", 2), ("a", 1), ("d", 2), ("b", 1)):
        add_rule(world, action(A.CHANGE_SUMMARY, "{{summary}}" + text), position=position)

    assert process_alert(world, now).summary == "abcd"


def test_an_integration_has_its_own_rules(world, now):
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    add_rule(world, action(A.CHANGE_MESSAGE, "ruled"), integration=other)

    assert process_alert(world, now).message == "Disk full"
    assert process_alert(replace(world, integration=other), now).message == "ruled"


def test_a_rule_keeps_links_images_and_notes(world, now):
    add_rule(world, action(A.CHANGE_MESSAGE, "x"), action(A.CHANGE_ENTITY_ID, "y"))
    event = process_alert(
        world,
        now,
        urls=["https://example.org/a"],
        images=[{"image_src": "https://example.org/i.png", "image_text": "graph"}],
        notes=[{"note_title": "t", "note_text": "n"}],
        payload={"a": 1},
    )

    assert event.alert["urls"] == [
        {"link_url": "https://example.org/a", "link_text": "https://example.org/a"}
    ]
    assert event.alert["images"][0]["image_text"] == "graph"
    assert event.alert["notes"] == [{"note_title": "t", "note_text": "n"}]
    assert (event.alert["payload"], event.message, event.entity_id) == ({"a": 1}, "x", "y")


def test_a_rule_with_a_deleted_tag_or_policy_says_so(world, now):
    tag = create_named(world, Tag, "Disk")
    add_rule(world, action(A.ADD_TAGS, tag.unique_id))
    process_alert(world, now, "a")
    tag.delete_instance()
    bump_version(world.account.id)
    event = process_alert(world, now, "b")

    (done,) = event.rules[0]["actions"]
    assert {**done, "note": from_json(done["note"])} == {
        "action": "add_tags",
        "note": make_reason("tags_missing", missing=1, requested=1),
    }


def test_an_alert_opens_its_incident_despite_a_concurrent_deletion(world, now, monkeypatch):
    """A person deletes the tag after the worker loaded the configuration and before it writes."""
    add_rule(world, action(A.ADD_TAGS, create_named(world, Tag, "Disk").unique_id))
    load, looked = load_lane_state.load, []

    def load_before_a_deletion(*arguments, **more):
        state = load(*arguments, **more)
        looked.append(state)
        if len(looked) < 4:
            Tag.delete().execute()
        return state

    monkeypatch.setattr(load_lane_state, "load", load_before_a_deletion)
    event = process_alert(world, now)

    assert (event.state, event.incident_created) == (WorkState.DONE, True)
    assert len(looked) == 4


BUSY = [
    (action(A.CHANGE_ENTITY_ID, "{{payload.to}}"),),
    (action(A.ADD_NOTE, "n"), action(A.ADD_TAGS, "Disk"), action(A.CHANGE_URGENCY, "0")),
    (action(A.CHANGE_MESSAGE, "{{message}}!"), action(A.CREATE_TASK, "t")),
]


@pytest.fixture
def world_with_rules(world):
    create_named(world, Tag, "Disk")
    outage, scribe = create_template(world, "Outage", ("Look", 15), ("Inform", -1)), create_role(world)
    duties = (
        action(A.APPLY_TASK_TEMPLATE, task_template=outage.unique_id),
        action(A.ASSIGN_ROLE, world.bob.username, key=scribe.unique_id),
        action(A.ADD_RESPONDER, world.bob.username),
        action(A.ADD_RESPONDER, world.policy.unique_id),
    )
    for actions in (*BUSY, duties):
        add_rule(world, *actions)
    add_rule(world, action(A.SUPPRESS), when={"<": [var("seconds_since_last"), 1]})


def test_statements_do_not_grow_with_the_batch(world, now, world_with_rules, statements):
    def count(alerts):
        for number in range(alerts):
            body = {"payload": {"to": f"{alerts}-{number}"}, "entity_id": f"e{number}"}
            accept(world, now, message="m", alert_type="critical", **body)
        with statements() as seen:
            process_lane._run_transaction(world.service.id, process_lane.get_segment("normalize"), 1000)
        return len(seen)

    count(2)
    assert count(300) == count(1)


def test_a_lane_with_rules_scans_no_large_table(world, now, world_with_rules, statements):
    Service.update(collation=1, collation_time=5).execute()
    for level in ("critical", "critical", "resolved", "critical"):
        accept(world, now, message="m", alert_type=level, payload={"to": "x"})
    with statements() as seen:
        process_lane.run(world.service.id)

    assert list_scans(seen) == []


def test_rules_are_deleted_with_their_integration(world, now):
    add_rule(world, action(A.SUPPRESS))
    Integration.delete().execute()

    assert not AlertRule.select().exists()


def test_an_alert_opens_its_incident_despite_a_deletion_after_rules(world, now, monkeypatch):
    monkeypatch.setattr(process_lane, "_segments", build_segments(["rules"]))
    sla, priority, tag, other = (create_named(world, table, "x") for table in (Sla, Priority, Tag, Tag))
    scribe, leader, outage = (
        create_role(world),
        create_role(world, "Leader"),
        create_template(world, "x", ("Look", 1)),
    )
    policy = EscalationPolicy.create(
        unique_id=make_uuid(), team=world.team, name="Database", rules=[], creation_date=now
    )
    add_rule(
        world,
        action(A.ASSIGN_SLA, sla=sla.unique_id),
        action(A.ASSIGN_PRIORITY, team_priority=priority.unique_id),
        action(A.ROUTE_TO_ESCALATION_POLICY, escalation_policy=policy.unique_id),
        action(A.ADD_TAGS, f"{tag.unique_id}, {other.unique_id}"),
        action(A.ASSIGN_ROLE, world.bob.username, key=scribe.unique_id),
        action(A.ASSIGN_ROLE, world.bob.username, key=leader.unique_id),
        action(A.APPLY_TASK_TEMPLATE, task_template=outage.unique_id),
        action(A.ADD_RESPONDER, policy.unique_id),
        action(A.ADD_RESPONDER, world.bob.username),
    )
    process_alert(world, now)
    for row in (sla, priority, tag, policy, scribe, outage):
        row.delete_instance()
    bump_version(world.account.id)
    process_lane.run(world.service.id, "dedupe")

    incident = Incident.get()
    assert (incident.sla, incident.team_priority, incident.escalation_policy) == (None, None, world.policy)
    assert [row.team_tag for row in IncidentTag.select()] == [other]
    assert [(row.role, row.user) for row in IncidentAssignment.select()] == [(leader, world.bob)]
    assert [row.user for row in IncidentResponder.select()] == [world.bob]
    assert not IncidentTask.select().exists()
    assert Notification.select().exists()
