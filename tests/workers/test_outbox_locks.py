"""A delivery and a lane that are about the same notices, on a store whose rows are locked one by one."""

import threading

import psycopg
import pytest

from models.base import connection
from models.enums import NoticeState
from models.notices import Notice
from tests.alerts import accept
from tests.stores import url_of
from tests.waiting import until
from workers import road
from workers.outbox import Claimed, Ending, Try, settle

WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""
TAKE_BACK = f"update notice set state = {NoticeState.VOID:d} where id = %s"


def test_a_delivery_takes_its_notices_in_the_order_in_which_a_lane_takes_them_back(world, now, store, home):
    """Else each would wait for the other: one is turned away by the store, and its mail is sent again."""
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    for name in ("db1", "db2", "db3"):
        accept(world, now, message=name, alert_type="critical", entity_id=name, exactly=True)
    road.run(world.service.id)
    first, second, third = Notice.select().order_by(Notice.id)
    assert first.message_id == third.message_id
    sent = Try(
        Claimed(first.message_id), now, Ending.SENT, "taken", 1, (second.id, first.id), {third.id: "resolved"}
    )

    def delivers():
        with connection(), store.writing():
            settle(sent)

    with psycopg.connect(url_of(home)) as lane, psycopg.connect(url_of(home), autocommit=True) as watch:
        lane.execute(TAKE_BACK, (first.id,))
        delivery = threading.Thread(target=delivers)
        delivery.start()
        until(lambda: watch.execute(WAITING).fetchone() == (1,))
        lane.execute("set local lock_timeout = '500ms'")
        lane.execute(TAKE_BACK, (third.id,))
        lane.commit()
        delivery.join()

    states = [notice.state for notice in Notice.select().order_by(Notice.id)]
    assert states == [NoticeState.SENT, NoticeState.SENT, NoticeState.VOID]
