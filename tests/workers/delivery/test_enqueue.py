"""Who sends a message after a worker has written it: the worker itself, or one that takes the wake-up."""

import threading

import pytest

from tests.support.polling import wait_until
from tests.support.scenarios.delivery import MAIL, deliver_to
from workers.delivery import deliver
from workers.delivery.threads import DeliveryThreads
from workers.delivery.transport.relay_gate import MAX_THREADS

__all__ = ["deliver_to"]

WAKE_UP = ("deliver.email",)


@pytest.fixture
def sending(store, monkeypatch, deliver_to):
    """The channels whose messages threads of this worker begin to send. They send until the test ends."""
    deliver_to(1)
    begun, may_end = [], threading.Event()

    def send_due(channel):
        begun.append(channel)
        may_end.wait(30)

    threads = DeliveryThreads(send_due)
    monkeypatch.setattr(deliver, "threads", threads)
    threads.start()
    deliver.listen(WAKE_UP)
    yield begun
    deliver.listen(())
    may_end.set()
    threads.stop()
    threads.join(30)


def test_a_worker_sends_the_messages_that_it_has_written(sending, enqueued):
    deliver.enqueue([MAIL])

    wait_until(lambda: sending == [MAIL])
    assert not enqueued


def test_another_worker_is_woken_while_all_threads_of_the_channel_send(sending, enqueued):
    deliver.enqueue([MAIL] * (MAX_THREADS + 1))

    wait_until(lambda: sending == [MAIL] * MAX_THREADS)
    assert enqueued == [WAKE_UP]


def test_a_worker_that_does_not_listen_to_the_channel_wakes_another_one(sending, enqueued):
    deliver.listen(["pipeline.normalize"])
    deliver.enqueue([MAIL])

    assert (sending, enqueued) == ([], [WAKE_UP])


def test_a_worker_that_stops_wakes_another_one(sending, enqueued):
    deliver.threads.stop()
    deliver.enqueue([MAIL])

    assert (sending, enqueued) == ([], [WAKE_UP])
