"""Alert rules, alerts and results, all through the interface."""

import pytest

from models.domain.enums import WorkState
from models.store.ids import make_uuid
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.schedules import Schedule
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import IncidentRole, Priority, Sla, Tag
from tests.support.rules import RuleAction
from workers.alerts import process_lane

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1", "payload": {"host": "db1"}}


@pytest.fixture
def rules(world) -> str:
    team, service = world.team.unique_id, world.service.unique_id
    integration = world.integration.unique_id
    return f"/api/account/teams/{team}/services/{service}/integrations/{integration}/transformers/"


@pytest.fixture
def send(ask, world):
    """send({...}): send an alert, process it, and return the answer."""

    def sent(body):
        account, key = world.account.account_identifier, world.integration.integration_key
        answer = ask("POST", f"/integration/{account}/generic/{key}/", body, who=None)
        process_lane.run(world.service.id)
        return answer

    return sent


@pytest.fixture
def references(world, now):
    """Create one object of each kind that rules can refer to, and return the ids by action."""
    made = {
        table: table.create(unique_id=make_uuid(), team=world.team, name="x", creation_date=now)
        for table in (Sla, Priority, Tag, Schedule, TaskTemplate)
    }
    for minutes, title in ((-1, "Inform everybody"), (15, "Look at the graphs")):
        TemplateTask.create(
            unique_id=make_uuid(), task_template=made[TaskTemplate], title=title, due_in=minutes,
            position=1, creation_date=now,
        )  # fmt: skip
    return {
        RuleAction.CHANGE_ALERT_TYPE: "error",
        RuleAction.ADD_NOTE: "look at {{payload.host}}",
        RuleAction.ROUTE_TO_ESCALATION_POLICY: world.policy.unique_id,
        RuleAction.ASSIGN_SCHEDULE: made[Schedule].unique_id,
        RuleAction.ASSIGN_USER: world.bob.username,
        RuleAction.CHANGE_URGENCY: "0",
        RuleAction.CHANGE_MESSAGE: "{{message}} on {{payload.host}}",
        RuleAction.CHANGE_SUMMARY: "{{alert.message}}!",
        RuleAction.CHANGE_ENTITY_ID: "",
        RuleAction.ASSIGN_ROLE: world.bob.username,
        RuleAction.ADD_TAGS: made[Tag].unique_id,
        RuleAction.CREATE_TASK: "clean up",
        RuleAction.ASSIGN_SLA: made[Sla].unique_id.upper(),
        RuleAction.ASSIGN_PRIORITY: made[Priority].unique_id,
        RuleAction.APPLY_TASK_TEMPLATE: made[TaskTemplate].unique_id,
        RuleAction.ADD_RESPONDER: world.bob.username,
        RuleAction.DELAY_NOTIFICATIONS: "60",
    }


@pytest.fixture
def keys(world) -> dict[RuleAction, str]:
    """Return the `key` of the actions that have one."""
    return {RuleAction.ASSIGN_ROLE: IncidentRole.get(IncidentRole.team == world.team).unique_id}


def test_every_action_that_the_interface_accepts_has_an_effect(ask, world, rules, send, references, keys):
    action_values = {**references, RuleAction.HASH_ENTITY_ID: "", RuleAction.SUPPRESS: ""}
    assert set(action_values) == set(RuleAction)
    actions = [
        {"action_type": int(kind), "value": value, "key": keys.get(kind, "")}
        for kind, value in action_values.items()
    ]
    made = ask("POST", rules, {"description": "all of it", "actions": actions})
    assert made.status_code == 201, made.json
    trace = send(CRITICAL).json["trace_id"]

    (alert,) = ask("GET", f"/api/tocsin/alerts/{trace}/").json["alerts"]
    (record,) = alert["rules"]
    assert (alert["status"], alert["suppressed"]) == ("completed", True)
    assert alert["message"] == "Disk full on db1"
    assert {done["action"] for done in record["actions"] if "note" in done} == {"assign_schedule"}
    assert len(record["actions"]) == len(RuleAction)


