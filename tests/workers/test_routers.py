"""A router's lane against a real store: which alerts it makes, in which order, and what goes wrong."""

import peewee
import pytest

from models import founding
from models.accounts import raise_version
from models.applications import GENERIC, PROMETHEUS
from models.enums import RuleAction, WorkState
from models.events import Event, Receipt
from models.incidents import Incident
from models.notices import Notice
from models.routers import RouterRule
from models.services import Integration
from pipeline.routing import Routing
from tests.models.test_indexes import scans
from tests.rules import accept_by, action, add_router, add_router_rule, add_rule, equals
from workers import road, routing
from workers.pace import Pace


@pytest.fixture
def router(world):
    return add_router(world)


@pytest.fixture
def far(world, now):
    """An integration of another service."""
    service = founding.new_service(world.team, "Far", world.policy, world.alice, now)
    return founding.new_integration(service, "Far door", GENERIC, world.alice, now)


def send(router, now, entity="db1", level="critical", **more):
    return accept_by(router, now, message=entity, alert_type=level, entity_id=entity, **more)


def work():
    while routing.sweep() or road.sweep():
        pass


def events():
    return list(Event.select().order_by(Event.receipt, Event.position, Event.id))


def test_an_alert_reaches_every_target_as_if_it_had_come_by_its_key(world, now, router, far):
    add_router_rule(router, world.integration, far)
    send(router, now)
    work()

    assert [(e.integration, e.service) for e in events()] == [
        (world.integration, world.service),
        (far, far.service),
    ]
    assert [(i.title, i.service) for i in Incident.select().order_by(Incident.service)] == [
        ("db1", world.service),
        ("db1", far.service),
    ]
    assert [stage for stage, _ in events()[0].reasons] == [
        "normalize", "route", "rules", "dedupe", "incident", "notify",
    ]  # fmt: skip
    assert Receipt.get().state == WorkState.DONE


def test_rules_and_settings_of_the_target_count(world, now, router, far):
    add_router_rule(router, world.integration, far)
    add_rule(world, action(RuleAction.CHANGE_MESSAGE, "ruled"))
    Integration.update(create_incidents_for=0).where(Integration.id == far.id).execute()
    raise_version(world.account.id)
    send(router, now)
    work()

    assert [incident.title for incident in Incident.select()] == ["ruled"]
    assert len(events()[0].rules) == 2


def test_what_matches_nothing_is_done_with_and_told(world, now, router):
    add_router_rule(router, world.integration, when=equals("message", "other"))
    send(router, now)
    work()

    (event,) = events()
    assert (event.integration, event.service, event.suppressed, event.state) == (
        None,
        None,
        True,
        WorkState.DONE,
    )
    assert event.reasons[-1][1] == "no rule of router Front door matches: it reaches nobody"


def test_alerts_of_a_router_take_effect_in_their_order_at_each_target(world, now, router, far, monkeypatch):
    monkeypatch.setattr(routing, "_pace", Pace(target_s=1e9, limit=3))
    add_router_rule(router, world.integration, far)
    levels = ["critical", "resolved", "critical", "acknowledged", "resolved", "critical", "resolved"]
    for level in levels:
        send(router, now, level=level)
    work()

    for service in (world.service, far.service):
        statuses = [i.status for i in Incident.select().where(Incident.service == service)]
        assert statuses == [3, 3, 3]


def test_an_alert_of_a_router_overtakes_none_that_was_sent_before_it(world, now, router):
    """Worked on by the service before the router has sent all of them."""
    add_router_rule(router, world.integration)
    for level in ("critical", "resolved", "critical"):
        send(router, now, level=level)
        routing.run(router.id)
    road.run(world.service.id, "rules")

    assert [i.status for i in Incident.select().order_by(Incident.id)] == [3, 1]


def test_a_rule_counts_for_what_is_accepted_after_the_change(world, now, router, far):
    rule = add_router_rule(router, world.integration)
    send(router, now, "a")
    work()
    RouterRule.update(actions=[{"unique_id": "", "action_type": 0, "integration": far.unique_id}]).where(
        RouterRule.id == rule.id
    ).execute()
    raise_version(world.account.id)
    send(router, now, "b")
    work()

    assert [event.integration for event in events()] == [world.integration, far]


def test_a_target_that_was_disabled_meanwhile_takes_none(world, now, router, far):
    add_router_rule(router, world.integration, far)
    Integration.update(is_enabled=False).where(Integration.id == far.id).execute()
    raise_version(world.account.id)
    send(router, now)
    work()

    (event,) = events()
    assert event.integration == world.integration
    assert event.reasons[1][1].endswith("Far door takes no alerts")


def test_a_target_of_another_account_takes_none(world, now, router):
    service = founding.new_service(world.mallorys_team, "Elsewhere", None, world.mallory, now)
    foreign = founding.new_integration(service, "Foreign", GENERIC, world.mallory, now)
    add_router_rule(router, foreign)
    send(router, now)
    work()

    assert [event.integration for event in events()] == [None]


@pytest.mark.parametrize("what", ["integration", "service"])
def test_a_target_that_is_deleted_between_routing_and_its_service_is_set_aside(world, now, router, far, what):
    add_router_rule(router, far, world.integration)
    send(router, now)
    routing.run(router.id)
    (far if what == "integration" else far.service).delete_instance()
    work()

    assert [i.service for i in Incident.select().where(Incident.title == "db1")] == [world.service]
    aside = Event.get(Event.state == WorkState.ASIDE)
    assert aside.error == f"its {what} was deleted"


