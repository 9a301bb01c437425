"""A worker processes the lane of a router, with a real database: targets, order and failures."""

import peewee
import pytest

from bench.servers.plans import list_scans
from models.domain.applications import GENERIC, PROMETHEUS
from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.people import provisioning
from models.tables.accounts import bump_version
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.routers import RouterRule
from models.tables.services import Integration
from tests.support.rules import (
    RuleAction,
    accept_from_router,
    action,
    add_router,
    add_router_rule,
    add_rule,
    equals,
)
from workers.alerts import process_lane, process_router
from workers.alerts.batches import BatchSize


@pytest.fixture
def router(world):
    return add_router(world)


@pytest.fixture
def far_integration(world, now):
    """An integration of another service."""
    service = provisioning.create_service(world.team, "Far", world.policy, world.alice, now)
    return provisioning.create_integration(service, "Far webhook", GENERIC, world.alice, now)


def send(router, now, entity="db1", level="critical", **more):
    return accept_from_router(router, now, message=entity, alert_type=level, entity_id=entity, **more)


def run_lanes():
    while process_router.process_pending_routers() or process_lane.process_pending_lanes():
        pass


def events():
    return list(Event.select().order_by(Event.receipt, Event.position, Event.id))


def test_an_alert_reaches_each_target_like_an_alert_with_its_key(world, now, router, far_integration):
    add_router_rule(router, world.integration, far_integration)
    send(router, now)
    run_lanes()

    assert [(e.integration, e.service) for e in events()] == [
        (world.integration, world.service),
        (far_integration, far_integration.service),
    ]
    assert [(i.title, i.service) for i in Incident.select().order_by(Incident.service)] == [
        ("db1", world.service),
        ("db1", far_integration.service),
    ]
    assert [stage for stage, _ in events()[0].reasons] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip
    assert Receipt.get().state == WorkState.DONE


def test_rules_and_settings_of_the_target_count(world, now, router, far_integration):
    add_router_rule(router, world.integration, far_integration)
    add_rule(world, action(RuleAction.CHANGE_MESSAGE, "ruled"))
    Integration.update(create_incidents_for=0).where(Integration.id == far_integration.id).execute()
    bump_version(world.account.id)
    send(router, now)
    run_lanes()

    assert [incident.title for incident in Incident.select()] == ["ruled"]
    assert len(events()[0].rules) == 2


def test_an_alert_that_matches_no_rule_is_done_with_a_reason(world, now, router):
    add_router_rule(router, world.integration, when=equals("message", "other"))
    send(router, now)
    run_lanes()

    (event,) = events()
    assert (event.integration, event.service, event.suppressed, event.state) == (
        None,
        None,
        True,
        WorkState.DONE,
    )
    assert list_reasons(event)[-1][1] == make_reason("no_router_rule", router="Front door")


def test_alerts_of_a_router_take_effect_in_their_order_at_each_target(
    world, now, router, far_integration, monkeypatch
):
    monkeypatch.setattr(process_router, "_batch_size", BatchSize(target_s=1e9, limit=3))
    add_router_rule(router, world.integration, far_integration)
    levels = ["critical", "resolved", "critical", "acknowledged", "resolved", "critical", "resolved"]
    for level in levels:
        send(router, now, level=level)
    run_lanes()

    for service in (world.service, far_integration.service):
        statuses = [i.status for i in Incident.select().where(Incident.service == service)]
        assert statuses == [3, 3, 3]


def test_an_alert_of_a_router_does_not_overtake_earlier_alerts(world, now, router):
    """The service's lane runs before all receipts of the router are routed."""
    add_router_rule(router, world.integration)
    for level in ("critical", "resolved", "critical"):
        send(router, now, level=level)
        process_router.run(router.id)
    process_lane.run(world.service.id, "rules")

    assert [i.status for i in Incident.select().order_by(Incident.id)] == [3, 1]


