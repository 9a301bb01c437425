"""The web process: granian's WSGI worker in this very process, so that no parent can leave it behind.

Granian's own server starts its workers as children, which a killed parent leaves running.
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

# Its stub describes an older shape than the compiled module has.
native: Any = _granian

# Connections, not requests: one that is kept alive and idle counts too (measured), so this is far
# more than there are threads.
MAX_CONNECTIONS = 4096
# Threads above the first end after being idle for this long.
IDLE_THREAD_S = 30
# Requests that still run this long after the stop are cut off: the sender has no answer and tries again.
STOP_TIMEOUT_S = 10.0


def serve(app: Callable[..., Any], settings: Settings) -> None:
    """Serve until the process is asked to stop; requests that run then are finished."""
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
    """How many may be open at once: half of the files that may be, since the work needs some too."""
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
