"""Work that was written while the clock was ahead is due as soon as if the clock had always been right."""

import json
from datetime import timedelta

import pytest

from bench.servers.plans import list_scans
from models.domain.enums import IncidentStatus
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.events import Entity
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.services import Service
from models.tables.timers import Timer
from pipeline.stages.resent_alerts import EXPIRES_AFTER, REPEATS_AFTER
from tests.support.alerts import accept
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, alert, deliver_to, move
from tests.support.scenarios.incident_log import list_log_reasons
from tests.support.scenarios.timers import MINUTE, list_notified, open_incident, set_policy
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.delivery.outbox import CLAIM
from workers.periodic import future_entities
from workers.periodic.clock_set_back import FutureRows
from workers.timers import audit, fire

__all__ = ["deliver_to"]

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def future_rows(now):
    """As it is in a clock process that runs: it has looked before."""
    found = FutureRows()
    found.correct(now - 2 * HOUR)
    return found


def list_due():
    """List when the pending timers are due, by kind."""
    rows = Timer.select(Timer.kind, Timer.due_at).where(Timer.done_at.is_null())
    return dict(rows.tuples())


def test_a_message_written_while_the_clock_was_ahead_is_sent_at_once(world, now, deliver_to, future_rows):
    alert(world, now)
    with relay() as box:
        deliver_to(box.port)
        assert deliver.send_due(MAIL, now - HOUR) == 0
        future_rows.correct(now - HOUR)
        assert deliver.send_due(MAIL, now - HOUR) == 1

    assert len(box.mails) == 1


def test_a_delayed_message_keeps_its_delay_from_now(world, now, future_rows):
    alert(world, now)
    Message.update(next_attempt_at=Message.get().created_at + 10 * MINUTE).execute()
    future_rows.correct(now - HOUR)

    message = Message.get()
    assert (message.created_at, message.next_attempt_at) == (now - HOUR, now - HOUR + 10 * MINUTE)
    assert Notification.get().not_before <= message.next_attempt_at


def test_a_claim_by_a_clock_that_was_ahead_ends_in_time(world, now, future_rows):
    alert(world, now)
    Message.update(claimed_until=now + CLAIM).execute()
    future_rows.correct(now - HOUR)

    assert Message.get().claimed_until == now - HOUR + CLAIM


def test_a_retry_counts_from_now_if_its_attempt_lies_in_the_future(world, now, future_rows):
    alert(world, now - 2 * HOUR)
    message = Message.get()
    Attempt.insert(
        message=message,
        at=now,
        outcome="failed",
        detail=make_reason("smtp_accepted", code=450),
        milliseconds=1,
    ).execute()
    Message.update(attempts=1, first_attempt_at=now, next_attempt_at=now + 10 * SECOND).execute()
    future_rows.correct(now - HOUR)

    message = Message.get()
    assert (message.first_attempt_at, message.next_attempt_at) == (now - HOUR, now - HOUR)


def test_the_steps_of_an_incident_opened_while_the_clock_was_ahead_come_in_time(world, now, future_rows):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    assert list_due()["escalate"] > now
    future_rows.correct(now - HOUR)

    assert list_due()["escalate"] == now - HOUR + 5 * MINUTE
    incident = Incident.get()
    assert (incident.creation_date, incident.run_started_at) == (now - HOUR, now - HOUR)
    assert len(list_log_reasons("timers_moved_back")) == 1
    fire.fire_due(now - HOUR + 5 * MINUTE)
    assert [name for name, _ in list_notified()] == ["Alice", "Bob"]


def test_the_audit_finds_nothing_to_repair_afterwards(world, now, future_rows):
    Service.update(auto_resolve_timeout=86_400).execute()
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    future_rows.correct(now - HOUR)
    before = list_due()
    audit.audit(now - HOUR)

    assert list_due() == before
    assert before["auto_resolve"] == now - HOUR + timedelta(days=1)
    assert list_log_reasons("timers_repaired") == []


def test_an_acknowledgement_by_a_clock_that_was_ahead_times_out_in_time(world, now, future_rows):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=600).execute()
    provisioning.bump_version(world.account.id)
    incident = open_incident(world, now - 2 * HOUR)
    move(incident, IncidentStatus.ACKNOWLEDGED, world.alice, now)
    future_rows.correct(now - HOUR)

    assert list_due()["acknowledgement_timeout"] == now - HOUR + 10 * MINUTE


