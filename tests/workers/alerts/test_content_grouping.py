"""Content-based grouping: alerts with the same values become one incident (contract 4.3)."""

from datetime import timedelta

import pytest

from models.domain.applications import GENERIC
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import bump_version
from models.tables.events import Event, list_reasons
from models.tables.incidents import Incident, IncidentGroup
from models.tables.notifications import Notification
from models.tables.rules import AlertGroupingPolicy, AlertRule
from models.tables.services import Service
from pipeline.incidents.grouping import MAX_KEYS
from tests.support.alerts import accept
from workers.alerts import process_lane

MINUTE = timedelta(minutes=1)
ANY, ALL = 1, 2


@pytest.fixture(autouse=True)
def _content_based(world):
    Service.update(collation=3).where(Service.id == world.service.id).execute()
    bump_version(world.account.id)


@pytest.fixture
def group_by(world, now):
    def create(*fields, mode=ANY, paths=(), minutes=5, is_active=True):
        policy = AlertGroupingPolicy.create(
            unique_id=make_uuid(), service=world.service, match_mode=mode, time_window=minutes,
            match_fields={"static_fields": list(fields), "custom_fields": list(paths)},
            is_active=is_active, creation_date=now, updated_at=now,
        )  # fmt: skip
        bump_version(world.account.id)
        return policy

    return create


def process_alert(world, at, entity, **fields):
    body = {"message": "Disk full", "alert_type": "critical", **fields}
    accept(world, at, entity_id=entity, exactly=True, **body)
    process_lane.run(world.service.id)
    return Event.select().order_by(Event.id.desc()).get()


def get_incident(entity):
    return Event.get(Event.entity_id == entity).incident


def test_alerts_with_the_same_title_are_one_incident_with_one_message(world, now, group_by):
    group_by("incident_title")

    events = [process_alert(world, now, entity) for entity in "abc"]
    other = process_alert(world, now, "d", message="Other")

    assert [event.incident_created for event in [*events, other]] == [True, False, False, True]
    assert {event.incident for event in events} == {get_incident("a")}
    assert list_reasons(events[1])[-1] == ("dedupe", make_reason("joins_group", service=world.service.name))
    assert Notification.select().count() == 2


def test_alerts_of_one_batch_are_grouped_too(world, now, group_by):
    """The first alert of the batch opens the incident that the others join."""
    group_by("incident_title")
    for entity in "abc":
        accept(world, now, message="Disk full", alert_type="critical", entity_id=entity)
    process_lane.run(world.service.id)

    assert Event.select().where(Event.incident == Incident.get()).count() == 3


def test_the_window_counts_from_the_creation_of_the_incident(world, now, group_by):
    group_by("incident_title", minutes=5)

    for minute, entity in ((0, "a"), (4, "b"), (5, "c"), (6, "d"), (7, "e")):
        process_alert(world, now + minute * MINUTE, entity)

    first, second = Incident.select().order_by(Incident.id)
    assert second.creation_date == now + 6 * MINUTE
    assert [get_incident(entity) for entity in "abcde"] == [first, first, first, second, second]


@pytest.mark.parametrize(("mode", "count"), [(ANY, 1), (ALL, 2)])
def test_any_field_or_all_fields_must_be_equal(world, now, group_by, mode, count):
    group_by("incident_title", paths=["labels.host"], mode=mode)

    for entity, host in (("a", "db1"), ("b", "db2"), ("c", "db1")):
        process_alert(world, now, entity, payload={"labels": {"host": host}})

    assert Incident.select().count() == count
    assert get_incident("c") == get_incident("a")


@pytest.mark.parametrize("mode", [ANY, ALL])
@pytest.mark.parametrize("payload", [{}, {"labels": {"host": ""}}, {"labels": {"host": None}}])
def test_absent_and_empty_values_equal_nothing(world, now, group_by, mode, payload):
    group_by("incident_summary", paths=["labels.host"], mode=mode)

    for entity in "ab":
        process_alert(world, now, entity, payload=payload)

    assert Incident.select().count() == 2


def test_all_values_at_a_path_count(world, now, group_by):
    group_by(paths=["hosts[*].name"])

    for entity, names in (("a", "xy"), ("b", "xy"), ("c", "x"), ("d", "yx")):
        process_alert(world, now, entity, payload={"hosts": [{"name": name} for name in names]})

    assert get_incident("b") == get_incident("a")
    assert Incident.select().count() == 3


