"""Dry runs of alert rules: the result, the permissions, and the time limit."""

import json
import time
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from models.domain.applications import APPLICATIONS
from models.store.ids import make_short_id, make_uuid
from models.store.peewee_internals import get_table_name
from models.store.store import db
from models.tables.events import Event, Receipt
from models.tables.routers import GlobalRouter
from models.tables.schedules import Schedule
from models.tables.services import Integration
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team
from tests.support.conditions.strategies import JSON, TREE_LIKE
from tests.support.conditions.trees import group, rule, search
from tests.support.contract.described import described
from tests.support.offenders import list_offenders
from tests.support.scenarios.combinations import count_examples
from tests.support.stores import TABLES
from web.rules.dry_run import CONCURRENCY

__all__ = ["described"]

DRY_RUN_URL = "/api/tocsin/rules/try/"

DISK = {
    "message": "Disk full",
    "alert_type": "critical",
    "entity_id": "db1",
    "payload": {"host": "db1", "used": 97},
}
ON_DB1 = json.dumps({"and": [{"==": [{"var": "payload.host"}, "db1"]}, {">": [{"var": "payload.used"}, 90]}]})
NEVER_SEEN = json.dumps({">": [{"var": "seconds_since_last"}, 3600]})


@pytest.fixture
def dry_run(ask):
    """dry_run(rule_json, payload=...): the result of a draft."""

    def result(rule_json="", *, who="alice", **more):
        answer = ask("POST", DRY_RUN_URL, {"rule_json": rule_json, **more}, who=who)
        assert answer.status_code == 200, answer.json
        return answer.json

    return result


@pytest.mark.parametrize(
    ("rule_json", "warnings"),
    [
        ({"==": [{"var": "payload.severity"}, "x"]}, []),
        ({"and": [{"var": "alert.message"}, {"some": [{"var": "payload.tags"}, {"var": "name"}]}]}, []),
        (
            {"==": [{"var": "severity"}, "x"]},
            ["the field 'severity' is not known; fields of the payload begin with payload."],
        ),
        (group(rule("alert.severity", "equal", "x")), ["the field 'alert.severity' is not known"]),
    ],
)
def test_a_field_that_no_alert_has_is_a_warning(dry_run, rule_json, warnings):
    assert dry_run(json.dumps(rule_json), payload=DISK)["warnings"] == warnings


@pytest.fixture
def alert(world, now):
    """alert(body, message="x", ...): the id of a past alert. The keyword values are as if rules set them."""

    def make(body=DISK, **values) -> str:
        receipt = Receipt.create(
            trace_id=make_uuid(), account=world.account, source=values.pop("source", "generic"),
            body=json.dumps(body).encode(), received_at=now, router=values.pop("router", None),
        )  # fmt: skip
        known = {
            "unique_id": make_short_id(), "receipt": receipt, "position": 0, "integration": world.integration,
            "message": "As a rule made it", "alert_type": 0, "entity_id": "x", "creation_date": now,
        }  # fmt: skip
        return Event.create(**{**known, **values}).unique_id

    return make


def test_a_match_shows_the_values_that_the_condition_read(dry_run):
    result = dry_run(ON_DB1, payload=DISK)

    assert (result["matches"], result["note"]) == (True, None)
    assert result["read"] == {"payload.host": "db1", "payload.used": 97}
    assert json.loads(result["logic"]) == json.loads(ON_DB1)
    assert [(step["depth"], step["matches"]) for step in result["trace"]] == [(0, True), (1, True), (1, True)]
    assert result["trace"][2]["read"] == {"payload.used": 97}
    assert (result["trace_is_truncated"], result["actions"]) == (False, [])


def test_a_mismatch_shows_the_reason(dry_run):
    result = dry_run(ON_DB1, payload={**DISK, "payload": {"host": "db1"}})

    assert result["matches"] is False
    assert result["read"] == {"payload.host": "db1", "payload.used": None}
    assert [step["matches"] for step in result["trace"]] == [False, True, False]


