"""The web process: it runs the WSGI worker of granian in the process itself, without a parent process.

The server of granian starts its workers as children, and these keep running if the parent is killed.
"""

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

import structlog
from granian import _granian
from granian._futures import _new_cbscheduler
from granian.http import HTTP1Settings
from granian.wsgi import _callback_wrapper

from runtime.settings import Settings
from runtime.signals import Signals, exit_after
from tocsin.server import stalled
from tocsin.server.listening import BACKLOG, listen

log = structlog.get_logger()

# The type stub of granian describes an older interface than that of the compiled module.
native: Any = _granian

# Connections, not requests: an idle kept-alive connection counts too (measured). So the limit is much higher
# than the number of threads.
MAX_CONNECTIONS = 4096
# All threads except the first end after this idle time.
IDLE_THREAD_S = 30
# Requests that still run this long after the stop are aborted: the sender gets no answer and sends again.
STOP_TIMEOUT_S = 10.0


def serve(app: Callable[..., Any], settings: Settings) -> None:
    """Serve until the process is asked to stop, then finish the running requests."""
    signals = Signals()
    with listen(settings) as listening:
        stop = native.WorkerSignal()
        stopped = threading.Event()
        stop.add_cb(stopped.set)
        worker = _create_worker(listening, settings.web_threads)
        wrapped = _callback_wrapper(app, {}, None)
        loop = asyncio.new_event_loop()
        stalled.start_watching(settings.port)
        worker.serve_mtr(_new_cbscheduler(loop, wrapped, impl_asyncio=True), loop, stop)
        log.info("serving", host=settings.host, port=settings.port, threads=settings.web_threads)
        signals.wait_for_stop()
        exit_after(STOP_TIMEOUT_S)
        stop.set()
        stopped.wait()
        loop.close()


def _get_connection_limit() -> int:
    """Return the maximum number of connections: at most half of the file limit; handlers need files too."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if most_files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, most_files // 2)


def _create_worker(listening: socket.socket, threads: int) -> Any:
    holder = native.SocketHolder(os.dup(listening.fileno()), False, BACKLOG)
    no_tls: tuple[Any, ...] = (False, None, None, None, "tls1.3", None, [], False)
    metrics = (None, None)
    return native.WSGIWorker(
        1, (None, holder), None, 1, 512, threads, IDLE_THREAD_S, _get_connection_limit(),
        "1", HTTP1Settings(), None, None, *no_tls, metrics,
    )  # fmt: skip
