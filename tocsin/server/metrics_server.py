"""Show the metrics of this host on TOCSIN_METRICS_PORT, for a host without a web process.

All processes of the data folder listen, so that the metrics are shown while any of them runs.
"""

import threading
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from models.reports.metrics_page import page
from models.store.store import STORE_ERRORS, connection
from runtime.setting_values import BadSetting
from runtime.settings import Settings
from tocsin.server.listening import listen

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = structlog.get_logger()


def start(settings: Settings) -> None:
    """Start to listen, unless the setting is empty. A port that cannot be used does not stop the process."""
    if not settings.metrics_port:
        return
    address = (settings.host, settings.metrics_port)
    server = _Server(address, _Handler, bind_and_activate=False)
    server.socket.close()
    try:
        server.socket = listen(replace(settings, port=settings.metrics_port))
    except BadSetting:
        log.error("cannot listen on TOCSIN_METRICS_PORT: another program may use it", address=address)
        return
    server.server_name, server.server_port = address
    server.setup_environ()
    server.set_app(_answer)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    status, text = _get_answer(environ["PATH_INFO"])
    start_response(f"{status.value} {status.phrase}", [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)])
    return [text]


def _get_answer(path: str) -> tuple[HTTPStatus, bytes]:
    if path != "/metrics":
        return HTTPStatus.NOT_FOUND, b""
    try:
        with connection():
            return HTTPStatus.OK, page.get_text()
    except STORE_ERRORS:
        return HTTPStatus.SERVICE_UNAVAILABLE, b""


class _Handler(WSGIRequestHandler):
    # A client that sends nothing keeps its thread for this time.
    timeout = 5.0

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scrape is no event."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a scrape failed", exc_info=True)
