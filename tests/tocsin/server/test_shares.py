"""The threads of each kind of request."""

import threading

from tocsin.server.shares import Shares


class SlowJob:
    """A request that is answered when it may end."""

    def __init__(self) -> None:
        self.has_begun, self.may_end, self.is_answered = (threading.Event() for _ in range(3))

    def run(self) -> None:
        self.has_begun.set()
        self.may_end.wait(30)
        self.is_answered.set()

    def refuse(self) -> None:
        raise AssertionError("it was refused")


def test_the_end_of_the_shares_waits_for_a_request_whose_client_has_gone():
    shares, job = Shares(2, 4), SlowJob()
    shares.others.run(job)
    job.has_begun.wait(30)
    closing = threading.Thread(target=shares.close)
    closing.start()

    assert closing.is_alive()
    job.may_end.set()
    closing.join(30)

    assert not closing.is_alive()
    assert job.is_answered.is_set()
