"""The garbage collector of long-lived processes."""

import gc

# See collect_rarely().
_RARE = (50_000, 5, 20)


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
    the CPU time of a worker in a storm of new incidents. Not for a web process: cycles of requests with large
    bodies would live too long. With a threshold of 5,000, its memory grew to 1.1 GB in the siege.
    """
    gc.set_threshold(*_RARE)
