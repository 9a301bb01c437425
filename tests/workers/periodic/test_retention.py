"""Retention deletes what is old and not needed, in small transactions."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Event as Signal

import peewee
import pytest
from structlog.testing import capture_logs

from bench.servers.plans import list_scans
from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.store.peewee_internals import get_table_name, get_values
from models.store.store import db, store
from models.tables.accounts import RateLimit, Token
from models.tables.changes import Change
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentGroup, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.timers import Timer
from runtime.settings import load
from tests.support import stores
from tests.support.alerts import accept
from tests.support.polling import PATIENCE_S
from web.account import message_limits
from web.http import rate_limit
from workers import steps
from workers.alerts import process_lane
from workers.periodic import old_rows, retention
from workers.periodic.retention import RetentionTimes

DAY = timedelta(days=1)
TIMES = RetentionTimes(30 * DAY, 60 * DAY, 90 * DAY)

# Tables without an age, with the reason why their rows stay.
KEPT = {
    **dict.fromkeys(
        (
            "account", "config_version", "custom_role", "user", "contact_method",
            "notification_rule", "forwarding_rule", "team", "team_member", "incident_role", "priority",
            "sla", "tag",
            "escalation_policy", "task_template", "template_task", "schedule", "schedule_override", "service",
            "integration", "added_application", "alert_rule", "outgoing_rule", "alert_grouping_policy",
            "global_router", "router_rule", "maintenance", "maintenance_service", "stakeholder_address",
            "outbound_target",
        ),
        "people wrote this configuration, and people delete it",
    ),
    **dict.fromkeys(
        ("post_incident_task", "postmortem", "postmortem_incident"),
        "people wrote these texts after an incident, and people delete them",
    ),
    "secret": "a fixed number of rows, which are overwritten",
    "failed_authentication": "a row for each client address; rows of earlier minutes are deleted",
    "contact_code": "a row for each contact, which the next code replaces",
    "contact_link": "a row for each contact, which the next code replaces",
    "wrong_reply": "the next wrong reply deletes those that count no more",
    "source_setup": "a row for each integration, which the next change replaces",
    "contact_secret": "a row for each contact, which the next secret replaces",
    "push_subscription": "a row for each contact, which is deleted with it",
    "password": "a row for each person, which the next password replaces",
    "passkey": "people add them, and people delete them",
    "identity": "a row for each person at a provider; a reset of the sign-in deletes it",
    "callback": "the next callback deletes those that are older than any may be",
    "early_report": "the next early report deletes those that no attempt claimed within some minutes",
    "message_update": "a row for each message; after some attempts, the delivery deletes it",
    "lease": "a row for each account at a provider to which a process listens",
    "claim_holder": "a row for each worker process; the others delete those of dead processes",
    "listener_position": "a row for each account at a provider to which a process listens",
    "liveness": "a row for each process; the reports delete those of dead processes",
}  # fmt: skip


def test_each_table_has_an_age_or_a_reason_to_be_kept(now):
    kinds = [kind for kind, _ in retention.list_limits(now, TIMES)]
    deleted = {kind.table for kind in kinds} | {column.model for kind in kinds for column in kind.referring}
    aged = {get_table_name(table) for table in deleted}

    assert aged.isdisjoint(KEPT)
    assert {get_table_name(table) for table in stores.TABLES} == aged | set(KEPT)


def clean_up(at, times=TIMES):
    return retention.clean_up(at, times, rest=lambda _: None)


@pytest.fixture
def resolved(world, now):
    """A resolved incident with its alerts, its log, its timers, a sent message and an attempt."""
    for level in ("critical", "resolved"):
        accept(world, now, message="Disk full", alert_type=level, entity_id="db1")
    process_lane.run(world.service.id)
    Message.update(state=MessageStatus.SENT, done_at=now).execute()
    Notification.update(state=NotificationStatus.SENT, done_at=now).execute()
    Attempt.create(message=Message.get(), at=now, outcome="sent", detail="", milliseconds=1)
    Timer.create(incident=Incident.get(), kind="sla", key="done", due_at=now, done_at=now)
    return Incident.get()


def count_rows():
    tables = (Receipt, Event, Message, Notification, Attempt, Incident, IncidentLog, Timer, Entity)
    return {table.__name__: table.select().count() for table in tables}


def test_an_entity_with_a_deferred_alert_outlives_its_last_incident(resolved, now):
    """Without the entity, maintenance would not release the deferred alert."""
    Entity.update(deferred_alert="deferred", last_incident=resolved).execute()

    clean_up(now + 91 * DAY)

    assert Incident.select().count() == 0
    assert Entity.get().deferred_alert == "deferred"
    assert Entity.get().last_incident is None


def test_a_long_pass_logs_how_far_it_is(resolved, now, monkeypatch):
    monkeypatch.setattr(retention, "PROGRESS_EVERY_S", 0.0)
    with capture_logs() as logs:
        clean_up(now + 31 * DAY)

    lines = [{name: each.get(name) for name in ("event", "kind", "deleted")} for each in logs]
    assert {"event": "deleting old rows", "kind": "alerts", "deleted": 2} in lines
    assert lines[-1]["event"] == "old rows deleted"


def test_each_kind_is_deleted_at_its_age(resolved, now):
    full = count_rows()
    assert min(full.values()) > 0
    clean_up(now + 29 * DAY)
    assert count_rows() == full

    clean_up(now + 31 * DAY)
    assert count_rows() == {**full, "Receipt": 0, "Event": 0}

    clean_up(now + 61 * DAY)
    assert count_rows() == {
        **full, "Receipt": 0, "Event": 0, "Message": 0, "Notification": 0, "Attempt": 0,
    }  # fmt: skip

    clean_up(now + 91 * DAY)
    assert set(count_rows().values()) == {0}


def test_values_of_groups_are_deleted_after_a_day_also_of_open_incidents(resolved, now):
    keep_open(resolved, now)
    IncidentGroup.create(incident=resolved, digest="x" * 64, created_at=now)

    clean_up(now + DAY)
    assert IncidentGroup.select().count() == 1

    clean_up(now + 2 * DAY)
    assert (IncidentGroup.select().count(), Incident.select().count()) == (0, 1)


def test_the_counts_of_a_rate_are_deleted_when_no_limit_needs_them(world, now):
    for operation, used_at in (("old", now), ("new", now + 2 * DAY), ("only locked", None)):
        RateLimit.create(account=world.account, operation=operation, recent=[1.0], used_at=used_at)

    clean_up(now + 2 * DAY + timedelta(seconds=1))

    assert {row.operation for row in RateLimit.select()} == {"new", "only locked"}


def test_the_counts_of_a_rate_live_longer_than_its_longest_limit():
    kinds = ("ADDRESS", "PERSON", "ACCOUNT", "PERSON_INVITATIONS", "ACCOUNT_INVITATIONS", "CODES")
    longest = max(seconds for kind in kinds for _, seconds in getattr(message_limits, kind))

    assert timedelta(seconds=longest) < retention.RATE_AGE


def test_a_counted_request_is_marked_with_its_time(world, now):
    rate_limit.enforce(((1, 1.0),), world.account, "x", now)
    rate_limit.enforce(((1, 1.0),), world.account, "x", now + DAY)

    assert RateLimit.get().used_at == now + DAY


@pytest.mark.parametrize("column", ["expires_at", "revoked_at"])
def test_a_token_that_has_ended_is_deleted_after_90_days(world, now, column):
    for name in ("ended", "later"):
        provisioning.issue_token(world.bob, name, now)
    for name, at in (("ended", now), ("later", now + DAY)):
        Token.update({column: at}).where(Token.name == name).execute()
    count = Token.select().count()

    clean_up(now + 90 * DAY)
    assert Token.select().count() == count

    clean_up(now + 90 * DAY + timedelta(seconds=1))
    names = {token.name for token in Token.select()}
    assert ("ended" in names, "later" in names, len(names & {"test"})) == (False, True, 1)


def test_without_an_age_incidents_and_notifications_stay_for_ever(resolved, now):
    clean_up(now + 9_000 * DAY, RetentionTimes(30 * DAY, None, None))

    assert (Incident.select().count(), Notification.select().count(), Receipt.select().count()) == (1, 1, 0)


def keep_open(incident, now):
    Incident.update(status=IncidentStatus.ACKNOWLEDGED, resolved_date=None).execute()


def keep_for_postmortem(incident, now):
    author = incident.team.owner
    written = Postmortem.create(
        unique_id=make_uuid(), team=incident.team, author=author, creation_date=now, updated_at=now
    )
    PostmortemIncident.create(unique_id=make_uuid(), postmortem=written, incident=incident)


def keep_for_merged_incident(incident, now):
    columns = get_values(incident) | {"unique_id": make_short_id(), "incident_number": 2, "parent": incident}
    del columns["id"]
    Incident.create(**{**columns, "status": IncidentStatus.TRIGGERED, "resolved_date": None})


def keep_for_timer(incident, now):
    Timer.create(incident=incident, kind="sla", key="x", due_at=now)


def keep_for_unsent_message(incident, now):
    Message.update(state=MessageStatus.PENDING, done_at=None).execute()


@pytest.mark.parametrize(
    "need",
    [keep_open, keep_for_postmortem, keep_for_merged_incident, keep_for_timer, keep_for_unsent_message],
)
def test_an_incident_that_is_needed_stays(resolved, now, need):
    need(resolved, now)
    clean_up(now + 400 * DAY)

    assert Incident.select().where(Incident.id == resolved.id).exists()


def test_an_open_incident_keeps_its_alerts_and_notifications(resolved, now):
    full = count_rows()
    keep_open(resolved, now)
    clean_up(now + 400 * DAY)

    # The alert that resolved it is part of the incident too.
    assert count_rows() == full


def test_an_unsent_message_stays_with_its_notifications(resolved, now):
    keep_for_unsent_message(resolved, now)
    clean_up(now + 400 * DAY)

    assert (Message.select().count(), Notification.select().count()) == (1, 1)


def test_a_receipt_that_is_not_completed_stays(world, now):
    accept(world, now, message="pending", alert_type="critical")

    assert clean_up(now + 400 * DAY) == 0
    assert Receipt.select().count() == 1


def test_alerts_stay_at_most_as_long_as_incidents():
    times = RetentionTimes.from_settings(
        load({"TOCSIN_KEEP_INCIDENTS": "10", "TOCSIN_KEEP_NOTIFICATIONS": "0"})
    )

    assert times == RetentionTimes(10 * DAY, 10 * DAY, 10 * DAY)


def add_old_receipts(world, at, bodies, alerts=1):
    """Write done receipts with alerts, as they are some days later."""
    for number in range(bodies):
        body = json.dumps({"message": "m", "alert_type": "info", "entity_id": f"e{number}"}).encode()
        receipt = accept(world, at, body=body, trace=1_000 + number)
        Event.insert_many(
            {
                "unique_id": make_short_id(),
                "receipt": receipt,
                "position": position,
                "integration": world.integration,
                "service": world.service,
                "message": "m",
                "alert_type": 4,
                "entity_id": f"e{number}",
                "creation_date": at,
            }
            for position in range(alerts)
        ).execute()
    Receipt.update(state=1).execute()


@pytest.mark.parametrize(("bodies", "alerts"), [(250, 1), (1, 650)], ids=["many bodies", "a large body"])
def test_a_transaction_deletes_few_rows_and_then_rests(world, now, monkeypatch, bodies, alerts):
    """The rows of a transaction are counted by the changes of the store, cascades included."""
    add_old_receipts(world, now, bodies, alerts)
    sizes, rests = [], []
    real = old_rows.delete

    def count_deleted(*arguments):
        before = Receipt.select().count() + Event.select().count()
        result = real(*arguments)
        sizes.append(before - Receipt.select().count() - Event.select().count())
        return result

    monkeypatch.setattr(old_rows, "delete", count_deleted)
    retention.clean_up(now + 31 * DAY, TIMES, rest=rests.append)

    assert sum(sizes) == bodies * (alerts + 1)
    assert max(sizes) <= old_rows.MAX_ROWS
    assert len(rests) >= len(sizes) - 1
    assert min(rests) >= retention.MIN_REST_S


def test_a_transaction_deletes_few_bytes(world, now, monkeypatch):
    add_old_receipts(world, now, 10)
    monkeypatch.setattr(old_rows, "MAX_BYTES", 100)
    Receipt.update(body=b"x" * 60).execute()

    batches = list(old_rows.search(old_rows.ALERTS, now + DAY))

    assert [len(batch) for batch in batches] == [1] * 10


def test_a_transaction_has_few_statements(world, now, statements):
    add_old_receipts(world, now, 3 * old_rows.BATCH_SIZE)
    with statements() as seen:
        clean_up(now + 31 * DAY)

    texts = [text for text, _ in seen]
    assert sum(text.startswith("DELETE") for text in texts) == 3 * 2
    # Per transaction: its rows, the rows that refer to them, two deletions, begin and commit.
    assert len(texts) < 3 * 6 + 24


def test_old_rows_are_found_by_indexes(world, resolved, now, statements):
    with statements() as seen:
        clean_up(now + 400 * DAY)

    # What remains are pages in the order of the primary key.
    assert [each for each in list_scans(seen) if "LIMIT" not in each] == []


@pytest.mark.skipif(bool(stores.SERVER), reason="the autovacuum of PostgreSQL does it")
def test_a_file_with_much_free_space_becomes_smaller(world, now, monkeypatch):
    add_old_receipts(world, now, 300)
    Receipt.update(body=b"x" * 8_000).execute()
    monkeypatch.setattr(type(store()), "_MIN_FREE_PAGES", 64)
    before = count_pages()

    clean_up(now + 31 * DAY)

    assert count_pages() < before / 2


def count_pages():
    return db.execute_sql("PRAGMA page_count").fetchone()[0]


@pytest.mark.skipif(bool(stores.SERVER), reason="the autovacuum of PostgreSQL does it")
def test_a_file_that_cannot_become_smaller_ends_the_clean_up(world, now, monkeypatch):
    db.execute_sql("PRAGMA auto_vacuum = NONE")
    db.execute_sql("VACUUM")
    add_old_receipts(world, now, 300)
    Receipt.update(body=b"x" * 8_000).execute()
    monkeypatch.setattr(type(store()), "_MIN_FREE_PAGES", 64)
    before = count_pages()

    assert clean_up(now + 31 * DAY) == 300
    assert count_pages() == before


def test_a_stopped_process_ends_the_clean_up(world, now, monkeypatch):
    add_old_receipts(world, now, 250)
    monkeypatch.setattr(steps, "_stopping", Signal())

    assert retention.clean_up(now + 31 * DAY, TIMES, rest=lambda _: steps.stop()) == 25


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_row_that_somebody_changes_now_stays(world, resolved, now):
    with ThreadPoolExecutor(1) as pool, store().write_transaction():
        store().for_update(Incident.select()).execute()
        pool.submit(clean_up, now + 400 * DAY).result(timeout=PATIENCE_S)
        assert Incident.select(peewee.fn.COUNT(Incident.id)).scalar() == 1


def add_changes(world, at, count, **more):
    for number in range(count):
        Change.create(
            unique_id=make_short_id(),
            account=world.account,
            at=at,
            action="changed",
            kind="service",
            object_id=world.service.unique_id,
            number=number,
            actor="Alice",
            way="interface",
            batch=make_short_id(),
            **more,
        )


def test_changes_are_kept_for_their_time(world, now):
    add_changes(world, now - 2 * DAY, 3)
    add_changes(world, now, 2)

    clean_up(now, replace(TIMES, changes=DAY))

    assert Change.select().count() == 2


def test_an_account_keeps_its_newest_changes(world, now, monkeypatch):
    monkeypatch.setattr(old_rows.list_surplus_changes, "__defaults__", (3,))
    add_changes(world, now, 5)

    clean_up(now)

    assert [change.number for change in Change.select().order_by(Change.id)] == [2, 3, 4]


def test_deleted_rows_are_kept_for_thirty_days(world, now):
    add_changes(world, now - 31 * DAY, 60, removed="sealed")
    add_changes(world, now - 29 * DAY, 1, removed="sealed")

    clean_up(now)

    assert Change.select().where(Change.removed.is_null(False)).count() == 1
    assert Change.select().count() == 61
