"""A scenario with a router, alert rules and collation, with mails in a real mailbox."""

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import IncidentStatus
from models.people import provisioning
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from tests.support.rules import (
    RuleAction,
    accept_from_router,
    action,
    add_router,
    add_router_rule,
    add_rule,
    equals,
    var,
)
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane, process_router

A = RuleAction


@pytest.fixture
def send_routed(timeline, world, now):
    """send_routed("Disk full", "db1"): send one alert by the router's key.

    Alerts about hosts go to Checkout, with a collation of ten minutes. It suppresses notifications for a host
    within half an hour of its last incident. Alerts about builds go to Builds; its rules delay the first
    notification by two minutes and add Bob. Test alerts notify nobody.
    """
    Service.update(collation=1, collation_time=10).where(Service.id == world.service.id).execute()
    set_policy(world, (0, world.alice), (15, world.bob))
    builds = provisioning.create_service(world.team, "Builds", world.policy, world.alice, now)
    builds_integration = provisioning.create_integration(builds, "Builds door", GENERIC, world.alice, now)
    Integration.update(create_incidents_for=2).where(Integration.id == builds_integration.id).execute()
    recent = {"and": [{"<": [var("seconds_since_last"), 1800]}, equals("alert_type", "3")]}
    add_rule(world, action(A.CHANGE_ENTITY_ID, "{{payload.host}}"))
    add_rule(world, action(A.SUPPRESS), when=recent)
    add_rule(
        world,
        action(A.CHANGE_ENTITY_ID, "build {{payload.build}}"),
        action(A.CHANGE_MESSAGE, "Build {{payload.build}} failed"),
        action(A.ASSIGN_USER, world.bob.username),
        action(A.DELAY_NOTIFICATIONS, "120"),
        integration=builds_integration,
    )
    router = add_router(world)
    add_router_rule(router, when=equals("payload.environment", "test"), suppress=True)
    add_router_rule(router, world.integration, when={"!!": [var("payload.payload.host")]})
    add_router_rule(router, builds_integration, when={"!!": [var("payload.payload.build")]})
    bump_version(world.account.id)

    def sent(message, level="critical", environment="live", **payload):
        body = {"message": message, "alert_type": level, "environment": environment, "payload": payload}
        accept_from_router(router, timeline.now, exactly=True, body=body)
        process_router.run(router.id)
        process_lane.run(builds.id, "rules")
        timeline._run_due()

    return sent


def status(number):
    return Incident.get(Incident.incident_number == number).status


def test_a_night_behind_a_router(timeline, send_routed):
    send_routed("Disk full", host="db1")
    assert timeline.mails() == [("alice", "[Checkout] #1 Disk full (critical)")]

    # The other hosts follow within minutes: one incident, and nobody is notified twice.
    timeline.after(minutes=2)
    send_routed("Disk full", host="db2")
    send_routed("Disk full", host="db1")
    send_routed("Load is high", host="web1", environment="test")
    assert timeline.mails() == []

    # A failed build is repaired before its two minutes are over; the next one is not.
    send_routed("failed", "error", build="41")
    timeline.after(minutes=1)
    send_routed("ok", "resolved", build="41")
    send_routed("failed", "error", build="42")
    timeline.after(minutes=1, seconds=59)
    assert timeline.mails() == []
    timeline.after(seconds=1)
    assert sorted(timeline.mails()) == [
        ("alice", "[Builds] #3 Build 42 failed (error)"),
        ("bob", "[Builds] #3 Build 42 failed (error)"),
    ]
    send_routed("ok", "resolved", build="42")
    timeline.after(seconds=1)
    assert sorted(timeline.mails()) == [
        (person, "[Builds] #3 Build 42 failed (error): resolved after 2 min") for person in ("alice", "bob")
    ]

    # Nobody acknowledges the incident of the disks; Bob is notified after a quarter of an hour.
    timeline.after(minutes=9, seconds=59)
    assert timeline.mails() == [("bob", "[Checkout] #1 Disk full (critical)")]
    send_routed("fine", "resolved", host="db1")
    assert status(1) == IncidentStatus.TRIGGERED
    send_routed("fine", "resolved", host="db2")
    assert status(1) == IncidentStatus.RESOLVED

    timeline.after(seconds=1)
    assert sorted(timeline.mails()) == [
        (person, "[Checkout] #1 Disk full (critical): resolved after 15 min") for person in ("alice", "bob")
    ]

    # It fails again within the half hour and notifies nobody; after the half hour it notifies.
    timeline.after(minutes=19, seconds=59)
    send_routed("Disk full", host="db1")
    assert timeline.mails() == []
    timeline.after(minutes=11)
    send_routed("Disk full", host="db1")
    assert timeline.mails() == [("alice", "[Checkout] #4 Disk full (critical)")]
    assert Incident.select().count() == 4
