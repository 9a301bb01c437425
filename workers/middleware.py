"""The middleware of our broker: code that runs before and after each message, and with the start of a worker.

A message of Dramatiq is a wake-up, never a message to a person. The work itself is in the database.

workers/main.py adds these classes in this order. Dramatiq calls the hooks `after_...` in the reverse order.
"""

import os
from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.broker import MessageProxy
from dramatiq.middleware import SkipMessage

from models.reports.save_liveness import LivenessKeeper
from models.store import limits
from models.store.migrate import require_schema
from models.store.opening import open_store
from models.store.store import STORE_ERRORS, db, store
from runtime import data_folder, logs, metrics, parent_process
from runtime.redis_socket import get_url
from runtime.settings import Settings, list_values, load
from workers.delivery import deliver
from workers.outbound import sender
from workers.pause import pause_check
from workers.poller import Poller

log = structlog.get_logger()


class ProcessBoot(dramatiq.Middleware):
    """Prepare a process that the command `dramatiq` started. `tocsin worker` does this itself."""

    def __init__(self, configure: Callable[[Settings, str], None]) -> None:
        self._configure = configure

    def after_process_boot(self, broker: dramatiq.Broker) -> None:
        try:
            parent_process.end_with_parent(os.getppid())
            settings = load()
            logs.configure(settings.log_level, "worker")
            data_folder.prepare(settings.home)
            metrics.join(settings.home)
            metrics.count_start("worker")
            open_store(settings.database_url, settings.home)
            require_schema()
            store().set_limits(limits.WORKER)
            self._configure(settings, settings.redis_url or get_url(settings.home))
        except Exception as error:
            # Dramatiq would log the error and start a worker that is not configured.
            raise SystemExit(f"dramatiq: {error}") from error


class LogContext(dramatiq.Middleware):
    """Add the queue and the arguments of the message to each line that its actor logs."""

    def before_process_message(self, broker: dramatiq.Broker, message: MessageProxy) -> None:
        structlog.contextvars.bind_contextvars(queue_name=message.queue_name, args=message.args)

    def after_process_message(
        self,
        broker: dramatiq.Broker,
        message: MessageProxy,
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        structlog.contextvars.unbind_contextvars("queue_name", "args")

    after_skip_message = after_process_message

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        log.info("working", queues=sorted(worker.consumers), threads=worker.worker_threads)


class StoreConnection(dramatiq.Middleware):
    """Give each wake-up a connection to the database.

    If there is no connection, or if the database fails, the wake-up is dropped with one line in the log. The
    poller does its work later. While the installation is paused, all wake-ups are dropped.
    """

    def after_declare_actor(self, broker: dramatiq.Broker, actor: dramatiq.Actor[..., object]) -> None:
        # Dramatiq logs these errors without their traceback.
        actor.options["throws"] = STORE_ERRORS

    def before_process_message(self, broker: dramatiq.Broker, message: MessageProxy) -> None:
        try:
            db.connect(reuse_if_open=True)
            is_paused = pause_check.is_paused()
        except STORE_ERRORS as error:
            pause_check.forget()
            log.warning("the database cannot be reached", error=type(error).__name__)
            raise SkipMessage from error
        if is_paused:
            raise SkipMessage

    def after_process_message(
        self,
        broker: dramatiq.Broker,
        message: MessageProxy,
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        db.close()
        if isinstance(exception, STORE_ERRORS):
            pause_check.forget()
            log.warning("the database cannot be used", error=type(exception).__name__)

    after_skip_message = after_process_message


class ShowLiveness(dramatiq.Middleware):
    """Write the sign of life of this process while its worker runs, with its settings."""

    def __init__(self) -> None:
        self._settings: dict[str, object] = {}

    def configure(self, settings: Settings) -> None:
        self._settings = list_values(settings)

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._keeper = LivenessKeeper("worker", self._settings)
        self._keeper.start()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._keeper.stop()


class Polling(dramatiq.Middleware):
    """Look for pending work in the database while the worker runs. Send to outbound integrations."""

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._poller = Poller()
        self._poller.start()
        self._sender = sender.start()
        deliver.listen(worker.consumers)

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        deliver.listen(())
        self._poller.stop()
        self._sender.stop()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self._poller.join()
        self._sender.join()
