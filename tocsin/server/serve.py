"""The web process: it serves the application in threads, without a parent process, until it is stopped."""

import resource
import time
from collections.abc import Callable
from wsgiref.types import WSGIApplication

import structlog

from models.store.limits import WEB, Use
from runtime import garbage
from runtime.settings import Settings
from runtime.signals import Signals, exit_after
from tocsin.server import connections, granian_worker
from tocsin.server.bodies import Bodies
from tocsin.server.listening import BACKLOG, listen
from tocsin.server.shares import Shares
from web.server_interface import Accept, BuildRefusal, accept_nothing, refuse_in_json

log = structlog.get_logger()

# Connections, not requests: an idle kept-alive connection counts too (measured). So the limit is much higher
# than the number of threads. connection_limits.py says which are closed from half of it on.
MAX_CONNECTIONS = 4096
# Requests that still run this long after the stop are aborted: the sender gets no answer and sends again.
STOP_TIMEOUT_S = 10.0


def serve(
    app: WSGIApplication,
    settings: Settings,
    accept: Accept = accept_nothing,
    build_refusal: BuildRefusal = refuse_in_json,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the process is asked to stop, then call `on_stop` and finish the running requests.

    `accept` takes plain alerts over before `app`.
    `build_refusal` builds what browsers get if the server itself refuses a request.
    """
    garbage.keep_few_blocks()
    signals = Signals()
    shares = Shares(settings.web_threads, WEB.connections[Use.OTHER])
    limit = _get_connection_limit()

    surplus = garbage.Surplus()

    def check(active: set[str], bodies: Bodies) -> bool:
        surplus.give_back(time.monotonic())
        count = connections.close_excess(
            settings.port, limit, active, bodies.list_unfinished, settings.trusted_proxies
        )
        if count:
            log.warning("connections closed, because there are too many", count=count)
        return count > 0

    with (
        listen(settings) as listening,
        granian_worker.run(
            granian_worker.trust_proxies(app, settings.trusted_proxies),
            listening,
            backlog=BACKLOG,
            shares=shares,
            connections=limit,
            accept=accept,
            build_refusal=build_refusal,
            on_check=check,
        ),
    ):
        garbage.freeze_loaded()
        log.info("serving", host=settings.host, port=settings.port, threads=settings.web_threads)
        signals.wait_for_stop()
        exit_after(STOP_TIMEOUT_S)
        on_stop()


def _get_connection_limit() -> int:
    """Return the maximum number of connections: at most half of the file limit; handlers need files too."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if most_files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, most_files // 2)
