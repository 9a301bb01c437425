"""Run a piece of work in a thread of its own: with a connection, and without raising."""

from collections.abc import Callable

import structlog

from models.store.store import STORE_ERRORS, connection
from workers.pause import pause_check

log = structlog.get_logger()


def run_safely(name: str, job: Callable[[], object]) -> None:
    """Run a job with its own connection, and log its errors: the next pass runs the job again.

    Do nothing while this installation is paused.
    """
    try:
        with connection():
            if not pause_check.is_paused():
                job()
    except STORE_ERRORS as error:
        pause_check.forget()
        log.warning("the database cannot be used", job=name, error=type(error).__name__)
    except Exception:
        log.exception("poller job failed", job=name)