def test_a_delivery_of_an_outbound_integration_is_due_at_once(world, now, future_rows):
    incident = open_incident(world, now - 2 * HOUR)
    target = OutboundTarget.create(
        integration=world.integration, url="https://example.org/", secret="s", creation_date=now - 2 * HOUR,
        claimed_until=now + MINUTE, retry_at=now + MINUTE, served_at=now,
    )  # fmt: skip
    OutboundDelivery.create(
        unique_id=make_uuid(), target=target, incident=incident, event="triggered", created_at=now,
        next_attempt_at=now,
    )  # fmt: skip
    future_rows.correct(now - HOUR)

    target, delivery = OutboundTarget.get(), OutboundDelivery.get()
    assert (target.claimed_until, target.retry_at) == (now - HOUR, now - HOUR)
    assert (delivery.created_at, delivery.next_attempt_at) == (now - HOUR, now - HOUR)


def test_an_alert_after_a_resolve_of_the_future_opens_an_incident(world, now, future_rows):
    """The source runs on the same host, so that its clock was ahead too."""

    def send(at, status):
        one = {"status": status, "labels": {"alertname": "A"}, "fingerprint": "db1"}
        body = {"alerts": [{**one, "startsAt": at.isoformat(), "endsAt": at.isoformat()}]}
        accept(world, at, source="prometheus", body=json.dumps(body).encode())
        process_lane.run(world.service.id)
        return Incident.select().count()

    future_rows.correct(now)
    assert send(now, "firing") == 1
    send(now + MINUTE, "resolved")
    future_rows.correct(now - HOUR)

    entity = Entity.get()
    assert (entity.resolved_at, entity.resolved_source_at) == (now - HOUR, now - HOUR)
    assert send(now - HOUR + MINUTE, "firing") == 2


def test_an_alert_that_fell_silent_ends_as_if_the_clock_had_been_right(world, now, future_rows):
    future_rows.correct(now)
    entity = Entity.create(
        integration=world.integration, entity_id="db1", firing=True, expires_at=now + 4 * MINUTE,
        repeats_at=now + REPEATS_AFTER,
    )  # fmt: skip
    future_rows.correct(now - HOUR)

    entity = Entity.get()
    assert entity.expires_at == now - HOUR + EXPIRES_AFTER
    assert entity.repeats_at == now - HOUR + REPEATS_AFTER
    future_rows.correct(now - HOUR + MINUTE)
    assert Entity.get().expires_at == entity.expires_at


def test_an_end_that_the_source_names_stays_while_the_clock_goes_on(world, now, future_rows):
    Entity.create(integration=world.integration, entity_id="db1", firing=True, expires_at=now + HOUR)
    future_rows.correct(now)
    FutureRows().correct(now)

    assert Entity.get().expires_at == now + HOUR


def test_entities_of_a_locked_service_are_corrected_later(world, now, future_rows, monkeypatch):
    future_rows.correct(now)
    Entity.create(integration=world.integration, entity_id="db1", resolved_at=now)
    with monkeypatch.context() as locked:
        locked.setattr(future_entities, "lock_free_services", lambda rows: {})
        future_rows.correct(now - HOUR)
    assert Entity.get().resolved_at == now
    future_rows.correct(now - HOUR + SECOND)

    assert Entity.get().resolved_at == now - HOUR + SECOND


def test_a_change_that_nothing_recent_shows_is_found_at_a_start_and_after_a_step_back(world, now):
    future_rows = FutureRows()
    future_rows.correct(now)
    incident = open_incident(world, now - 2 * HOUR)
    Incident.update(run_started_at=now).where(Incident.id == incident.id).execute()
    future_rows.correct(now - HOUR)
    assert Incident.get().run_started_at == now - HOUR

    Incident.update(run_started_at=now).where(Incident.id == incident.id).execute()
    FutureRows().correct(now - HOUR)
    assert Incident.get().run_started_at == now - HOUR


def test_rows_of_the_past_are_left_alone_and_found_by_indexes(world, now, statements, future_rows):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    before = (list_due(), Message.get().next_attempt_at, Incident.get().run_started_at)
    with statements() as seen:
        future_rows.correct(now + MINUTE)

    assert (list_due(), Message.get().next_attempt_at, Incident.get().run_started_at) == before
    assert [sql for sql, *_ in seen if sql.startswith(("UPDATE", "INSERT"))] == []
    # There is one target for each outbound integration, which are few.
    assert [scan for scan in list_scans(seen) if "outbound_target" not in scan] == []
