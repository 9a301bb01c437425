"""Run granian's WSGI worker in this process. This is the only file that uses granian.

The public server of granian starts its workers as children, and these keep running if the parent is killed.
So this file creates a worker from parts of granian that are not public. They fit one version
(docs/decisions/0023-granian-runs-in-the-web-process.md).
"""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.types import WSGIApplication

from granian import _granian
from granian._futures import _new_cbscheduler
from granian.http import HTTP1Settings
from granian.wsgi import _callback_wrapper

# The type stub of granian describes an older interface than that of the compiled module.
native: Any = _granian

# All threads except the first end after this idle time.
IDLE_THREAD_S = 30


@contextmanager
def run(
    app: WSGIApplication, listening: socket.socket, *, backlog: int, threads: int, connections: int
) -> Iterator[None]:
    """Serve in threads while the context is open, then wait until the running requests are answered."""
    stop = native.WorkerSignal()
    stopped = threading.Event()
    stop.add_cb(stopped.set)
    holder = native.SocketHolder(os.dup(listening.fileno()), False, backlog)
    no_tls: tuple[object, ...] = (False, None, None, None, "tls1.3", None, [], False)
    metrics = (None, None)
    worker = native.WSGIWorker(
        1, (None, holder), None, 1, 512, threads, IDLE_THREAD_S, connections,
        "1", HTTP1Settings(), None, None, *no_tls, metrics,
    )  # fmt: skip
    loop = asyncio.new_event_loop()
    scheduler = _new_cbscheduler(loop, _callback_wrapper(app, {}, None), impl_asyncio=True)
    worker.serve_mtr(scheduler, loop, stop)
    yield
    stop.set()
    stopped.wait()
    loop.close()