def test_a_draft_without_conditions_matches_everything(dry_run):
    result = dry_run("", payload={})

    assert (result["matches"], result["read"], result["logic"]) == (True, {}, "true")


def test_both_kinds_of_conditions_must_hold(dry_run):
    search = {"alert_condition_type": 2, "alert_field": "$.host", "pattern": "^db"}
    level = {"alert_condition_type": 1, "pattern": "warning"}

    assert dry_run(ON_DB1, payload=DISK, conditions=[search])["matches"] is True
    assert dry_run(ON_DB1, payload=DISK, conditions=[search, level])["matches"] is False
    assert dry_run(ON_DB1, payload=DISK, conditions=[search, level], rule_type=1)["matches"] is True


def test_a_payload_without_a_message_is_allowed(dry_run):
    result = dry_run('{"==": [{"var": "payload.host"}, "db1"]}', payload={"host": "db1"})

    assert result["matches"] is True


def test_a_payload_is_read_as_a_body_of_its_source(dry_run):
    group = {"alerts": [{"labels": {"alertname": "Full", "severity": "warning"}, "fingerprint": "f1"}]}

    result = dry_run('{"==": [{"var": "alert_type"}, "1"]}', payload=group, source="prometheus")

    assert result["matches"] is True


def test_a_first_incident_has_no_seconds_since_the_last(dry_run):
    never = dry_run(NEVER_SEEN, payload=DISK)
    before = dry_run(NEVER_SEEN, payload=DISK, seconds_since_last=60.5)

    assert (never["matches"], never["read"]) == (True, {"seconds_since_last": "never"})
    assert (before["matches"], before["read"]) == (False, {"seconds_since_last": 60.5})


def test_all_values_of_an_alert_show_null_for_no_last_incident(dry_run):
    result = dry_run(
        '{"!!": [{"var": "alert"}]}', payload={"message": "x", "entity_id": "y", "payload": {"z": 1}}
    )

    assert result["read"]["alert"].endswith('"seconds_since_last":"never"}')


def test_the_time_of_the_alert_can_be_given(dry_run):
    at_night = '{"<": [{"var": "alert_time"}, "06:00:00"]}'

    assert dry_run(at_night, payload=DISK, at="2026-03-04T03:00:00Z")["matches"] is True
    assert dry_run(at_night, payload=DISK, at="2026-03-04T03:00:00-06:00")["matches"] is False


def test_the_urgency_comes_from_the_integration(dry_run, world):
    Integration.update(default_urgency=0).execute()
    low = '{"==": [{"var": "urgency"}, "0"]}'

    assert dry_run(low, payload=DISK)["matches"] is False
    assert dry_run(low, payload=DISK, integration=world.integration.unique_id)["matches"] is True


def test_responses_match_the_description(dry_run, described):
    level = {"action_type": 1, "value": "info"}
    long = json.dumps({"or": [{"==": [{"var": "payload.used"}, place]} for place in range(100)]})
    schema = described.paths[DRY_RUN_URL]["post"]["responses"]["200"]["content"]["application/json"]["schema"]

    for result in (dry_run(ON_DB1, payload=DISK, actions=[level]), dry_run(long, payload=DISK)):
        assert described.find_mismatches(schema, result) == []


def test_long_values_are_truncated(dry_run):
    body = {"message": "x", "payload": {"text": "y" * 5_000, "list": ["z" * 5_000]}}

    result = dry_run('{"==": [{"var": "payload.text"}, {"var": "payload.list"}]}', payload=body)

    for read in (result["read"], result["trace"][0]["read"]):
        assert {name: len(value) for name, value in read.items()} == {
            "payload.text": 203,
            "payload.list": 203,
        }


