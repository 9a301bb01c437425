"""The threads of each kind of request."""

import threading

from tocsin.server.shares import Share


class SlowJob:
    """A request that is answered when it may end."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.is_answered, self.is_refused = threading.Event(), threading.Event()

    def run(self) -> None:
        self.has_begun.set()
        self.may_end.wait(30)
        self.is_answered.set()

    def refuse(self) -> None:
        self.is_refused.set()


def test_the_end_of_a_share_waits_for_a_request_whose_client_has_gone():
    share, job = Share("others", 1, 4), SlowJob()
    share.run(job)
    job.has_begun.wait(30)
    threading.Timer(0.1, job.may_end.set).start()

    share.close()

    assert job.is_answered.is_set()


def test_the_end_of_a_share_refuses_what_has_no_thread_yet():
    share, running, pending = Share("others", 1, 4), SlowJob(), SlowJob()
    share.run(running)
    share.run(pending)
    running.has_begun.wait(30)
    threading.Timer(0.1, running.may_end.set).start()

    share.close()

    assert pending.is_refused.is_set()
    assert not pending.has_begun.is_set()
