"""Places that another thread holds."""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from web.http.limits.places import Places


@contextmanager
def held_elsewhere(places: Places, *accounts: Hashable) -> Iterator[None]:
    """Let other threads hold a place for each of these accounts."""
    may_end, started = threading.Event(), threading.Semaphore(0)

    def hold(account: Hashable) -> None:
        with places.hold(account):
            started.release()
            may_end.wait(20)

    threads = [threading.Thread(target=hold, args=(account,)) for account in accounts]
    for thread in threads:
        thread.start()
        assert started.acquire(timeout=20)
    try:
        yield
    finally:
        may_end.set()
        for thread in threads:
            thread.join()
