"""Run granian's RSGI worker in this process, without an event loop. This is the only file that uses granian.

The public server of granian starts its workers as children, and these keep running if the parent is killed.
Its WSGI worker occupies a thread per request while the body arrives. So this file creates an RSGI worker
from parts of granian that are not public. They fit one version (docs/decisions/0031-bodies-are-received-
without-a-thread.md).
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from granian import _granian
from granian.http import HTTP1Settings
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from tocsin.server.bodies import Bodies
from tocsin.server.request import Request, Serving, Watcher
from tocsin.server.shares import Shares
from web.server_interface import PEER, Accept, BuildRefusal, accept_nothing, refuse_in_json

log = structlog.get_logger()

# The type stub of granian describes an older interface than that of the compiled module.
native: Any = _granian

# The threads of granian. They call back, answer /healthz and take plain alerts over; they wait only for the
# commit of many alerts, one of them at a time. Each thread more makes the others slower: with 100 threads,
# granian spent a third of its CPU time on waking them (measured).
THREADS = 4
# All of them except the first end after this idle time.
IDLE_THREAD_S = 30
# For the first line and all headers. Browsers and tools send less than 16 KiB.
MAX_HEADER_BYTES = 64 * 1024
# A connection that begins no request for this time is closed.
IDLE_CONNECTION_MS = 30_000
# How often deadlines are checked; and while connections had to be closed, for which others wait.
CHECK_EVERY_S = 0.5
CROWDED_EVERY_S = 0.1


class _Loop:
    """In place of an event loop: granian's futures call back in the thread of granian that completed them."""

    @staticmethod
    def call_soon(callback: Callable[..., object], *args: object, context: object = None) -> None:
        callback(*args)

    call_soon_threadsafe = call_soon


def trust_proxies(app: WSGIApplication, networks: Collection[str]) -> WSGIApplication:
    """Return the application with REMOTE_ADDR and wsgi.url_scheme as these proxies (networks) report them.

    Each proxy appends its peer to X-Forwarded-For. The client is the last address that is not a proxy; what
    stands before it, the client may have written.
    """
    if not networks:
        return app
    wrapped: WSGIApplication = wrap_wsgi_with_proxy_headers(app, list(networks))

    def keep_peer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[PEER] = environ["REMOTE_ADDR"]
        return wrapped(environ, start_response)

    return keep_peer


@contextmanager
def run(
    app: WSGIApplication,
    listening: socket.socket,
    *,
    backlog: int,
    shares: Shares,
    connections: int,
    accept: Accept = accept_nothing,
    build_refusal: BuildRefusal = refuse_in_json,
    on_check: Callable[[set[str], Bodies], bool] = lambda active, bodies: False,
) -> Iterator[None]:
    """Serve while the context is open, then wait until the running requests are answered.

    `accept` takes plain alerts over before `app` (web/ingest/fast_path.py).
    `build_refusal` builds what browsers get if the server itself refuses a request (web/pages/refusal.py).
    `on_check` is called every CHECK_EVERY_S seconds with the clients (IP:PORT) that get an answer now, and
    the bodies that are being received. It says whether it must be called again sooner.
    """
    bodies, active = Bodies(), set[str]()
    host, port = listening.getsockname()[:2]
    server = {"SERVER_NAME": host, "SERVER_PORT": str(port)}
    serving = Serving(app, server, bodies, shares, active, accept, build_refusal)

    def begin(watcher: Watcher) -> None:
        # An exception here would reach code that does not expect one.
        try:
            Request(watcher.scope, watcher.proto, serving).begin()
        except Exception:
            log.exception("a request could not be read")

    stop, stopped = native.WorkerSignal(), threading.Event()
    stop.add_cb(stopped.set)
    holder = native.SocketHolder(os.dup(listening.fileno()), False, backlog)
    http = HTTP1Settings(header_read_timeout=IDLE_CONNECTION_MS, max_buffer_size=MAX_HEADER_BYTES)
    worker = native.RSGIWorker(1, (None, holder), None, 1, 1, THREADS, IDLE_THREAD_S, connections, "1", http)
    loop, ignore = _Loop(), lambda *_: None
    scheduler = native.CallbackScheduler(loop, ignore, None, ignore, ignore)
    scheduler._schedule_fn = begin
    worker.serve_mtr(scheduler, loop, stop)
    stopping = threading.Event()

    def check_deadlines() -> None:
        every_s = CHECK_EVERY_S
        while not stopping.wait(every_s):
            try:
                now = time.monotonic()
                bodies.cancel_late(now)
                shares.refuse_late(now)
                every_s = CROWDED_EVERY_S if on_check(active, bodies) else CHECK_EVERY_S
            except Exception:
                log.exception("a deadline could not be checked")

    threading.Thread(target=check_deadlines, name="deadlines", daemon=True).start()
    yield
    stop.set()
    # Bodies that are not complete now would only delay the stop.
    bodies.cancel_all()
    stopped.wait()
    shares.close()
    stopping.set()
