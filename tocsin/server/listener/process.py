"""Run the jobs of the listener process. Of several listeners, one at a time does each job."""

import threading
import uuid
from collections.abc import Sequence

import structlog

from models.processes import leases
from models.processes.pause import is_paused
from models.store.limits import Use
from models.store.store import STORE_ERRORS, connection, store
from runtime.settings import Settings
from runtime.signals import Signals
from tocsin.server.listener.jobs import ListenerJob, Session, list_needed

log = structlog.get_logger()

# Three times within the life of a lease.
RENEW_S = 2.0
# A database that needs longer cannot be used. Before the lease ends, the job must stop.
DEADLINE_S = 2.0


class LeasedJob:
    """Takes the lease of a job, runs the job while it holds the lease, and releases it at the end."""

    def __init__(self, job: ListenerJob, settings: Settings) -> None:
        self._job = job
        self._settings = settings
        self._lease = job.get_lease(settings)
        self._holder = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._session: Session | None = None
        self._thread = threading.Thread(target=self._run, name=f"lease {job.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the job and release the lease."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.renew()
            if self._stopping.wait(RENEW_S):
                break
        self._end_session()
        self._try_lease(is_end=True)

    def renew(self) -> None:
        """Take or renew the lease, and start or stop the job."""
        holds = self._try_lease()
        if holds and self._session is None:
            log.info("this listener is active now", job=self._job.name)
            self._session = self._job.create_session(self._settings)
            self._session.start()
        elif not holds and self._session is not None:
            log.warning(
                "another listener is active, this installation is paused, or the database cannot be used",
                job=self._job.name,
            )
            self._end_session()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None

    def _try_lease(self, *, is_end: bool = False) -> bool:
        """Take, renew or release the lease. Return whether this process holds it."""
        try:
            with store().deadline(DEADLINE_S), connection(Use.RESERVED), store().write_transaction():
                if is_end:
                    leases.release(self._lease, self._holder)
                    return False
                # A restored copy has the settings of the live installation, whose callbacks it must not take.
                return not is_paused() and leases.take(self._lease, self._holder, store().now())
        except STORE_ERRORS as error:
            log.warning("the lease could not be renewed", job=self._job.name, error=type(error).__name__)
            return False


def run(settings: Settings, sessions: Sequence[Session] = ()) -> None:
    """Run the jobs that the settings need until the process is asked to stop.

    `sessions` run too, without a lease: every listener may do what they do.
    """
    signals = Signals()
    jobs = start_jobs(settings)
    for session in sessions:
        session.start()
    if not jobs and not sessions:
        log.info("no setting needs a listener: this process does nothing")
    signals.wait_for_stop()
    for job in jobs:
        job.stop()
    for session in sessions:
        session.stop()
    for job in jobs:
        job.join()


def start_jobs(settings: Settings) -> Sequence[LeasedJob]:
    """Start a thread for each job that the settings need."""
    jobs = [LeasedJob(job, settings) for job in list_needed(settings)]
    for job in jobs:
        job.start()
    return jobs