def test_a_changed_rule_applies_to_alerts_accepted_after_it(world, now, router, far_integration):
    rule = add_router_rule(router, world.integration)
    send(router, now, "a")
    run_lanes()
    RouterRule.update(
        actions=[{"unique_id": "", "action_type": 0, "integration": far_integration.unique_id}]
    ).where(RouterRule.id == rule.id).execute()
    bump_version(world.account.id)
    send(router, now, "b")
    run_lanes()

    assert [event.integration for event in events()] == [world.integration, far_integration]


def test_a_disabled_target_gets_no_alerts(world, now, router, far_integration):
    add_router_rule(router, world.integration, far_integration)
    Integration.update(is_enabled=False).where(Integration.id == far_integration.id).execute()
    bump_version(world.account.id)
    send(router, now)
    run_lanes()

    (event,) = events()
    assert event.integration == world.integration
    assert list_reasons(event)[1][1].more == (make_reason("target_closed", target="Far webhook"),)


def test_a_target_of_another_account_gets_no_alerts(world, now, router):
    service = provisioning.create_service(world.mallorys_team, "Elsewhere", None, world.mallory, now)
    foreign = provisioning.create_integration(service, "Foreign", GENERIC, world.mallory, now)
    add_router_rule(router, foreign)
    send(router, now)
    run_lanes()

    assert [event.integration for event in events()] == [None]


@pytest.mark.parametrize("deleted_kind", ["integration", "service"])
def test_an_alert_whose_target_is_deleted_becomes_a_dead_letter(
    world, now, router, far_integration, deleted_kind
):
    add_router_rule(router, far_integration, world.integration)
    send(router, now)
    process_router.run(router.id)
    (far_integration if deleted_kind == "integration" else far_integration.service).delete_instance()
    run_lanes()

    assert [i.service for i in Incident.select().where(Incident.title == "db1")] == [world.service]
    dead_letter = Event.get(Event.state == WorkState.DEAD_LETTER)
    assert dead_letter.error == make_reason("owner_deleted", owner=deleted_kind)


def test_a_pending_receipt_of_a_deleted_router_becomes_a_dead_letter(world, now, router):
    add_router_rule(router, world.integration)
    send(router, now)
    router.delete_instance()
    run_lanes()

    assert (Receipt.get().state, Receipt.get().error) == (
        WorkState.DEAD_LETTER,
        make_reason("owner_deleted", owner="service or router"),
    )
    assert not Incident.select().exists()


def test_a_prometheus_body_in_the_generic_form_becomes_the_alerts_of_its_target(world, now, router):
    prometheus_integration = provisioning.create_integration(
        world.service, "Prometheus", PROMETHEUS, world.alice, now
    )
    add_router_rule(router, prometheus_integration, when=equals("payload.version", "4"))
    alerts = [{"status": "firing", "labels": {"alertname": f"A{n}"}, "fingerprint": f"{n}"} for n in range(3)]
    accept_from_router(router, now, body={"version": "4", "alerts": alerts})
    run_lanes()

    assert [i.title for i in Incident.select().order_by(Incident.id)] == ["A0", "A1", "A2"]
    assert Receipt.select().count() == 1


def patch_poison(monkeypatch):
    real = process_router.route

    def fail_on_poison(incoming, *limit):
        if b"poison" in incoming.body.raw:
            raise ZeroDivisionError("poison")
        return real(incoming, *limit)

    monkeypatch.setattr(process_router, "route", fail_on_poison)


def test_a_failing_receipt_is_reported_and_later_ones_are_processed(
    world, now, router, far_integration, monkeypatch
):
    patch_poison(monkeypatch)
    add_router_rule(router, far_integration, when=equals("message", "nothing"))
    add_router_rule(router, world.integration)
    for entity in ("first", "poison", "last"):
        send(router, now, entity)
    run_lanes()

    dead_letter = Receipt.get(Receipt.state == WorkState.DEAD_LETTER)
    assert dead_letter.error == make_reason("alert_failed", error="ZeroDivisionError", stage="route")
    titles = sorted(incident.title for incident in Incident.select())
    assert titles == ["Tocsin could not read an alert from Far webhook", "first", "last"]
    assert Notification.select().count() == 3