def test_alerts_of_two_integrations_are_grouped_unless_the_integration_counts(world, now, group_by):
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    group_by("incident_title", "integration", mode=ALL)
    for entity, integration in (("a", world.integration), ("b", other), ("c", other)):
        process_alert(replace(world, integration=integration), now, entity)
    assert Incident.select().count() == 2

    group_by("incident_summary")
    for entity, integration in (("d", world.integration), ("e", other)):
        process_alert(replace(world, integration=integration), now, entity, message=entity, summary="same")
    assert Incident.select().count() == 3


def test_the_newest_incident_is_joined(world, now, group_by):
    group_by("incident_title", paths=["host"])
    process_alert(world, now, "a", message="x", payload={"host": "db1"})
    process_alert(world, now + MINUTE, "b", message="y", payload={"host": "db2"})

    process_alert(world, now + 2 * MINUTE, "c", message="x", payload={"host": "db2"})

    assert get_incident("c") == get_incident("b")


def test_a_resolved_or_merged_incident_is_not_joined(world, now, group_by):
    group_by("incident_title")
    process_alert(world, now, "a")
    process_alert(world, now, "a", alert_type="resolved")
    process_alert(world, now, "b")
    first, second = Incident.select().order_by(Incident.id)
    Incident.update(parent=first).where(Incident.id == second.id).execute()

    process_alert(world, now, "c")

    assert Incident.select().count() == 3


def test_an_incident_is_resolved_when_no_entity_of_it_fires(world, now, group_by):
    group_by("incident_title")
    for entity in "ab":
        process_alert(world, now, entity)

    for entity, status in (("a", 1), ("b", 3)):
        process_alert(world, now, entity, alert_type="resolved")
        assert Incident.get().status == status


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_an_alert_below_the_levels_joins_no_incident(world, now, group_by, level):
    group_by("incident_title")
    process_alert(world, now, "a")

    assert process_alert(world, now, "b", alert_type=level).incident is None


@pytest.mark.parametrize(("is_active", "collation"), [(False, 3), (True, 0)])
def test_only_an_active_policy_of_a_service_with_this_collation_groups(
    world, now, group_by, is_active, collation
):
    group_by("incident_title", is_active=is_active)
    Service.update(collation=collation).where(Service.id == world.service.id).execute()

    for entity in "ab":
        process_alert(world, now, entity)

    assert Incident.select().count() == 2
    assert not IncidentGroup.select().exists()


def test_a_changed_policy_groups_by_its_new_fields(world, now, group_by):
    policy = group_by("incident_title")
    process_alert(world, now, "a")
    policy.match_fields = {"static_fields": ["integration"], "custom_fields": []}
    policy.save()
    bump_version(world.account.id)

    process_alert(world, now, "b")
    process_alert(world, now, "c", message="Other")

    assert Incident.select().count() == 2
    assert get_incident("c") == get_incident("b")


def test_a_title_that_a_rule_changed_counts(world, now, group_by):
    group_by("incident_title")
    action = {"unique_id": make_uuid(), "action_type": 8, "key": "", "value": "Disk {{payload.disk}}"}
    AlertRule.create(
        unique_id=make_uuid(), integration=world.integration, position=1, creation_date=now, actions=[action]
    )
    bump_version(world.account.id)

    for entity in "ab":
        process_alert(world, now, entity, message=f"Host {entity}", payload={"disk": "sda"})

    assert [incident.title for incident in Incident.select()] == ["Disk sda"]


def test_an_alert_whose_payload_needs_too_much_work_opens_its_own_incident(world, now, group_by):
    group_by(paths=["a[*][*]"])
    for entity in "ab":
        process_alert(world, now, entity, payload={"a": [[0] * 100]})
    assert Incident.select().count() == 1

    for entity in "cd":
        process_alert(world, now, entity, payload={"a": [[0] * 400] * 400})
    assert Incident.select().count() == 3


def test_a_long_text_that_many_policies_read_costs_no_more_than_the_budget(world, now, group_by):
    for _ in range(20):
        group_by(paths=["$['a']", "a", "$.a", *(f"*.b{number}" for number in range(5))])
    process_alert(world, now, "a", payload={"a": "é" * 100_000, "c": {"b0": "x" * 100_000}})
    assert get_incident("a").title == "Disk full"

    # All ways to write a path are one field.
    event = process_alert(world, now, "b", payload={"a": "short"})
    assert event.incident_created
    assert IncidentGroup.select().where(IncidentGroup.incident == event.incident).count() == 20


def test_only_the_first_values_of_an_alert_count(world, now, group_by):
    for _ in range(3):
        group_by(paths=[f"a[{number}]" for number in range(20)])
    event = process_alert(world, now, "a", payload={"a": list(range(1, 21))})

    assert IncidentGroup.select().where(IncidentGroup.incident == event.incident).count() == MAX_KEYS
