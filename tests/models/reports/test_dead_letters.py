"""Dead letters can be listed, replayed and dropped (invariant 9, design, section 2)."""

import threading
from datetime import timedelta

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.people import provisioning
from models.reports import dead_letters
from models.store.store import connection
from models.tables.events import Event, Receipt, list_reasons
from models.write import change_dead_letters
from tests.support.dead_letters import ERROR, add_dead_letter_alert, add_dead_letter_body
from tests.support.polling import PATIENCE_S


def test_dead_bodies_and_alerts_are_in_one_list_in_the_order_of_acceptance(world, now):
    first, second, third = (
        make(world, now) for make in (add_dead_letter_body, add_dead_letter_alert, add_dead_letter_body)
    )
    listed = dead_letters.load_all(dead_letters.list_keys())
    newest = [dead_letters.Key(*row) for row in dead_letters.select_keys(newest_first=True)]

    assert [one.id for one in listed] == [first.trace_id, second.unique_id, third.trace_id]
    assert [one.id for one in dead_letters.load_all(newest)] == [one.id for one in reversed(listed)]
    assert dead_letters.count() == 3


def test_a_dead_letter_is_loaded_with_its_error_and_owner_without_its_body(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now, stage="rules")
    first_body, first_alert = dead_letters.load_all(dead_letters.list_keys())

    assert (first_body.error, first_body.source, first_body.alerts) == (ERROR, "generic", 1)
    assert first_body.size == len(body.body)
    assert first_body.service == (world.service.unique_id, "Checkout")
    assert first_body.integration == (world.integration.unique_id, "Probe")
    assert (first_body.account, first_body.team, first_body.position) == (
        world.account.id,
        world.team.id,
        None,
    )
    assert (first_alert.message, first_alert.position) == ("poison", 0)
    assert first_alert.stages == (("normalize", make_reason("entity_given", level="critical")),)
    assert first_alert.trace_id == alert.receipt.trace_id
    assert dead_letters.load_body(body.trace_id) == bytes(body.body)


def test_a_scope_leaves_out_dead_letters_of_others(world, now):
    add_dead_letter_body(world, now)
    alert = add_dead_letter_alert(world, now)

    def list_found(**scope):
        return len(dead_letters.list_keys(dead_letters.Scope(**scope)))

    assert list_found(account=world.account.id) == 2
    assert list_found(account=world.mallory.account_id) == 0
    assert list_found(teams=[world.team.id]) == 2
    assert list_found(teams=[world.charlies_team.id]) == 0
    assert list_found(service=world.service.unique_id) == list_found(service="Checkout") == 2
    assert list_found(integration="Probe") == list_found(integration=world.integration.unique_id) == 2
    assert list_found(integration="Other") == 0
    assert [key.is_alert for key in dead_letters.find_keys(alert.unique_id)] == [True]
    assert [key.row for key in dead_letters.find_keys(alert.receipt.trace_id)] == [alert.id]


def test_a_replayed_body_is_pending_in_its_lane(world, now, store):
    body = add_dead_letter_body(world, now)
    before = store.now()
    changed = change_dead_letters.replay(dead_letters.list_keys(), "Bob")

    row = Receipt.get_by_id(body.id)
    assert (row.state, row.error) == (WorkState.PENDING, None)
    assert before <= row.replayed_at <= store.now()
    assert changed.ids == (body.trace_id,)
    assert changed.lanes == {(world.service.id, None)}
    assert dead_letters.count() == 0


def test_a_replayed_alert_is_pending_at_the_stage_that_failed(world, now, store):
    add_dead_letter_alert(world, now, stage="rules")
    before = store.now()
    changed = change_dead_letters.replay(dead_letters.list_keys(), "Bob")

    row = Event.get()
    assert (row.state, row.error, row.stage) == (WorkState.PENDING, None, "rules")
    assert row.creation_date >= before
    error = make_reason("alert_failed", error="ZeroDivisionError", stage="rules")
    assert list_reasons(row)[-1] == ("replay", make_reason("replayed", by="Bob", error=error))
    assert changed.lanes == {(world.service.id, "rules")}


def test_a_dropped_dead_letter_is_done_and_keeps_its_error(world, now):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    changed = change_dead_letters.drop(dead_letters.list_keys(), "Bob")

    row = Receipt.get_by_id(body.id)
    assert (row.state, row.error) == (
        WorkState.DONE,
        make_reason("dead_letter_dropped", by="Bob", error=ERROR),
    )
    row = Event.get()
    assert (row.state, row.stage, row.error) == (WorkState.DONE, "", ERROR)
    assert list_reasons(row)[-1] == ("drop", make_reason("dropped", by="Bob"))
    assert changed.ids == (body.trace_id, alert.unique_id)


@pytest.mark.parametrize("owner", ["service", "integration"])
def test_a_dead_letter_with_a_deleted_owner_can_be_dropped_but_not_replayed(world, now, owner):
    add_dead_letter_body(world, now)
    add_dead_letter_alert(world, now)
    getattr(world, owner).delete_instance()
    changed = change_dead_letters.replay(dead_letters.list_keys(), "Bob")

    assert (changed.ids, changed.owner_deleted) == ((), 2)
    assert dead_letters.count() == 2
    assert len(change_dead_letters.drop(dead_letters.list_keys(), "Bob").ids) == 2


def test_a_dead_letter_is_replayed_once_by_simultaneous_requests(world, now):
    add_dead_letter_body(world, now)
    add_dead_letter_alert(world, now)
    selection, barrier, counts = dead_letters.list_keys(), threading.Barrier(4, timeout=PATIENCE_S), []

    def replay():
        with connection():
            barrier.wait()
            counts.append(len(change_dead_letters.replay(selection, "Bob").ids))

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(counts) == [0, 0, 0, 2]
    assert [reason[0] for reason in Event.get().reasons] == ["replay"]


@pytest.mark.parametrize("change", [change_dead_letters.replay, change_dead_letters.drop])
def test_the_number_of_statements_does_not_grow_with_the_dead_letters(world, now, statements, change):
    def count_statements(bodies):
        for number in range(bodies):
            add_dead_letter_body(world, now + timedelta(seconds=number))
            add_dead_letter_alert(world, now)
        other = provisioning.create_service(world.team, f"S{bodies}", world.policy, world.alice, now)
        provisioning.create_integration(other, "Probe", GENERIC, world.alice, now)
        selection = dead_letters.list_keys()
        with statements() as seen:
            dead_letters.load_all(selection)
            changed = change(selection, "Bob")
        assert len(changed.ids) == 2 * bodies
        return len(seen)

    assert count_statements(1) == count_statements(20)


def test_many_dead_letters_are_changed_in_batches(world, now, monkeypatch):
    monkeypatch.setattr(change_dead_letters, "CHANGE_BATCH", 2)
    for _ in range(5):
        add_dead_letter_body(world, now)

    assert [len(batch) for batch in change_dead_letters.split_keys(dead_letters.list_keys())] == [2, 2, 1]
