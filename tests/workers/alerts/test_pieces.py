"""A receipt with many alerts is processed in pieces, and continues at the same place after a crash."""

import random

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.people import provisioning
from models.tables.accounts import Account
from models.tables.events import Entity, Event, Receipt, ReceiptProgress
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.timers import Timer
from tests.support.alerts import accept, list_rows
from tests.support.large_groups import build_body, run_piece, set_piece_size
from workers.alerts import batches, pieces, process_lane, taken_work
from workers.alerts.batches import BatchSize, TurnResult
from workers.alerts.pieces import ParsedBody

TABLES = (Event, Incident, Entity, Notification, Timer, IncidentLog)


class Killed(BaseException):
    """The worker is killed here."""


@pytest.fixture(autouse=True)
def _small_pieces(store, monkeypatch):
    """Let pieces have 7 alerts."""
    set_piece_size(monkeypatch, 7)


def count_done():
    return ReceiptProgress.get().alerts_done


def test_each_transaction_processes_one_piece_and_stores_the_progress(world, now):
    receipt = accept(world, now, source="prometheus", body=build_body(20))

    assert run_piece(world) == 7
    assert (count_done(), Event.select().count(), Receipt.get().state) == (7, 7, WorkState.PENDING)
    assert run_piece(world) == 7
    assert (count_done(), Event.select().count(), Receipt.get().state) == (14, 14, WorkState.PENDING)
    assert run_piece(world) == 6
    assert (Event.select().count(), Receipt.get().state) == (20, WorkState.DONE)
    assert not ReceiptProgress.select().exists()
    assert run_piece(world) == 0
    assert not pieces.is_in_pieces(("service", world.service.id))
    assert {event.receipt_id for event in Event.select()} == {receipt.id}


def test_a_receipt_that_fits_into_a_batch_has_no_pieces(world, now, statements):
    accept(world, now, source="prometheus", body=build_body(7))
    with statements() as seen:
        run_piece(world)

    assert Receipt.get().state == WorkState.DONE
    assert not [text for text in map(str, seen) if 'INSERT INTO "receipt_progress"' in text]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_of_any_size_give_the_same_rows(world, now, monkeypatch, size, outcomes):
    set_piece_size(monkeypatch, size)
    accept(world, now, source="prometheus", body=build_body(15))
    accept(world, now, source="prometheus", body=build_body(9, level="warning"))
    accept(world, now, message="one", alert_type="critical", entity_id="host3")
    process_lane.run(world.service.id)

    found = list_rows(*TABLES)
    assert found == outcomes.setdefault("rows", found)


@pytest.fixture(scope="module")
def outcomes():
    return {}


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_random_places_lose_and_repeat_no_alert(world, now, monkeypatch, seed):
    """Each kill happens in a transaction or between two. Another process, with nothing parsed, continues."""
    chance = random.Random(seed)
    expected = build_expected(world, now, monkeypatch)
    restart(monkeypatch)
    places = [(taken_work, "save_progress"), (process_lane, "apply"), (process_lane, "_adjust_size")]
    for _ in range(8):
        set_piece_size(monkeypatch, chance.choice((1, 3, 7)))
        with monkeypatch.context() as patched:
            module, name = chance.choice(places)
            patched.setattr(module, name, kill_at(getattr(module, name), chance.randint(1, 3)))
            try:
                process_lane.run(world.service.id)
            except Killed:
                pieces.clear()
    process_lane.run(world.service.id)

    assert list_rows(*TABLES) == expected


def build_expected(world, now, monkeypatch):
    """Process the alerts in one batch, and return the rows."""
    set_piece_size(monkeypatch, 1000)
    accept(world, now, source="prometheus", body=build_body(25))
    accept(world, now, source="prometheus", body=build_body(30, level="resolved", name="host"))
    process_lane.run(world.service.id)
    return list_rows(*TABLES)


def restart(monkeypatch):
    """Make the receipts pending again, and delete what they led to."""
    for table in (Notification, Timer, IncidentLog, Entity, Event, Incident):
        table.delete().execute()
    pieces.clear()
    Account.update(last_incident_number=0).execute()
    Receipt.update(state=WorkState.PENDING).execute()
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=1))


