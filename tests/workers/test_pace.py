"""How many alerts a batch takes, and that one which takes too long is made smaller."""

import time

import pytest

from models import postgresql
from models.base import STORE_ERRORS, db
from models.events import Event, Receipt
from tests.alerts import accept
from workers import road, waiting
from workers.pace import FEWEST, FIRST, Pace


def test_batches_grow_to_what_the_store_takes_and_shrink_to_what_fits_the_time(store):
    pace = Pace(target_s=1.0)
    assert pace.most() == (FIRST if store.lane_holds_all else store.lane_batch)
    for _ in range(20):
        pace.took(pace.most(), 0.001)
    assert pace.most() == store.lane_batch
    for _ in range(20):
        pace.took(pace.most(), pace.most() * 1.0)
    assert pace.most() == (FEWEST if store.lane_holds_all else 1)


def test_a_batch_that_the_store_ended_is_followed_by_smaller_ones_down_to_one(store):
    pace = Pace()
    for _ in range(20):
        pace.failed()

    assert pace.most() == 1


def test_a_lane_whose_batch_takes_longer_than_its_transaction_may_comes_to_its_end(
    world, now, store, monkeypatch
):
    """SQLite ends nobody's transaction; there it comes to its end as well."""
    for number in range(40):
        accept(world, now, message="m", alert_type="critical", entity_id=f"e{number}")
    walk = road.walk

    def slowly(travellers, *given):
        ends_at = time.thread_time() + 0.005 * len(travellers)
        while time.thread_time() < ends_at:
            pass
        return walk(travellers, *given)

    monkeypatch.setattr(road, "walk", slowly)
    monkeypatch.setattr(postgresql, "AT_FIRST", "set idle_in_transaction_session_timeout = '120ms'")
    for _ in range(8):
        db.close()
        db.obj.close_all()
        try:
            road.run(world.service.id)
        except STORE_ERRORS:
            continue
    db.connect(reuse_if_open=True)

    assert Event.select().count() == 40


def test_a_batch_holds_no_more_of_bodies_than_memory_bears(world, now, monkeypatch):
    monkeypatch.setattr(waiting, "MOST_BYTES", 100)
    for _ in range(3):
        accept(world, now, message="x" * 60, alert_type="critical")

    assert len(waiting.waiting_receipts(world.service.id, 300)) == 1
    road.run(world.service.id)
    assert not Receipt.select().where(Receipt.state == 0).exists()


@pytest.fixture(autouse=True)
def _own_pace(monkeypatch):
    monkeypatch.setattr(road, "_pace", Pace())
