"""Round robin: each incident advances its policy by one target, with any number of workers."""

import threading
from collections import Counter

import pytest

from models.domain.applications import GENERIC
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.incidents import Incident
from models.tables.teams import EscalationPolicy
from tests.support.alerts import accept
from tests.support.rules import RuleAction, action, add_rule
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from workers.alerts import process_lane


@pytest.fixture
def round_robin_policy(world):
    """The team's policy, whose incidents go to Alice, Bob and Charlie one after the other."""
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2}
    set_policy(world, (0, world.alice, world.bob, world.charlie), assignment_settings=settings)
    return EscalationPolicy.get_by_id(world.policy.id)


def process_alerts(place, now, *entities):
    for entity in entities:
        accept(place, now, message="Disk full", alert_type="critical", entity_id=entity)


def list_assignees():
    return [row.assigned_to.first_name for row in Incident.select().order_by(Incident.id)]


def test_alerts_of_one_batch_and_of_the_next_get_different_assignees(world, now, round_robin_policy):
    process_alerts(world, now, "db1", "db2")
    process_lane.run(world.service.id)
    process_alerts(world, now, "db3", "db1", "db4")
    process_lane.run(world.service.id)

    assert list_assignees() == ["Alice", "Bob", "Charlie", "Alice"]


def test_a_policy_that_a_rule_assigns_has_its_own_round_robin(world, now, round_robin_policy):
    other = EscalationPolicy.create(
        unique_id=make_uuid(),
        team=world.team,
        name="Database",
        rules=round_robin_policy.rules,
        assignment_settings=round_robin_policy.assignment_settings,
        creation_date=now,
        next_target=2,
    )
    route = action(RuleAction.ROUTE_TO_ESCALATION_POLICY, escalation_policy=other.unique_id)
    add_rule(world, route, when={"==": [{"var": "entity_id"}, "db2"]})

    process_alerts(world, now, "db1", "db2", "db3")
    process_lane.run(world.service.id)

    assert list_assignees() == ["Alice", "Charlie", "Bob"]
    assert [EscalationPolicy.get_by_id(row.id).next_target for row in (round_robin_policy, other)] == [2, 0]


def test_concurrent_lanes_assign_each_target_once(world, now, round_robin_policy):
    with store().write_transaction():
        service = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
        integration = provisioning.create_integration(service, "Probe", GENERIC, world.alice, now)
    far = replace(world, service=service, integration=integration)
    for number in range(30):
        process_alerts((world, far)[number % 2], now, f"db{number}")
    errors = []
    threads = [threading.Thread(target=_run, args=(place.service.id, errors)) for place in (world, far)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert Counter(list_assignees()) == {"Alice": 10, "Bob": 10, "Charlie": 10}


def test_lanes_that_use_each_others_policies_do_not_deadlock(world, now, round_robin_policy):
    settings = round_robin_policy.assignment_settings
    with store().write_transaction():
        known = {"unique_id": make_uuid(), "team": world.team, "creation_date": now}
        other = EscalationPolicy.create(
            name="Other", rules=round_robin_policy.rules, assignment_settings=settings, **known
        )
        service = provisioning.create_service(world.team, "Search", other, world.alice, now)
        integration = provisioning.create_integration(service, "Probe", GENERIC, world.alice, now)
    far = replace(world, service=service, integration=integration)
    for place, policy in ((world, other), (far, round_robin_policy)):
        route = action(RuleAction.ROUTE_TO_ESCALATION_POLICY, escalation_policy=policy.unique_id)
        when = {"in": ["odd", {"var": "message"}]}
        add_rule(place, route, when=when, integration=place.integration)
    for number in range(40):
        place, kind = (world, far)[number % 2], ("odd", "even")[number // 2 % 2]
        accept(place, now, message=kind, alert_type="critical", entity_id=f"db{number}")
    errors = []
    threads = [threading.Thread(target=_run, args=(place.service.id, errors)) for place in (world, far)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    for policy in (round_robin_policy, other):
        taken = [row.assigned_to_id for row in Incident.select().where(Incident.escalation_policy == policy)]
        assert sorted(Counter(taken).values()) == [6, 7, 7]


def _run(service_row, errors):
    try:
        with connection():
            process_lane.run(service_row)
    except Exception as error:
        errors.append(error)


def test_statements_do_not_grow_with_the_batch(world, now, round_robin_policy, statements):
    on_call_schedule = stored.schedule(world.team, stored.layer(world.bob, world.charlie))
    set_policy(world, (0, on_call_schedule, world.alice), (5, on_call_schedule))

    def count(alerts):
        process_alerts(world, now, *(f"{alerts}-{number}" for number in range(alerts)))
        with statements() as seen:
            process_lane._run_transaction(world.service.id, process_lane.get_segment("normalize"), 1000)
        return len(seen)

    first = count(2)
    assert count(300) == count(1) < first, "the first batch reads the configuration"