def test_an_incident_shows_the_effects_of_the_rules(ask, world, rules, send, references, keys):
    for kind in (RuleAction.CHANGE_ALERT_TYPE, RuleAction.DELAY_NOTIFICATIONS):
        references.pop(kind)
    for kind, value in references.items():
        action = {"action_type": int(kind), "value": value, "key": keys.get(kind, "")}
        assert ask("POST", rules, {"actions": [action]}).status_code == 201
    send(CRITICAL)

    shown = ask("GET", "/api/incidents/1/").json
    assert (shown["title"], shown["summary"], shown["urgency"]) == (
        "Disk full on db1",
        "Disk full on db1!",
        0,
    )
    assert shown["assigned_to"] == world.bob.username
    assert (shown["sla_object"]["name"], shown["team_priority_object"]["name"]) == ("x", "x")
    assert [tag["name"] for tag in shown["tags"]] == ["x"]
    ours = "/api/tocsin/incidents/1"
    (role,), tasks = ask("GET", f"{ours}/roles/").json, ask("GET", f"{ours}/tasks/").json
    assert (role["role_title"], role["user_name"]) == ("Incident Commander", "Bob")
    assert [task["title"] for task in tasks] == ["clean up", "Inform everybody", "Look at the graphs"]
    (responder,) = ask("GET", "/api/incidents/1/responders/").json
    assert (responder["user_name"], responder["response_status"]) == ("Bob", 3)


def test_the_event_shows_changed_and_unchanged_values(ask, world, rules, send):
    ask("POST", rules, {"actions": [{"action_type": 8, "value": "ruled"}]})
    more = {
        "urls": [{"link_url": "https://example.org/a", "link_text": "Runbook"}],
        "images": [{"image_src": "https://example.org/i.png", "image_text": "graph"}],
        "notes": [{"note_title": "t", "note_text": "n"}],
    }
    key = world.integration.integration_key
    answer = ask("POST", f"/api/events/{key}/", {**CRITICAL, **more}, who=None).json
    process_lane.run(world.service.id)
    shown = ask("GET", "/api/incidents/1/alerts/").json
    (alert,) = shown["results"] if isinstance(shown, dict) else shown

    assert (answer["message"], alert["message"]) == ("Disk full", "ruled")
    for kind in more:
        assert answer[kind] == alert[kind]
    assert answer["unique_id"] == alert["unique_id"]
    assert answer["urls"][0]["link_text"] == "Runbook"


def test_only_incidents_of_alerts_have_a_context_window(ask, world, send):
    send(CRITICAL)
    ask("POST", "/api/incidents/", {"title": "by hand", "service": world.service.unique_id})

    alerted, manual = (ask("GET", f"/api/incidents/{number}/").json for number in (1, 2))
    assert alerted["context_window_end"] == alerted["creation_date"]
    assert alerted["context_window_start"] < alerted["context_window_end"]
    assert (manual["context_window_start"], manual["context_window_end"]) == (None, None)


@pytest.mark.parametrize(
    "requested_options",
    [
        {"sla": 5, "escalation_policy": [], "priority": {"a": 1}, "tags": "x", "stakeholders": 7},
        {"tags": [None, {}, []], "stakeholder_comms": "x", "sla": "gone"},
        {"tags": {"a": "b"}, "priority": "\u0000"},
    ],
    ids=str,
)
def test_invalid_requested_options_are_ignored_without_an_error(send, requested_options):
    assert send({**CRITICAL, **requested_options}).status_code == 200

    assert Incident.select().count() == 1
    assert Event.get().state == WorkState.DONE


def test_a_dry_run_and_the_pipeline_agree(ask, world, rules, send):
    """The dry run and the pipeline agree on a rule that changes the entity of the alert."""
    rule = {
        "rule_json": '{"==": [{"var": "payload.host"}, "db1"]}',
        "actions": [
            {"action_type": 10, "value": "{{payload.host}}-disk"},
            {"action_type": 8, "value": "on {{entity_id}}"},
        ],
    }
    integration = world.integration.unique_id
    dry_run = ask(
        "POST", "/api/tocsin/rules/try/", {**rule, "payload": CRITICAL, "integration": integration}
    ).json
    ask("POST", rules, rule)
    trace = send(CRITICAL).json["trace_id"]

    (alert,) = ask("GET", f"/api/tocsin/alerts/{trace}/").json["alerts"]
    done = alert["rules"][0]["actions"]
    assert (
        [each["to"] for each in dry_run["actions"]]
        == [each["to"] for each in done]
        == ["db1-disk", "on db1-disk"]
    )
