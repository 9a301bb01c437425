"""Simulations over the interface. They write nothing and notify nobody."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.applications import GENERIC, PROMETHEUS
from models.domain.enums import ServiceStatus
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.peewee_internals import get_table_name
from models.store.store import db, store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.rules import AlertGroupingPolicy
from models.tables.schedules import ScheduleOverride
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy
from models.tables.timers import Timer
from models.tables.users import ForwardingRule, NotificationRule
from pipeline.sources.table import SOURCES
from tests.support.alerts import accept
from tests.support.contract.described import described
from tests.support.offenders import list_offenders
from tests.support.rules import add_rule, equals
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from tests.support.stores import TABLES
from tests.support.web.simulate_requests import DISK, NOON, SIMULATE, simulate
from tests.support.web.unknown_ids import NO_SUCH_ID
from web.operations import run_simulation
from web.operations import simulate as simulate_module
from workers.alerts import process_lane
from workers.timers import fire

__all__ = ["described", "simulate"]

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def list_notified(answer):
    """Return the notified people with the channel and the minutes after the alert."""
    return [
        (each["person"], each["contact"], each["after"] / 60)
        for each in answer["simulated_events"]
        if each["kind"] == "notified"
    ]


def dump_all_rows():
    tables = [table for table in TABLES if get_table_name(table) not in ("token", "rate_limit")]
    return {get_table_name(table): sorted(map(repr, table.select().tuples().execute(db))) for table in tables}


def test_a_simulation_shows_who_is_notified_how_when_and_why(simulate, world):
    set_policy(world, (0, world.alice), (5, world.bob))

    found = simulate(**{"for": 600})

    assert (found["at"], found["until"]) == ("2026-03-04T12:00:00.000000Z", "2026-03-04T12:10:00.000000Z")
    first = next(each for each in found["simulated_events"] if each["kind"] == "notified")
    assert first == {
        "at": "2026-03-04T12:00:00.000000Z",
        "after": 0.0,
        "kind": "notified",
        "what": "escalation",
        "reason": "Named by step 1 of policy Default Escalation Policy.",
        "incident": 1,
        "person": "Alice",
        "username": world.alice.username,
        "channel": "email",
        "contact": first["contact"],
    }
    assert [(person, after) for person, _, after in list_notified(found)] == [("Alice", 0), ("Bob", 5)]
    assert [(each["person"], each["email"], each["after"]) for each in found["notified"]] == [
        ("Alice", "alice@example.org", 0.0),
        ("Bob", "bob@example.org", 300.0),
    ]
    (incident,) = found["incidents"]
    assert (incident["title"], incident["status"], incident["assigned_to"]) == (
        "Disk full", "triggered", "Alice",
    )  # fmt: skip


def test_the_response_matches_the_description(simulate, described):
    schema = described.paths[SIMULATE]["post"]["responses"]["200"]["content"]["application/json"]["schema"]

    assert described.find_mismatches(schema, simulate()) == []


@pytest.mark.parametrize("more", [{}, {"with_open": True}], ids=["alone", "with open incidents"])
def test_a_simulation_writes_no_row_and_enqueues_nothing(ask, simulate, world, now, enqueued, more):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": True}
    set_policy(world, (0, world.alice, world.bob), (1, world.bob), assignment_settings=settings)
    Service.update(collation=1, collation_time=5, auto_resolve_timeout=3600).execute()
    accept(world, now, **DISK)
    process_lane.run(world.service.id)
    ask("GET", "/api/user/profile/")
    before = dump_all_rows()
    enqueued.clear()

    found = simulate(at=(store().now() + DAY).isoformat(), **more)

    assert len(found["simulated_events"]) > 1 or more
    assert dump_all_rows() == before
    assert enqueued == []


def test_the_same_request_gets_the_same_result(simulate):
    assert simulate(alert={"message": "x", "alert_type": "critical"}) == simulate(
        alert={"message": "x", "alert_type": "critical"}
    )


def test_overrides_and_forwarding_rules_of_the_simulated_time_apply(simulate, world, now):
    on_call_schedule = stored.schedule(world.team, stored.layer(world.alice))
    set_policy(world, (0, on_call_schedule))
    for start, person in ((now - 900 * DAY, world.bob), (now + 900 * DAY, world.charlie)):
        ScheduleOverride.create(
            unique_id=make_uuid(), schedule=on_call_schedule, user=person, name="Swap", creation_date=now,
            start_time=start, end_time=start + DAY,
        )  # fmt: skip
    far_from_now = now - 700 * DAY
    ForwardingRule.create(
        unique_id=make_uuid(), user=world.alice, to_user=world.charlie, created_by=world.alice,
        from_date=far_from_now, to_date=far_from_now + DAY, creation_date=now,
    )  # fmt: skip
    layers_before = [{**stored.layer(world.alice, start=now - 1000 * DAY)}]
    type(on_call_schedule).update(layers=layers_before).where(
        type(on_call_schedule).id == on_call_schedule.id
    ).execute()
    bump_version(world.account.id)

    moments = (now, now - 900 * DAY, now + 900 * DAY, far_from_now)
    people = [[each["person"] for each in simulate(at=moment.isoformat())["notified"]] for moment in moments]

    assert people == [["Alice"], ["Bob"], ["Charlie"], ["Charlie"]]


def test_a_simulation_shows_the_present_turn_and_does_not_use_it(simulate, world):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": True}
    set_policy(world, (0, world.alice, world.bob), assignment_settings=settings)

    assert [simulate()["incidents"][0]["assigned_to"] for _ in range(2)] == ["Alice", "Alice"]
    EscalationPolicy.update(next_target=1).execute()
    assert simulate()["incidents"][0]["assigned_to"] == "Bob"


def test_rules_apply_and_show_the_values_that_they_read(simulate, world):
    rule = add_rule(
        world, {"action_type": 19, "value": "120"}, when=equals("payload.host", "db1"), description="Later"
    )
    bump_version(world.account.id)

    found = simulate(alert={**DISK, "payload": {"host": "db1"}})

    (alert,) = found["alerts"]
    assert [(each["rule"], each["matches"]) for each in alert["rules"]] == [(rule.unique_id, True)]
    assert alert["stages"][2] == {"stage": "rules", "reason": "1 of 1 alert rules matched."}
    assert [each["after"] for each in found["notified"]] == [120.0]


def test_an_alert_of_a_disabled_service_opens_no_incident(simulate, world):
    Service.update(status=ServiceStatus.DISABLED).execute()

    found = simulate()

    assert [each["reason"] for each in found["simulated_events"]] == [
        "Service Checkout is disabled: the alert is stored and opens no incident."
    ]
    assert (found["notified"], found["incidents"]) == ([], [])


@pytest.mark.parametrize(
    ("column", "why"),
    [({"is_enabled": False}, "disabled"), ({"integration_type": 1}, "outbound")],
    ids=["disabled", "outbound"],
)
def test_an_integration_that_accepts_no_alerts_shows_the_reason(simulate, world, column, why):
    Integration.update(**column).execute()

    found = simulate()

    assert [each["reason"] for each in found["simulated_events"]] == [
        f"Not accepted: integration Probe is {why}."
    ]
    assert (found["notified"], found["alerts"]) == ([], [])


def test_a_payload_is_read_as_a_body_of_its_tool(simulate, world, now):
    prometheus = provisioning.create_integration(world.service, "Prometheus", PROMETHEUS, world.alice, now)
    body = {
        "alerts": [
            {"labels": {"alertname": name, "severity": "critical"}, "fingerprint": name, "status": "firing"}
            for name in ("Full", "Slow")
        ]
    }

    by_its_own = simulate(integration=prometheus.unique_id, alert=None, payload=body)
    error = simulate(alert=None, payload=body, source="prometheus")

    assert [each["entity_id"] for each in by_its_own["alerts"]] == ["Full", "Slow"]
    assert by_its_own["source"] == error["source"] == "prometheus"
    assert len(error["incidents"]) == 2


def test_a_service_is_enough_if_one_integration_fits_the_source(ask, simulate, world, now):
    service = {"integration": None, "service": world.service.unique_id}
    assert simulate(**service)["integration"]["name"] == "Probe"

    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    answer = ask("POST", SIMULATE, {**service, "alert": DISK})
    assert answer.json["errors"] == {
        "integration": ["The service has more than one. Give one of: Probe, Other."]
    }

    Integration.update(is_enabled=False).where(Integration.id == other.id).execute()
    provisioning.create_integration(world.service, "Prometheus", PROMETHEUS, world.alice, now)
    assert simulate(**service)["integration"]["name"] == "Probe"
    open_incident = {"labels": {"alertname": "x"}, "status": "firing", "fingerprint": "x"}
    body = {"alert": None, "payload": {"alerts": [open_incident]}, "source": "prometheus"}
    assert simulate(**service, **body)["integration"]["name"] == "Prometheus"


def test_with_open_lets_the_alert_join_an_open_incident(simulate, world):
    set_policy(world, (0, world.alice), (30, world.bob), (100, world.charlie))
    NotificationRule.update(start_delay=20).where(NotificationRule.user == world.alice).execute()
    at = store().now()
    accept(world, at, exactly=True, **DISK)
    process_lane.run(world.service.id, now=at)

    joined = simulate(at=(at + 40 * MINUTE).isoformat(), with_open=True)
    soon = simulate(at=(at + 10 * MINUTE).isoformat(), with_open=True, **{"for": 1800})

    assert joined["alerts"][0]["stages"][3]["reason"] == (
        "The alert belongs to the open incident of its entity."
    )
    assert joined["incidents"][0]["incident_number"] == Incident.get().incident_number
    assert [(person, after) for person, _, after in list_notified(joined)] == [("Charlie", 60)]
    assert [(person, after) for person, _, after in list_notified(soon)] == [("Alice", 10), ("Bob", 20)]
    assert [person for person, _, _ in list_notified(simulate())] == ["Alice", "Bob", "Charlie"]


def test_with_open_lets_an_alert_with_the_same_title_join_the_incident(simulate, world):
    at = store().now()
    AlertGroupingPolicy.create(
        unique_id=make_uuid(), service=world.service, match_fields={"static_fields": ["incident_title"]},
        creation_date=at, updated_at=at,
    )  # fmt: skip
    Service.update(collation=3).execute()
    bump_version(world.account.id)
    accept(world, at, exactly=True, **{**DISK, "entity_id": "another"})
    process_lane.run(world.service.id, now=at)

    joined = simulate(at=(at + MINUTE).isoformat(), with_open=True)
    late = simulate(at=(at + 6 * MINUTE).isoformat(), with_open=True)

    assert joined["incidents"][0]["incident_number"] == Incident.get().incident_number
    assert late["incidents"][0]["incident_number"] is None


def test_with_open_is_refused_for_the_past(ask, world):
    body = {"integration": world.integration.unique_id, "alert": DISK, "at": NOON, "with_open": True}

    assert "at" in ask("POST", SIMULATE, body).json["errors"]


def test_notifications_of_unrelated_incidents_are_not_shown(simulate, world):
    set_policy(world, (0, world.alice), (30, world.bob))
    Service.update(collation=1, collation_time=5).execute()
    bump_version(world.account.id)
    at = store().now()
    accept(world, at, exactly=True, **DISK)
    process_lane.run(world.service.id, now=at)
    hello = {"message": "Hello", "alert_type": "info", "entity_id": "db2"}
    soon = {"at": (at + 4 * MINUTE).isoformat(), "with_open": True}

    other, joined = simulate(alert=hello, **soon), simulate(alert={**DISK, "entity_id": "db2"}, **soon)

    assert (other["notified"], other["incidents"], len(other["simulated_events"])) == ([], [], 1)
    assert [each["person"] for each in joined["notified"]] == ["Bob"]
    assert {each["incident"] for each in joined["simulated_events"]} == {1}


WRONG_FIELDS = [
    ({"alert": None}, "alert"),
    ({"payload": {}}, "alert"),
    ({"alert": {"alert_type": "critical"}}, "alert"),
    ({"alert": {"message": " "}}, "alert.message"),
    ({"for": 31 * 86_400 + 1}, "for"),
    ({"for": -1}, "for"),
    ({"at": "soon"}, "at"),
    ({"at": "0001-01-01"}, "at"),
    ({"integration": NO_SUCH_ID}, "integration"),
    ({"integration": None}, "service"),
    ({"service": NO_SUCH_ID}, "integration"),
    ({"alert": None, "payload": {}, "source": "nosuch"}, "source"),
    ({"source": "prometheus"}, "source"),
]


def test_an_invalid_field_is_refused_by_name(ask, world):
    def check(case):
        change, field = case
        body = {"integration": world.integration.unique_id, "alert": DISK, **change}

        answer = ask("POST", SIMULATE, body)

        assert answer.status_code == 400
        assert list(answer.json["errors"]) == [field]

    assert list_offenders(check, WRONG_FIELDS) == []


def test_with_open_accepts_the_present_minute(simulate, monkeypatch):
    now = datetime(2026, 12, 24, 18, 0, 40, tzinfo=UTC)
    monkeypatch.setattr(simulate_module, "now", lambda: now)

    found = simulate(at="2026-12-24T18:00:00Z", with_open=True)

    assert found["at"] == "2026-12-24T18:00:40.000000Z"


def test_an_unknown_source_gets_the_list_of_sources(ask, world):
    body = {"integration": world.integration.unique_id, "payload": {}, "source": "nosuch"}

    (error,) = ask("POST", SIMULATE, body).json["errors"]["source"]

    assert error == f"Must be one of: {', '.join(SOURCES)}."


def test_settings_without_a_mail_relay_give_a_warning(simulate, app):
    assert simulate()["warnings"] == ["Tocsin cannot send e-mail: TOCSIN_SMTP_HOST is not set"]

    app.config["SETTINGS"] = replace(app.config["SETTINGS"], smtp_host="relay.example.org")
    assert simulate()["warnings"] == []


def test_too_many_alerts_are_refused(ask, world):
    alert = {"labels": {"alertname": "x"}, "status": "firing"}
    body = {"alerts": [{**alert, "fingerprint": str(n)} for n in range(run_simulation.MAX_ALERTS + 1)]}

    answer = ask(
        "POST",
        SIMULATE,
        {"integration": world.integration.unique_id, "payload": body, "source": "prometheus"},
    )

    assert "at most 100" in answer.json["errors"]["payload"][0]


def test_a_simulation_needs_the_permission_to_read_incidents(ask, world):
    body = {"integration": world.integration.unique_id, "alert": DISK}

    assert ask("POST", SIMULATE, body, who="bob").status_code == 200
    assert ask("POST", SIMULATE, body, who="charlie").status_code == 403
    assert ask("POST", SIMULATE, body, who="mallory").json["errors"] == {
        "integration": ["The account has no integration with this id."]
    }


def test_every_source_can_be_simulated(described):
    body = described.paths[SIMULATE]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rpartition("/")[2] if "$ref" in body else None
    schema = described.components["schemas"][name] if name else body

    assert set(schema["properties"]["source"]["enum"]) == {*SOURCES, ""}


def test_stored_timers_do_not_change(simulate, world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    accept(world, now, **DISK)
    process_lane.run(world.service.id)
    pending_timers = sorted(Timer.select().tuples())

    simulate(at=(store().now() + DAY).isoformat(), with_open=True)

    assert sorted(Timer.select().tuples()) == pending_timers
    assert fire.fire_due(now + 5 * MINUTE) == 1