def test_what_waited_for_a_deleted_router_is_set_aside(world, now, router):
    add_router_rule(router, world.integration)
    send(router, now)
    router.delete_instance()
    work()

    assert (Receipt.get().state, Receipt.get().error) == (
        WorkState.ASIDE,
        "its service or router was deleted",
    )
    assert not Incident.select().exists()


def test_a_prometheus_body_in_the_generic_form_becomes_the_alerts_of_its_target(world, now, router):
    door = founding.new_integration(world.service, "Prometheus", PROMETHEUS, world.alice, now)
    add_router_rule(router, door, when=equals("payload.version", "4"))
    alerts = [{"status": "firing", "labels": {"alertname": f"A{n}"}, "fingerprint": f"{n}"} for n in range(3)]
    accept_by(router, now, body={"version": "4", "alerts": alerts})
    work()

    assert [i.title for i in Incident.select().order_by(Incident.id)] == ["A0", "A1", "A2"]
    assert Receipt.select().count() == 1


def poisoned(monkeypatch):
    real = Routing.routed

    def fails_on_poison(self, incoming):
        if b"poison" in incoming.body:
            raise ZeroDivisionError("poison")
        return real(self, incoming)

    monkeypatch.setattr(Routing, "routed", fails_on_poison)


def test_poison_is_set_aside_and_told_and_what_is_behind_it_goes_on(world, now, router, far, monkeypatch):
    poisoned(monkeypatch)
    add_router_rule(router, far, when=equals("message", "nothing"))
    add_router_rule(router, world.integration)
    for entity in ("first", "poison", "last"):
        send(router, now, entity)
    work()

    assert Receipt.get(Receipt.state == WorkState.ASIDE).error == "ZeroDivisionError at route"
    titles = sorted(incident.title for incident in Incident.select())
    assert titles == ["Tocsin could not read an alert from Far door", "first", "last"]
    assert Notice.select().count() == 3


def test_poison_of_a_router_that_leads_nowhere_holds_up_nobody(world, now, router, monkeypatch):
    poisoned(monkeypatch)
    send(router, now, "poison")
    work()

    assert Receipt.get().state == WorkState.ASIDE


def test_the_first_target_that_the_rules_name_tells_of_poison(world, now, router, far, monkeypatch):
    """By the order of the rules, not by the order in which integrations were made."""
    poisoned(monkeypatch)
    add_router_rule(router, far, world.integration)
    send(router, now, "poison")
    work()

    assert Incident.get().service == far.service


def test_what_would_become_too_many_alerts_is_set_aside_and_told(world, now, router, far, monkeypatch):
    monkeypatch.setattr("pipeline.routing.MOST_EVENTS", 1)
    add_router_rule(router, far, world.integration)
    send(router, now)
    work()

    assert Receipt.get().error == "TooMany at route"
    assert Incident.get().service == far.service


def test_a_batch_ends_when_it_has_much_to_write_and_loses_nothing(world, now, router, far, monkeypatch):
    monkeypatch.setattr(routing, "MOST_WRITTEN", 4)
    add_router_rule(router, far, world.integration)
    for number in range(5):
        send(router, now, f"db{number}")
    batches = []
    monkeypatch.setattr(routing, "_write", counting(routing._write, batches))
    routing.run(router.id)

    assert batches == [4, 4, 2]
    assert len(events()) == 10
    assert Receipt.select().where(Receipt.state == WorkState.WAITING).count() == 0


def counting(write, batches):
    def counted(taken, events):
        batches.append(len(events))
        write(taken, events)

    return counted


def test_statements_do_not_grow_with_the_batch(world, now, router, far, statements):
    add_router_rule(router, world.integration, far)

    def count(alerts):
        for number in range(alerts):
            send(router, now, f"{alerts}-{number}")
        with statements() as routed:
            routing._transaction(router.id, 300)
        with statements() as worked:
            road._transaction(world.service.id, road.segment_of("rules"), 1000)
        return len(routed), len(worked)

    count(2)
    assert count(300) == count(1)


def test_a_routers_lane_scans_no_large_table(world, now, router, far, statements):
    add_router_rule(router, world.integration, far)
    for _ in range(3):
        send(router, now)
    with statements() as seen:
        routing.run(router.id)
        road.run(world.service.id, "rules")

    assert scans(seen) == []


def test_routing_touches_no_service(world, now, router, far, statements):
    """A lane that is long at work keeps no router waiting."""
    add_router_rule(router, world.integration, far)
    send(router, now)
    send(router, now)
    routing._transaction(router.id, 300)
    send(router, now)
    with statements() as seen:
        routing._transaction(router.id, 300)

    assert not [text for text, _ in seen if '"service" ' in text and "SELECT" in text]


def test_a_store_that_fails_counts_against_no_alert(world, now, router, monkeypatch):
    add_router_rule(router, world.integration)
    send(router, now)

    with monkeypatch.context() as patched:

        def away(*_):
            raise peewee.OperationalError("away")

        patched.setattr(Routing, "routed", away)
        with pytest.raises(peewee.OperationalError):
            routing.run(router.id)
    work()

    assert Receipt.get().state == WorkState.DONE
    assert Incident.select().count() == 1
