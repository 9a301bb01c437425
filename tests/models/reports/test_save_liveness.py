"""Each process shows in the store that it lives, whatever becomes of its counts."""

import peewee

from models.reports import backlog, save_liveness
from models.reports.backlog import ProcessLiveness
from models.reports.save_liveness import LivenessKeeper
from models.tables.accounts import Liveness
from tests.support.polling import wait_until


def test_a_process_is_live_from_its_start_until_its_stop(store):
    keeper = LivenessKeeper("worker", {})
    keeper.start()
    wait_until(lambda: [life.kind for life in backlog.list_live(store.now())] == ["worker"])
    keeper.stop()

    assert backlog.list_live(store.now()) == []


def test_a_process_shows_its_settings(store):
    keeper = LivenessKeeper("worker", {"TOCSIN_SMTP_HOST": "relay"})
    keeper.start()
    wait_until(lambda: bool(backlog.list_live(store.now())))
    (life,) = backlog.list_live(store.now())
    keeper.stop()

    assert life.settings == {"TOCSIN_SMTP_HOST": "relay"}


def test_liveness_is_written_again_after_an_error_of_the_store(store, monkeypatch):
    monkeypatch.setattr(save_liveness, "RETRY_S", 0.0)
    errors = [peewee.OperationalError("down"), ValueError("wrong")]
    real = backlog.record_liveness

    def fail_at_first(*arguments):
        if errors:
            raise errors.pop()
        real(*arguments)

    monkeypatch.setattr(backlog, "record_liveness", fail_at_first)
    keeper = LivenessKeeper("web", {})
    keeper.start()
    wait_until(lambda: [life.kind for life in backlog.list_live(store.now())] == ["web"])
    keeper.stop()

    assert errors == []


def test_the_liveness_of_a_process_killed_long_ago_is_deleted(store):
    now = store.now()
    with store.write_transaction():
        Liveness.create(process="clock", at=now - 2 * backlog.FORGET_AFTER)
        backlog.record_liveness(ProcessLiveness("worker", "worker:a", now), now - 2 * backlog.FORGET_AFTER)
        backlog.record_liveness(ProcessLiveness("worker", "worker:b", now), now)

    assert {row.process for row in Liveness.select()} == {"clock", "worker:b"}