def test_the_result_shows_the_change_of_each_action(dry_run, world, now):
    known = {"unique_id": make_uuid(), "team": world.team, "creation_date": now}
    sla, tag = Sla.create(name="Gold", **known), Tag.create(name="database", **known)
    Priority.create(name="P1", **known)
    nights, template = Schedule.create(name="Nights", **known), TaskTemplate.create(name="Outage", **known)
    scribe = IncidentRole.create(title="Scribe", **known)
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.charlies_team)
    theirs.global_ep = True
    theirs.name = "Charlie's"
    theirs.save()
    drafted = [
        {"action_type": 1, "value": "warning"},
        {"action_type": 8, "value": "{{payload.host}}: {{message}} ({{alert_type}})"},
        {"action_type": 6, "assign_to": world.charlie.username},
        {"action_type": 4, "escalation_policy": theirs.unique_id},
        {"action_type": 14, "sla": sla.unique_id},
        {"action_type": 12, "value": f"{tag.unique_id}, {{{{payload.none}}}}"},
        {"action_type": 5, "schedule": nights.unique_id},
        {"action_type": 7, "value": "0"},
        {"action_type": 11, "key": scribe.unique_id, "value": world.charlie.username},
        {"action_type": 13, "value": "Look at {{payload.host}}"},
        {"action_type": 16, "task_template": template.unique_id},
        {"action_type": 17, "value": world.bob.username},
        {"action_type": 17, "value": theirs.unique_id},
        {"action_type": 3},
    ]

    result = dry_run(ON_DB1, payload=DISK, integration=world.integration.unique_id, actions=drafted)

    assert [each["action_type"] for each in result["actions"]] == [each["action_type"] for each in drafted]
    assert [(each["from"], each["to"]) for each in result["actions"]] == [
        ("critical", "warning"),
        ("Disk full", "db1: Disk full (1)"),
        (None, "Charlie"),
        ("Default Escalation Policy", "Charlie's"),
        (None, "Gold"),
        (None, "database"),
        (None, None),
        ("high", "low"),
        (None, "Scribe: Charlie"),
        (None, "Look at db1"),
        (None, "Outage"),
        (None, "Bob"),
        (None, "Charlie's"),
        ("not suppressed", "suppressed"),
    ]
    note = "No effect: nobody is on call by schedule Nights."
    assert [each["note"] for each in result["actions"] if each["note"]][-1] == note
    assert dry_run('{"==": [1, 2]}', payload=DISK, actions=[{"action_type": 3}])["actions"] == []


def test_a_past_alert_is_used_as_it_arrived(dry_run, alert):
    result = dry_run(ON_DB1, alert=alert(), actions=[{"action_type": 8, "value": "x"}])

    assert result["matches"] is True
    assert result["actions"][0]["from"] == "Disk full"


def test_the_named_alert_of_a_body_is_used(dry_run, alert):
    group = {"alerts": [{"labels": {"alertname": name}} for name in ("a", "b")]}

    result = dry_run('{"==": [{"var": "message"}, "b"]}', alert=alert(group, source="prometheus", position=1))

    assert result["matches"] is True


def test_a_routed_alert_is_read_by_the_source_of_its_integration(dry_run, alert, world, now):
    router = GlobalRouter.create(
        unique_id=make_uuid(), account=world.account, name="x", integration_key=make_uuid(), creation_date=now
    )
    prometheus = next(one for one in APPLICATIONS.values() if one.extension == "prometheus")
    Integration.update(application=prometheus.unique_id).execute()
    group = {"alerts": [{"labels": {"alertname": "Full"}}]}

    alert_result = dry_run('{"==": [{"var": "message"}, "Full"]}', alert=alert(group, router=router))
    plain = dry_run('{"==": [{"var": "payload.a"}, 1]}', alert=alert({"a": 1}, router=router))

    assert (alert_result["matches"], plain["matches"]) == (True, True)


