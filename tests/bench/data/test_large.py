"""A large database has the requested size, in rows like those that alerts write."""

import json

import pytest

from bench.data.large import Sizes, write_large, write_rules
from models.tables.accounts import Account
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service
from models.tables.timers import Timer
from tests.support.scenarios.processed_alerts import process_alert
from tests.support.stores import SERVER

SIZES = Sizes(services=20, incidents=40, events=400, rules=50)


@pytest.fixture
def large(world):
    if not SERVER:
        pytest.skip("needs PostgreSQL")
    process_alert(world, world.team.creation_date)
    write_large(world.account.account_identifier, SIZES)
    return world


def test_it_has_the_requested_size(large):
    counts = {table: table.select().count() for table in (Event, Receipt, Incident, Entity, Notification)}

    assert counts == {Event: 401, Receipt: 401, Incident: 41, Entity: 41, Notification: 41}
    assert Service.select().count() == Integration.select().count() == 21


def test_each_incident_is_open_and_has_an_entity_ten_alerts_and_a_message(large):
    for incident in Incident.select().where(Incident.title.startswith("Disk of")):
        (entity,) = Entity.select().where(Entity.incident == incident)
        events = list(Event.select().where(Event.incident == incident))

        assert {(event.entity_id, event.service) for event in events} == {
            (entity.entity_id, incident.service)
        }
        assert len(events) == 10
        assert Message.select().join(Notification).where(Notification.incident == incident).count() == 1


def test_nothing_is_pending_and_the_next_incident_has_the_next_number(large, now):
    process_alert(large, now, entity="another")

    assert Account.get_by_id(large.account.id).last_incident_number == 42
    assert Incident.select().order_by(Incident.id.desc()).get().incident_number == 42
    assert not Timer.select().where(Timer.done_at.is_null()).exists()


@pytest.mark.parametrize("matching", [1, 10, 100])
def test_this_number_of_rules_matches_an_alert(world, now, matching):
    write_rules([world.integration.integration_key], 50, matching)
    process_alert(world, now, payload={"host": "db1.example.org"})

    event = Event.get()
    assert AlertRule.select().count() == 50
    assert sum(each["matches"] for each in event.rules if "matches" in each) == min(matching, 50)


def test_rules_are_replaced(world):
    for rules in (50, 20):
        write_rules([world.integration.integration_key], rules, 1)

    assert AlertRule.select().count() == 20
    assert {len(json.loads(rule.rule_json)["and"]) for rule in AlertRule.select()} == {2}
