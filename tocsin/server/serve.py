"""The web process: it serves the application in threads, without a parent process, until it is stopped."""

import resource
from wsgiref.types import WSGIApplication

import structlog

from runtime.settings import Settings
from runtime.signals import Signals, exit_after
from tocsin.server import granian_worker, stalled
from tocsin.server.listening import BACKLOG, listen

log = structlog.get_logger()

# Connections, not requests: an idle kept-alive connection counts too (measured). So the limit is much higher
# than the number of threads.
MAX_CONNECTIONS = 4096
# Requests that still run this long after the stop are aborted: the sender gets no answer and sends again.
STOP_TIMEOUT_S = 10.0


def serve(app: WSGIApplication, settings: Settings) -> None:
    """Serve until the process is asked to stop, then finish the running requests."""
    signals = Signals()
    threads, connections = settings.web_threads, _get_connection_limit()
    with listen(settings) as listening:
        stalled.start_watching(settings.port)
        with granian_worker.run(app, listening, backlog=BACKLOG, threads=threads, connections=connections):
            log.info("serving", host=settings.host, port=settings.port, threads=threads)
            signals.wait_for_stop()
            exit_after(STOP_TIMEOUT_S)


def _get_connection_limit() -> int:
    """Return the maximum number of connections: at most half of the file limit; handlers need files too."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if most_files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, most_files // 2)
