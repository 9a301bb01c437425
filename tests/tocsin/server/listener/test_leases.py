"""Of several processes, one holds a lease. Another one takes it over after its end."""

from datetime import timedelta

from models.processes import leases
from tocsin.server.listener.process import DEADLINE_S, RENEW_S

SECOND = timedelta(seconds=1)


def test_a_lease_has_one_holder_which_renews_it(store, now):
    with store.write_transaction():
        assert leases.take("telegram:1", "a", now)
        assert not leases.take("telegram:1", "b", now)
        assert leases.take("slack:1", "b", now)
        assert leases.take("telegram:1", "a", now + 5 * SECOND)
        assert not leases.take("telegram:1", "b", now + 10 * SECOND)


def test_the_lease_of_a_killed_process_is_taken_over_after_its_end(store, now):
    with store.write_transaction():
        leases.take("telegram:1", "a", now)

        assert not leases.take("telegram:1", "b", now + leases.LIFE - SECOND)
        assert leases.take("telegram:1", "b", now + leases.LIFE)
        assert not leases.take("telegram:1", "a", now + leases.LIFE)


def test_a_process_that_stops_releases_only_its_own_lease(store, now):
    with store.write_transaction():
        leases.take("telegram:1", "a", now)
        leases.release("telegram:1", "b")
        assert not leases.take("telegram:1", "b", now)

        leases.release("telegram:1", "a")
        assert leases.take("telegram:1", "b", now)


def test_a_clock_that_was_set_back_does_not_block_a_lease(store, now):
    with store.write_transaction():
        leases.take("telegram:1", "a", now)

        assert leases.take("telegram:1", "b", now - timedelta(hours=1))


def test_a_lease_is_renewed_twice_before_it_ends():
    assert timedelta(seconds=2 * RENEW_S + DEADLINE_S) <= leases.LIFE


def test_a_position_is_the_one_that_was_stored_last(store):
    assert leases.get_position("telegram:1") is None
    with store.write_transaction():
        leases.set_position("telegram:1", 900)
        leases.set_position("telegram:2", 1)
        # Telegram begins with a random number after a week without updates.
        leases.set_position("telegram:1", 7)

    assert leases.get_position("telegram:1") == 7
