"""The pieces of a receipt share their messages: one contact gets one message per step, or at most two."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus, WorkState
from models.load.lane import lock_service
from models.store.store import connection
from models.tables.events import Event, Receipt, ReceiptProgress
from models.tables.notifications import Message, Notification
from models.write import shared_messages
from models.write.shared_messages import HOLD
from pipeline.topology import build_segments
from tests.support.alerts import accept
from tests.support.large_groups import build_body, run_piece, set_piece_size
from tests.support.polling import PATIENCE_S
from tests.support.rules import add_router, add_router_rule
from workers.alerts import pieces, process_lane, process_router
from workers.alerts.batches import BatchSize
from workers.delivery import outbox


@pytest.fixture(autouse=True)
def _small_pieces(store, monkeypatch):
    set_piece_size(monkeypatch, 7)
    monkeypatch.setattr(process_router, "_batch_size", BatchSize(target_s=1e9, limit=7))


@pytest.fixture
def clock(store, monkeypatch, now):
    """Stop the clock of the database at `now`; move it by calling this fixture."""
    moment = [now]
    monkeypatch.setattr(type(store), "now", lambda _: moment[0])

    def move(delta):
        moment[0] += delta

    return move


def list_sizes():
    """Return the number of notifications of each message."""
    messages = Message.select().order_by(Message.id)
    return [Notification.select().where(Notification.message == message).count() for message in messages]


def is_claimable(store):
    with store.write_transaction():
        return outbox.claim(1, Message.get().account_id, store.now()) is not None


def test_all_pieces_of_a_receipt_share_one_message(world, now, store, clock):
    accept(world, now, source="prometheus", body=build_body(20))
    process_lane.run(world.service.id)

    assert list_sizes() == [20]
    assert is_claimable(store)
    assert not is_claimable(store)


def test_the_message_is_held_until_the_last_piece(world, now, store, clock):
    accept(world, now, source="prometheus", body=build_body(20))
    run_piece(world)
    clock(timedelta(seconds=9))
    run_piece(world)

    assert list_sizes() == [14]
    assert not is_claimable(store)
    run_piece(world)
    assert is_claimable(store)


def test_after_ten_seconds_the_message_is_sent_and_the_rest_shares_a_second_one(world, now, store, clock):
    accept(world, now, source="prometheus", body=build_body(40))
    run_piece(world)
    run_piece(world)
    clock(HOLD)
    assert is_claimable(store)
    Message.update(state=MessageStatus.SENT).execute()
    for _ in range(3):
        run_piece(world)
        clock(timedelta(seconds=8))
        assert not is_claimable(store)
    run_piece(world)

    assert list_sizes() == [14, 26]
    assert is_claimable(store)


def test_a_worker_that_was_killed_between_pieces_delays_a_message_by_ten_seconds(world, now, store, clock):
    accept(world, now, source="prometheus", body=build_body(20))
    run_piece(world)
    assert not is_claimable(store)
    clock(HOLD)

    assert is_claimable(store)


def test_a_message_that_is_being_sent_gets_no_more_notifications(world, now, store, clock):
    accept(world, now, source="prometheus", body=build_body(20))
    run_piece(world)
    Message.update(claimed_until=now + outbox.CLAIM).execute()
    process_lane.run(world.service.id)

    assert list_sizes() == [7, 13]
    assert Message.get(Message.id == 1).claimed_until == now + outbox.CLAIM


def test_receipts_that_fit_into_one_batch_share_messages_as_before(world, now, clock):
    accept(world, now, source="prometheus", body=build_body(3), exactly=True)
    accept(world, now, source="prometheus", body=build_body(3, name="other"), exactly=True)
    process_lane.run(world.service.id)

    assert list_sizes() == [6]
    assert Message.get().pieces_of is None


def test_two_receipts_in_pieces_have_a_message_each(world, now, clock):
    for name in ("a", "b"):
        accept(world, now, source="prometheus", body=build_body(20, name=name))
    process_lane.run(world.service.id)

    assert list_sizes() == [20, 20]


def test_a_piece_with_a_poison_alert_at_its_end_releases_the_message(world, now, store, clock, monkeypatch):
    real = process_lane.run_stages

    def fail_on_poison(items, *arguments):
        if any(item.alert.entity_id == "host19" for item in items):
            raise ZeroDivisionError
        return real(items, *arguments)

    monkeypatch.setattr(process_lane, "run_stages", fail_on_poison)
    accept(world, now, source="prometheus", body=build_body(20))
    process_lane.run(world.service.id)

    # The other message is about the dead letter.
    assert sorted(list_sizes()) == [1, 19]
    assert is_claimable(store)
    assert is_claimable(store)


@pytest.mark.parametrize("splits", [("normalize",), ("rules",), ("normalize", "route", "rules")], ids=str)
def test_after_a_queue_split_the_alerts_of_a_receipt_share_one_message(
    world, now, store, clock, monkeypatch, splits
):
    monkeypatch.setattr(process_lane, "_segments", build_segments(splits))
    accept(world, now, source="prometheus", body=build_body(20))
    while process_lane.process_pending_lanes():
        pass

    assert list_sizes() == [20]
    assert is_claimable(store)


@pytest.fixture
def router(world):
    router = add_router(world)
    add_router_rule(router, world.integration)
    return router


def send(world, router, now, body):
    receipt = accept(world, now, source="prometheus", body=body)
    Receipt.update(router=router, service=None, integration=None).where(Receipt.id == receipt.id).execute()


def test_a_routers_receipt_is_routed_in_pieces_and_its_service_sends_one_message(
    world, now, store, clock, router
):
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    progress = ReceiptProgress.get()
    assert (progress.alerts_done, progress.events_written, Event.select().count()) == (7, 7, 7)
    process_lane.process_pending_lanes()
    assert not is_claimable(store)
    process_router.run(router.id)
    process_lane.process_pending_lanes()

    assert not ReceiptProgress.select().exists()
    assert Receipt.get().state == WorkState.DONE
    assert [event.position for event in Event.select().order_by(Event.id)] == list(range(20))
    assert list_sizes() == [20]
    assert is_claimable(store)


def test_a_service_without_alerts_in_the_last_pieces_sends_its_message_when_all_is_routed(
    world, now, store, clock
):
    router = add_router(world)
    add_router_rule(router, world.integration, when={"==": [{"var": "alert.entity_id"}, "host3"]})
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    process_lane.process_pending_lanes()
    assert (list_sizes(), is_claimable(store)) == ([1], False)
    process_router.run(router.id)

    assert is_claimable(store)


def test_a_service_with_alerts_left_keeps_its_message_when_all_is_routed(world, now, store, clock, router):
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    process_lane.process_pending_lanes()
    process_router.run(router.id)
    assert not is_claimable(store)
    process_lane.process_pending_lanes()

    assert (list_sizes(), is_claimable(store)) == ([20], True)


@pytest.fixture
def separately(store):
    """separately(function, ...): call it in another thread with its own connection, and return its result."""

    def call(function, *arguments):
        with connection():
            return function(*arguments)

    with ThreadPoolExecutor(1) as pool:
        yield lambda *arguments: pool.submit(call, *arguments).result(timeout=PATIENCE_S)


def test_the_last_piece_of_a_router_waits_for_no_service(world, now, store, clock, enqueued, separately):
    """A worker that holds the lock of a service for long delays neither the router nor another service."""
    if store.has_single_writer:
        pytest.skip("SQLite has no locks of rows")
    router = add_router(world)
    add_router_rule(router, world.integration, when={"==": [{"var": "alert.entity_id"}, "host3"]})
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    process_lane.process_pending_lanes()
    with store.write_transaction():
        lock_service(world.service.id)
        assert separately(process_router.run, router.id).taken
        assert separately(is_claimable, store)


def test_lanes_are_woken_before_messages_are_released(world, now, clock, enqueued, router, monkeypatch):
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    woken = []
    monkeypatch.setattr(process_router, "release_in_services", lambda _: woken.extend(enqueued))
    process_router.run(router.id)

    assert woken == [("pipeline.normalize", world.service.id)] * 3


@pytest.mark.parametrize("alone", [False, True])
def test_a_service_that_did_not_see_the_end_of_the_routing_releases_its_message_itself(
    world, now, store, clock, monkeypatch, separately, alone
):
    """The router is done during the transaction of the service, and finds no message to release."""
    if store.has_single_writer:
        pytest.skip("SQLite has one writer at a time")
    router = add_router(world)
    add_router_rule(router, world.integration, when={"==": [{"var": "alert.entity_id"}, "host3"]})
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    real, calls = process_lane.run_stages, []

    def decide(items, *arguments):
        calls.append(1)
        if alone and len(calls) == 1:
            raise ZeroDivisionError
        separately(process_router.run, router.id)
        return real(items, *arguments)

    monkeypatch.setattr(process_lane, "run_stages", decide)
    process_lane.run(world.service.id, "rules")

    assert Receipt.get().state == WorkState.DONE
    assert (list_sizes(), is_claimable(store)) == ([1], True)


def test_a_routers_receipt_continues_after_a_crash(world, now, clock, router):
    send(world, router, now, build_body(20))
    process_router._process_batch(router.id)
    pieces.clear()
    process_router.run(router.id)

    assert sorted(event.position for event in Event.select()) == list(range(20))


def test_what_exceeds_the_events_of_a_body_is_a_dead_letter(world, now, clock, router, monkeypatch):
    """What was routed before stays: nobody loses a page because of the alerts after it."""
    monkeypatch.setattr("pipeline.router.MAX_EVENTS", 10)
    send(world, router, now, build_body(20))
    process_router.run(router.id)

    assert Receipt.get().error.parameters["error"] == "TooManyAlerts"
    assert (ReceiptProgress.get().alerts_done, Event.select().count()) == (10, 10)


def test_the_hold_is_ten_seconds():
    assert timedelta(seconds=10) == shared_messages.HOLD
