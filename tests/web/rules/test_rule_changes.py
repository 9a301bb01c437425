"""A configuration change applies to every alert that is accepted after its answer (design, section 5).

Workers process the lanes during these tests. The change may also apply to alerts that were already pending.
"""

import threading
from contextlib import contextmanager

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.people import provisioning
from models.store.store import connection
from models.tables.events import Event, Receipt
from tests.support.polling import wait_until
from workers.alerts import process_lane, process_router

ROUNDS = 12


@contextmanager
def workers(count=2):
    """Run threads that process all lanes repeatedly. Their errors are raised at the end."""
    over, errors = threading.Event(), []

    def run_lanes():
        while not over.wait(0.001):
            try:
                with connection():
                    process_router.process_pending_routers()
                    process_lane.process_pending_lanes()
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=run_lanes) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
        wait_until(lambda: errors or not has_pending(), 30)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not errors


def has_pending():
    return any(table.select().where(table.state == WorkState.PENDING).exists() for table in (Receipt, Event))


@pytest.fixture
def send(ask):
    """send(key, "entity"): send an alert that is accepted."""

    def sent(key, entity, level="critical"):
        body = {"message": "m", "alert_type": level, "entity_id": entity}
        assert ask("POST", f"/api/events/{key}/", body, who=None).status_code == 201

    return sent


@pytest.fixture
def service_path(world):
    return f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/"


@pytest.fixture
def integration_path(world, service_path):
    return f"{service_path}integrations/{world.integration.unique_id}/"


def list_by_entity():
    return {event.entity_id: event for event in Event.select()}


def test_a_changed_alert_rule_applies_to_the_next_alert(ask, world, send, integration_path):
    rules = f"{integration_path}transformers/"
    made = ask("POST", rules, {"actions": [{"action_type": 8, "value": "first"}]}).json["unique_id"]
    with workers():
        for number in range(ROUNDS):
            for before in range(3):
                send(world.integration.integration_key, f"before {number} {before}")
            changed = {"actions": [{"action_type": 8, "value": f"v{number}"}]}
            assert ask("PATCH", f"{rules}{made}/", changed).status_code == 200
            send(world.integration.integration_key, f"{number}")

    found = list_by_entity()
    assert all(int(found[f"{n}"].message[1:]) >= n for n in range(ROUNDS))


def test_a_created_or_deleted_rule_applies_to_the_next_alert(ask, world, send, integration_path):
    rules, key = f"{integration_path}transformers/", world.integration.integration_key
    with workers():
        for number in range(ROUNDS):
            made = ask("POST", rules, {"actions": [{"action_type": 3}]}).json["unique_id"]
            send(key, f"with {number}")
            wait_until(lambda: not has_pending(), every=0.002)
            assert ask("DELETE", f"{rules}{made}/").status_code == 204
            send(key, f"without {number}")
            wait_until(lambda: not has_pending(), every=0.002)

    found = list_by_entity()
    assert all(found[f"with {n}"].suppressed for n in range(ROUNDS))
    assert not any(found[f"without {n}"].suppressed for n in range(ROUNDS))


def test_a_changed_router_rule_applies_to_the_next_alert(ask, world, send, now):
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    targets = [world.integration, other]
    router = ask("POST", "/api/v2/account/events/router/", {"name": "Front door"}).json
    rules = f"/api/v2/account/events/router/{router['unique_id']}/rulesets/"
    rule = ask("POST", rules, {"name": "x"}).json["unique_id"]
    with workers():
        for number in range(ROUNDS):
            target = targets[number % 2].unique_id
            changed = {"actions": [{"action_type": 0, "integration": target}]}
            assert ask("PATCH", f"{rules}{rule}/", changed).status_code == 200
            send(router["integration_key"], f"{number}")
            wait_until(lambda: not has_pending(), every=0.002)

    found = list_by_entity()
    assert [found[f"{n}"].integration for n in range(ROUNDS)] == [targets[n % 2] for n in range(ROUNDS)]


@pytest.mark.parametrize("changed_kind", ["create_incidents_for", "status"])
def test_a_changed_integration_or_service_applies_to_the_next_alert(
    ask, world, send, service_path, integration_path, changed_kind
):
    path = integration_path if changed_kind == "create_incidents_for" else service_path
    with workers():
        for number in range(ROUNDS):
            assert ask("PATCH", path, {changed_kind: number % 2}).status_code == 200
            send(world.integration.integration_key, f"{number}")
            wait_until(lambda: not has_pending(), every=0.002)

    found = list_by_entity()
    assert [found[f"{n}"].incident_created for n in range(ROUNDS)] == [bool(n % 2) for n in range(ROUNDS)]


def test_a_tag_can_be_deleted_while_rules_add_it_to_incidents(ask, world, send, integration_path):
    """Alerts that were accepted before the deletion are processed, with or without the tag."""
    tags = f"/api/account/teams/{world.team.unique_id}/tags/"
    ask(
        "POST", f"{integration_path}transformers/", {"actions": [{"action_type": 12, "value": "{{message}}"}]}
    )
    with workers():
        for number in range(ROUNDS):
            tag = ask("POST", tags, {"name": "m", "color": "#ff0000"})
            assert tag.status_code == 201, tag.json
            for each in range(3):
                send(world.integration.integration_key, f"{number} {each}")
            assert ask("DELETE", f"{tags}{tag.json['unique_id']}/").status_code == 204

    assert {event.state for event in Event.select()} == {WorkState.DONE}
    assert Event.select().count() == 3 * ROUNDS
