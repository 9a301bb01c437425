"""The garbage collector of long-lived processes."""

import gc

# See the functions that set them.
_RARE = (50_000, 5, 20)
_PER_REQUESTS = (5_000, 10, 10)


def freeze_loaded() -> None:
    """Exclude all present objects from garbage collection; once, when a process has loaded its code.

    They live as long as the process. Without this, each full collection walks through all of them: in a storm
    of new incidents, this was 15 % of the CPU time of a worker.
    """
    gc.collect()
    gc.freeze()


def collect_rarely() -> None:
    """Look for garbage in cycles less often, in a process that works in batches.

    A batch of alerts creates some ten thousand objects, which nearly all live until its end. With the usual
    first threshold of 700, the collector looked at them again and again and found nothing: this was 6 % of
    the CPU time of a worker in a storm of new incidents.
    """
    gc.set_threshold(*_RARE)


def collect_per_requests() -> None:
    """Look for garbage in cycles after some hundred small requests, in a process that serves them.

    64 requests that share a commit create some thousand objects. With the usual first threshold, the
    collector looked at them several times: this was a quarter of the CPU time of accepting an alert. With a
    larger one than this, cycles of many requests would live too long.
    """
    gc.set_threshold(*_PER_REQUESTS)


def collect_large() -> None:
    """Look for garbage in cycles now, after a request with a large body, which a cycle may still hold."""
    gc.collect(1)