WRONG_DRAFTS = [
    ("rule_json", {"rule_json": "{"}),
    ("rule_json", {"rule_json": '{"nosuch": []}'}),
    ("conditions.0.pattern", {"conditions": [{"alert_condition_type": 1, "pattern": "x"}]}),
    ("actions.0.value", {"actions": [{"action_type": 7, "value": "x"}]}),
    ("actions.0.sla", {"actions": [{"action_type": 14, "sla": "6a3a1b8e-21a4-4f2b-9a6d-5f4c7f0b1c11"}]}),
    ("payload", {"payload": None}),
    ("payload", {"payload": "x"}),
    ("payload", {"alert": "uJVWfdAeoPDm3pk2gG2URn"}),
    ("payload", {"source": "alertmanager", "payload": {"a": 1}}),
    ("payload.alerts", {"source": "prometheus", "payload": {"alerts": []}}),
    ("payload", {"payload": json.loads('{"a":' * 150 + "1" + "}" * 150)}),
    ("source", {"source": "nosuch"}),
    ("seconds_since_last", {"seconds_since_last": -1}),
    ("at", {"at": "noon"}),
]


def test_invalid_drafts_are_refused(ask):
    def check(case):
        field, wrong = case
        refused = ask("POST", DRY_RUN_URL, {"rule_json": "", "payload": {"a": 1}, **wrong})

        assert (refused.status_code, set(refused.json["errors"])) == (400, {field})

    assert list_offenders(check, WRONG_DRAFTS) == []


def test_a_draft_without_a_team_has_no_references(ask, world, now):
    sla = Sla.create(unique_id=make_uuid(), team=world.team, name="Gold", creation_date=now)
    body = {"payload": DISK, "actions": [{"action_type": 14, "sla": sla.unique_id}]}

    assert ask("POST", DRY_RUN_URL, body).status_code == 400
    assert ask("POST", DRY_RUN_URL, {**body, "integration": world.integration.unique_id}).status_code == 200


def test_a_dry_run_needs_permission_for_the_alert_and_the_integration(ask, world, alert):
    for alert_result in ({"alert": alert()}, {"payload": DISK, "integration": world.integration.unique_id}):
        body = {"rule_json": ON_DB1, **alert_result}
        status = {who: ask("POST", DRY_RUN_URL, body, who=who).status_code for who in world.tokens}
        assert status == {"alice": 200, "bob": 200, "charlie": 403, "mallory": 404}


def test_a_stored_alert_also_needs_the_permission_to_read_incidents(ask, world, alert):
    """The values that a draft reads are the text of the alert."""
    body = {"rule_json": ON_DB1, "alert": alert()}
    for granted, status in (
        (["integration_read"], 403),
        (["incident_read"], 403),
        (["integration_read", "incident_read"], 200),
    ):
        Team.update(account_permissions=granted).where(Team.id == world.team.id).execute()
        assert ask("POST", DRY_RUN_URL, body, who="charlie").status_code == status

    Team.update(account_permissions=["integration_read"]).where(Team.id == world.team.id).execute()
    draft = {"rule_json": ON_DB1, "payload": DISK, "integration": world.integration.unique_id}
    assert ask("POST", DRY_RUN_URL, draft, who="charlie").status_code == 200


def test_only_admins_may_use_an_alert_without_a_service(ask, alert):
    body = {"alert": alert(integration=None)}

    assert ask("POST", DRY_RUN_URL, body).status_code == 200
    assert ask("POST", DRY_RUN_URL, body, who="bob").status_code == 404


@pytest.mark.parametrize(
    "alert_result", [{"alert": "x"}, {"alert": "\u00e9"}, {"payload": {}, "integration": "x"}]
)
def test_unknown_ids_are_not_found(ask, alert_result):
    assert ask("POST", DRY_RUN_URL, alert_result).status_code == 404


def test_a_dry_run_writes_nothing(ask, dry_run, world, alert):
    def rows() -> list:
        tables = [table for table in TABLES if get_table_name(table) not in ("token", "rate_limit")]
        return [sorted(map(repr, table.select().tuples().execute(db))) for table in tables]

    alert_result = alert()
    before = rows()
    dry_run(
        ON_DB1,
        alert=alert_result,
        actions=[{"action_type": 3}, {"action_type": 6, "assign_to": world.bob.username}],
    )

    assert rows() == before


