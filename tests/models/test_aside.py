"""What was set aside can be seen, taken up again, and dropped (law 9)."""

import threading
from datetime import timedelta

import pytest

from models import aside, founding
from models.applications import GENERIC
from models.base import connection
from models.enums import WorkState
from models.events import Event, Receipt
from tests.set_aside import ERROR, set_aside_alert, set_aside_body


def test_bodies_and_alerts_are_listed_together_in_the_order_of_acceptance(world, now):
    first, second, third = (make(world, now) for make in (set_aside_body, set_aside_alert, set_aside_body))
    listed = aside.listed(aside.within())
    newest = [aside.Key(*row) for row in aside.ordered(newest_first=True)]

    assert [one.id for one in listed] == [first.trace_id, second.unique_id, third.trace_id]
    assert [one.id for one in aside.listed(newest)] == [one.id for one in reversed(listed)]
    assert aside.count() == 3


def test_each_tells_what_is_known_of_it_but_not_its_body(world, now):
    body, alert = set_aside_body(world, now), set_aside_alert(world, now, stage="rules")
    told, told_alert = aside.listed(aside.within())

    assert (told.error, told.source, told.alerts) == (ERROR, "generic", 1)
    assert told.size == len(body.body)
    assert told.service == (world.service.unique_id, "Checkout")
    assert told.integration == (world.integration.unique_id, "Probe")
    assert (told.account, told.team, told.position) == (world.account.id, world.team.id, None)
    assert (told_alert.message, told_alert.position) == ("poison", 0)
    assert told_alert.road == (("normalize", "critical, entity_id given"),)
    assert told_alert.trace_id == alert.receipt.trace_id
    assert aside.body_of(body.trace_id) == bytes(body.body)


def test_a_scope_leaves_out_what_is_of_others(world, now):
    set_aside_body(world, now)
    alert = set_aside_alert(world, now)

    def found(**scope):
        return len(aside.within(aside.Scope(**scope)))

    assert found(account=world.account.id) == 2
    assert found(account=world.mallory.account_id) == 0
    assert found(teams=[world.team.id]) == 2
    assert found(teams=[world.charlies_team.id]) == 0
    assert found(service=world.service.unique_id) == found(service="Checkout") == 2
    assert found(integration="Probe") == found(integration=world.integration.unique_id) == 2
    assert found(integration="Other") == 0
    assert [key.is_alert for key in aside.keys_of(alert.unique_id)] == [True]
    assert [key.row for key in aside.keys_of(alert.receipt.trace_id)] == [alert.id]


def test_a_body_that_is_taken_up_again_waits_in_its_lane(world, now, store):
    body = set_aside_body(world, now)
    before = store.now()
    changed = aside.replay(aside.within(), "Bob")

    row = Receipt.get_by_id(body.id)
    assert (row.state, row.error) == (WorkState.WAITING, None)
    assert before <= row.replayed_at <= store.now()
    assert changed.ids == (body.trace_id,)
    assert changed.lanes == {(world.service.id, None)}
    assert aside.count() == 0


def test_an_alert_that_is_taken_up_again_waits_where_it_was_taken_from(world, now, store):
    set_aside_alert(world, now, stage="rules")
    before = store.now()
    changed = aside.replay(aside.within(), "Bob")

    row = Event.get()
    assert (row.state, row.error, row.stage) == (WorkState.WAITING, None, "rules")
    assert row.creation_date >= before
    assert row.reasons[-1] == [
        "replay",
        "taken up again by Bob; it was set aside: ZeroDivisionError at rules",
    ]
    assert changed.lanes == {(world.service.id, "rules")}


def test_what_is_dropped_is_done_and_keeps_its_error(world, now):
    body, alert = set_aside_body(world, now), set_aside_alert(world, now)
    changed = aside.drop(aside.within(), "Bob")

    row = Receipt.get_by_id(body.id)
    assert (row.state, row.error) == (WorkState.DONE, f"dropped: {ERROR}, by Bob")
    row = Event.get()
    assert (row.state, row.stage, row.error) == (WorkState.DONE, "", ERROR)
    assert row.reasons[-1] == ["aside", "dropped by Bob"]
    assert changed.ids == (body.trace_id, alert.unique_id)


@pytest.mark.parametrize("owner", ["service", "integration"])
def test_what_belonged_to_something_deleted_cannot_be_taken_up_but_dropped(world, now, owner):
    set_aside_body(world, now)
    set_aside_alert(world, now)
    getattr(world, owner).delete_instance()
    changed = aside.replay(aside.within(), "Bob")

    assert (changed.ids, changed.orphans) == ((), 2)
    assert aside.count() == 2
    assert len(aside.drop(aside.within(), "Bob").ids) == 2


def test_of_two_who_take_it_up_at_once_one_gets_it(world, now):
    set_aside_body(world, now)
    set_aside_alert(world, now)
    wanted, together, won = aside.within(), threading.Barrier(4, timeout=10), []

    def replay():
        with connection():
            together.wait()
            won.append(len(aside.replay(wanted, "Bob").ids))

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == [0, 0, 0, 2]
    assert [reason[0] for reason in Event.get().reasons] == ["replay"]


@pytest.mark.parametrize("change", [aside.replay, aside.drop])
def test_the_number_of_statements_does_not_grow_with_what_is_changed(world, now, statements, change):
    def cost(bodies):
        for number in range(bodies):
            set_aside_body(world, now + timedelta(seconds=number))
            set_aside_alert(world, now)
        other = founding.new_service(world.team, f"S{bodies}", world.policy, world.alice, now)
        founding.new_integration(other, "Door", GENERIC, world.alice, now)
        wanted = aside.within()
        with statements() as seen:
            aside.listed(wanted)
            changed = change(wanted, "Bob")
        assert len(changed.ids) == 2 * bodies
        return len(seen)

    assert cost(1) == cost(20)


def test_many_are_changed_in_pieces(world, now, monkeypatch):
    monkeypatch.setattr(aside, "CHANGED_AT_ONCE", 2)
    for _ in range(5):
        set_aside_body(world, now)

    assert [len(piece) for piece in aside.pieces(aside.within())] == [2, 2, 1]