def kill_at(function, call):
    calls = []

    def killing(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise Killed
        return function(*arguments, **options)

    return killing


def test_another_process_continues_with_the_next_alert(world, now):
    accept(world, now, source="prometheus", body=build_body(20))
    run_piece(world)
    pieces.clear()
    run_piece(world)

    assert [event.position for event in Event.select().order_by(Event.id)] == list(range(14))


def test_a_later_receipt_of_the_lane_waits_for_the_last_piece(world, now):
    accept(world, now, source="prometheus", body=build_body(20))
    accept(world, now, message="later", alert_type="critical", entity_id="later")
    process_lane.run(world.service.id)

    assert [event.position for event in Event.select().order_by(Event.id)] == [*range(20), 0]


def test_between_two_pieces_another_service_is_processed(world, now):
    other = add_service(world, now)
    accept(world, now, source="prometheus", body=build_body(20))
    run_piece(world)
    accept(other, now, message="urgent", alert_type="critical", entity_id="urgent")
    process_lane.run(other.service.id)

    assert Receipt.get(Receipt.service == world.service.id).state == WorkState.PENDING
    assert Incident.get(Incident.title == "urgent").service_id == other.service.id
    assert count_done() == 7


def test_a_poison_alert_in_the_second_piece_becomes_the_only_dead_letter(world, now, monkeypatch):
    poison(monkeypatch, "host9")
    accept(world, now, source="prometheus", body=build_body(20))
    process_lane.run(world.service.id)

    assert Receipt.get().state == WorkState.DONE
    assert Event.select().count() == 20
    dead = Event.get(Event.state == WorkState.DEAD_LETTER)
    assert (dead.position, dead.error.code) == (9, "alert_failed")
    assert Event.select().where(Event.state == WorkState.DONE).count() == 19


def poison(monkeypatch, entity):
    real = process_lane.run_stages

    def fail_on_poison(items, *arguments):
        if any(item.alert.entity_id == entity for item in items):
            raise ZeroDivisionError
        return real(items, *arguments)

    monkeypatch.setattr(process_lane, "run_stages", fail_on_poison)


def test_after_an_alert_that_cannot_be_stored_the_others_are_processed_and_a_replay_adds_it(
    world, now, monkeypatch
):
    receipt = accept(world, now, source="prometheus", body=build_body(20))
    with monkeypatch.context() as patched:
        poison(patched, "host9")
        patched.setattr(process_lane, "_insert_dead_letter", lambda *_: 1 / 0)
        process_lane.run(world.service.id)

    assert (Receipt.get().state, Event.select().count()) == (WorkState.DEAD_LETTER, 19)
    Receipt.update(state=WorkState.PENDING, error=None, replayed_at=now).where(
        Receipt.id == receipt.id
    ).execute()
    process_lane.run(world.service.id)
    assert Receipt.get().state == WorkState.DONE
    assert sorted(event.position for event in Event.select()) == list(range(20))


def test_a_large_body_that_cannot_be_parsed_becomes_a_dead_letter(world, now):
    accept(world, now, source="prometheus", body=build_body(20))
    Receipt.update(body=b"[").execute()
    accept(world, now, message="later", alert_type="critical", entity_id="later")
    process_lane.run(world.service.id)

    first, second = Receipt.select().order_by(Receipt.id)
    assert first.error == make_reason("alert_failed", error="BadBody", stage="normalize")
    assert (first.state, second.state) == (WorkState.DEAD_LETTER, WorkState.DONE)


def test_pieces_do_not_linger(world, now):
    """A lingering lane waits for more alerts, but the next piece is there already."""
    accept(world, now, source="prometheus", body=build_body(20))

    assert process_lane.run(world.service.id, is_enough=lambda _: True) == TurnResult(20)
    assert Receipt.get().state == WorkState.DONE


def test_rules_that_take_much_time_end_a_piece(world, now, monkeypatch):
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.0)
    accept(world, now, source="prometheus", body=build_body(3))
    assert run_piece(world) == 1
    assert (count_done(), Event.select().count()) == (1, 1)
    process_lane.run(world.service.id)

    assert (Event.select().count(), Receipt.get().state) == (3, WorkState.DONE)