def build_worst() -> dict[str, str]:
    """Return the most expensive conditions within the limits."""
    greedy = {"matches": [{"var": "payload.text"}, "(?:x?){300}y"]}
    large_condition = {"or": [{"==": [{"var": f"payload.a{place}"}, place]} for place in range(900)]}
    nested: object = {"var": "message"}
    for _ in range(20):
        nested = {"!": [nested]}
    return {
        "patterns": json.dumps({"or": [greedy] * 40}),
        "many": json.dumps(large_condition),
        "literals": json.dumps({"or": [0] * 20_000}),
        "deep": json.dumps({"and": [nested] * 40}),
    }


@pytest.mark.parametrize("name", list(build_worst()))
def test_the_most_expensive_conditions_are_fast(ask, name):
    text = "x" * 100_000
    started = time.thread_time()

    answer = ask(
        "POST",
        DRY_RUN_URL,
        {"rule_json": build_worst()[name], "payload": {"message": "x", "payload": {"text": text}}},
    )

    assert answer.status_code in (200, 400)
    assert timedelta(seconds=time.thread_time() - started) < timedelta(seconds=5)


def test_a_rule_that_the_pipeline_would_skip_is_shown_as_skipped(dry_run):
    """The index and the evaluation each search 80,000 items: together more than the budget."""
    tree = group(search("equal", "$.list[*].x", "v"))
    payload = {**DISK, "payload": {"list": [*[{}] * 80_000, {"x": "v"}]}}

    result = dry_run(json.dumps(tree), payload=payload, actions=[{"action_type": 2, "value": "seen"}])

    assert (result["matches"], result["actions"]) == (False, [])
    assert result["note"].startswith("Skipped: ")


def test_costly_actions_of_a_draft_are_skipped(dry_run):
    costly = [{"action_type": kind, "value": "{{payload.list[*].x}}" * 200} for kind in (8, 9)] * 10
    started = time.thread_time()

    result = dry_run("", payload={**DISK, "payload": {"list": [0] * 100_000}}, actions=costly)

    assert time.thread_time() - started < 2
    assert all(action["note"].startswith("Skipped: ") for action in result["actions"])


def test_an_account_tries_one_rule_at_a_time(ask, dry_run, world):
    with CONCURRENCY.acquire(world.account):
        refused = ask("POST", DRY_RUN_URL, {"rule_json": "", "payload": DISK})

    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert dry_run("", payload=DISK)["matches"]


def test_a_refused_try_does_not_read_its_alert(ask, world):
    broken = {"rule_json": "", "payload": {"alerts": "none"}, "source": "prometheus"}
    assert ask("POST", DRY_RUN_URL, broken).status_code == 400

    with CONCURRENCY.acquire(world.account):
        assert ask("POST", DRY_RUN_URL, broken).status_code == 429


@settings(
    max_examples=count_examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(JSON | TREE_LIKE)
def test_any_rule_is_stored_or_refused_and_fast_to_try(ask, world, value):
    team, service = world.team.unique_id, world.service.unique_id
    integration = f"services/{service}/integrations/{world.integration.unique_id}"
    rules = f"/api/account/teams/{team}/{integration}/transformers/"
    text = json.dumps(value)
    payload = {"list": [{"x": n, "text": "ab" * n} for n in range(200)], "a": {"b": "c"}}
    started = time.thread_time()

    made = ask("POST", rules, {"rule_json": text})
    result = ask("POST", DRY_RUN_URL, {"rule_json": text, "payload": {"message": "x", "payload": payload}})

    assert (made.status_code, result.status_code) in ((201, 200), (400, 400))
    assert timedelta(seconds=time.thread_time() - started) < timedelta(seconds=5)