def test_a_failing_receipt_of_a_router_without_targets_is_skipped(world, now, router, monkeypatch):
    patch_poison(monkeypatch)
    send(router, now, "poison")
    run_lanes()

    assert Receipt.get().state == WorkState.DEAD_LETTER


def test_a_failing_receipt_is_reported_by_the_first_target_of_the_rules(
    world, now, router, far_integration, monkeypatch
):
    """The order of the rules counts, not the order in which integrations were created."""
    patch_poison(monkeypatch)
    add_router_rule(router, far_integration, world.integration)
    send(router, now, "poison")
    run_lanes()

    assert Incident.get().service == far_integration.service


def test_a_receipt_with_too_many_alerts_becomes_a_dead_letter(
    world, now, router, far_integration, monkeypatch
):
    monkeypatch.setattr("pipeline.router.MAX_EVENTS", 1)
    add_router_rule(router, far_integration, world.integration)
    send(router, now)
    run_lanes()

    assert Receipt.get().error == make_reason("alert_failed", error="TooManyAlerts", stage="route")
    assert Incident.get().service == far_integration.service


def test_a_batch_ends_after_many_events_and_loses_none(world, now, router, far_integration, monkeypatch):
    monkeypatch.setattr(process_router, "_batch_size", BatchSize(target_s=0.0, limit=4))
    add_router_rule(router, far_integration, world.integration)
    for number in range(5):
        send(router, now, f"db{number}")
    batches = []
    monkeypatch.setattr(process_router, "_write", build_counter(process_router._write, batches))
    process_router.run(router.id)

    assert batches == [4, 4, 2]
    assert len(events()) == 10
    assert Receipt.select().where(Receipt.state == WorkState.PENDING).count() == 0


def build_counter(write, batches):
    def counted(taken, events):
        batches.append(len(events))
        write(taken, events)

    return counted


def test_statements_do_not_grow_with_the_batch(world, now, router, far_integration, statements):
    add_router_rule(router, world.integration, far_integration)

    def count(alerts):
        for number in range(alerts):
            send(router, now, f"{alerts}-{number}")
        with statements() as routed:
            process_router._run_transaction(router.id, 300)
        with statements() as worked:
            process_lane._run_transaction(world.service.id, process_lane.get_segment("rules"), 1000)
        return len(routed), len(worked)

    count(2)
    assert count(300) == count(1)


def test_a_routers_lane_scans_no_large_table(world, now, router, far_integration, statements):
    add_router_rule(router, world.integration, far_integration)
    for _ in range(3):
        send(router, now)
    with statements() as seen:
        process_router.run(router.id)
        process_lane.run(world.service.id, "rules")

    assert list_scans(seen) == []


def test_routing_locks_no_service(world, now, router, far_integration, statements):
    """So a lane that is busy for long does not delay a router."""
    add_router_rule(router, world.integration, far_integration)
    send(router, now)
    send(router, now)
    process_router._run_transaction(router.id, 300)
    send(router, now)
    with statements() as seen:
        process_router._run_transaction(router.id, 300)

    assert not [text for text, _ in seen if '"service" ' in text and "SELECT" in text]


def test_a_database_error_makes_no_dead_letter(world, now, router, monkeypatch):
    add_router_rule(router, world.integration)
    send(router, now)

    with monkeypatch.context() as patched:

        def fail_store(*_):
            raise peewee.OperationalError("away")

        patched.setattr(process_router, "route", fail_store)
        with pytest.raises(peewee.OperationalError):
            process_router.run(router.id)
    run_lanes()

    assert Receipt.get().state == WorkState.DONE
    assert Incident.select().count() == 1