def test_the_size_of_a_piece_follows_the_time_of_the_pieces_before(world, now, store, monkeypatch):
    """On SQLite, where a piece locks the whole database."""
    monkeypatch.setattr(pieces, "ParsedBody", ParsedBody)
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize())
    monkeypatch.setattr(process_lane, "thread_time", iter(n * 0.1 for n in range(1000)).__next__)
    accept(world, now, source="prometheus", body=build_body(store.lane_batch + 100))
    run_piece(world)
    first = count_done()
    if not store.has_single_writer:
        assert first == store.lane_batch
        return
    for _ in range(10):
        run_piece(world)
    before = count_done()
    run_piece(world)

    assert (first, count_done() - before) == (pieces.FIRST_SIZE, pieces.MIN_SIZE)


def test_a_piece_has_as_many_statements_as_any_other(world, now, statements, monkeypatch):
    accept(world, now, source="prometheus", body=build_body(200))
    run_piece(world)
    counts = []
    for size in (5, 50, 80):
        set_piece_size(monkeypatch, size)
        pieces.clear()
        with statements() as seen:
            run_piece(world)
        counts.append(len(seen))

    assert counts[0] == counts[1] == counts[2]


def add_service(world, now, name="Other"):
    service = provisioning.create_service(world.team, name, world.policy, world.alice, now)
    integration = provisioning.create_integration(service, "Other", GENERIC, world.alice, now)
    return replace(world, service=service, integration=integration)


@pytest.fixture
def parsed(monkeypatch):
    """Return a list of the sizes of the bodies that are parsed from now on."""
    sizes, real = [], pieces.parse_body

    def parse_body(source, body):
        sizes.append(len(body.raw))
        return real(source, body)

    monkeypatch.setattr(pieces, "parse_body", parse_body)
    return sizes


def test_each_of_many_bodies_is_parsed_once_although_they_are_processed_in_turn(
    world, now, monkeypatch, parsed
):
    monkeypatch.setattr(process_lane, "SLICE_S", 0)
    for number in range(12):
        service = add_service(world, now, f"Service {number}")
        accept(service, now, source="prometheus", body=build_body(40))
    process_lane.process_pending_lanes()

    assert Event.select().count() == 12 * 40
    assert len(parsed) == 12


def test_bodies_beyond_the_memory_are_parsed_again_and_the_first_ones_are_not(
    world, now, monkeypatch, parsed
):
    monkeypatch.setattr(process_lane, "SLICE_S", 0)
    for number, name in enumerate(("one", "second", "the third", "the fourth one")):
        service = add_service(world, now, f"Service {number}")
        accept(service, now, source="prometheus", body=build_body(40, name=name))
    lengths = [len(build_body(40, name=name)) for name in ("one", "second", "the third", "the fourth one")]
    with monkeypatch.context() as patched:
        # Two of the bodies fit.
        patched.setattr(pieces, "measure", lambda _: 1)
        patched.setattr(pieces, "MAX_BYTES", 2)
        process_lane.process_pending_lanes()

    counts = [parsed.count(length) for length in lengths]
    assert Event.select().count() == 4 * 40
    assert counts[:2] == [1, 1]
    assert min(counts[2:]) > 1


def test_a_body_that_another_process_has_finished_makes_room(world, now, monkeypatch, parsed):
    monkeypatch.setattr(pieces, "MAX_BYTES", 1)
    accept(world, now, source="prometheus", body=build_body(40))
    run_piece(world)
    monkeypatch.setattr(pieces, "UNUSED_S", -1.0)
    other = add_service(world, now)
    accept(other, now, source="prometheus", body=build_body(40))
    run_piece(other)

    assert not pieces.is_in_pieces(("service", world.service.id))
    assert pieces.is_in_pieces(("service", other.service.id))


def test_the_memory_of_a_body_is_that_of_its_alerts():
    assert 10_000 < pieces.measure([b"x" * 1000] * 10) < 11_000


def test_the_poller_gives_each_lane_a_turn(world, now, monkeypatch):
    """Without Redis, a service that was accepted later does not wait for all pieces of a receipt."""
    monkeypatch.setattr(process_lane, "SLICE_S", 0)
    other = add_service(world, now)
    accept(world, now, source="prometheus", body=build_body(20))
    accept(other, now, message="urgent", alert_type="critical", entity_id="urgent")
    process_lane.process_pending_lanes()

    services = [event.service_id for event in Event.select().order_by(Event.id)]
    assert services == [*[world.service.id] * 7, other.service.id, *[world.service.id] * 13]
