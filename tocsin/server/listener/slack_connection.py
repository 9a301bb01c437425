"""Get the callbacks of Slack over a connection that Tocsin opens (Socket Mode), with slack_sdk."""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from models.store.store import STORE_ERRORS, connection, store
from runtime.settings import Settings
from tocsin.server.listener.jobs import Session
from web.callbacks import slack
from workers.delivery import replies

if TYPE_CHECKING:
    from slack_sdk.socket_mode.builtin import SocketModeClient
    from slack_sdk.socket_mode.client import BaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

log = structlog.get_logger()

# How long Slack may take to answer a request for a connection.
TIMEOUT_S = 10
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
# Callbacks that are handled at the same time.
THREADS = 4


class SlackConnection:
    """Keeps a connection open until stop() is called. The library opens it again after it was closed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._place = slack.Place(settings.public_url, settings.slack_url)
        self._stopping = threading.Event()
        self._client: SocketModeClient | None = None
        self._thread = threading.Thread(target=self._connect, name="slack", daemon=True)

    def start(self) -> None:
        replies.configure(self._settings)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        client = self._client
        if client is not None:
            _close(client)

    def _connect(self) -> None:
        """Open the first connection; try again until it is open."""
        from slack_sdk.socket_mode.builtin import SocketModeClient
        from slack_sdk.web import WebClient

        pause_s = FIRST_PAUSE_S
        web = WebClient(base_url=f"{self._settings.slack_url}/", timeout=TIMEOUT_S)
        while not self._stopping.is_set():
            client = SocketModeClient(self._settings.slack_app_token, web_client=web, concurrency=THREADS)
            client.socket_mode_request_listeners.append(self._handle)
            try:
                client.connect()
                self._client = client
                break
            except Exception as error:  # the library raises its own errors and those of sockets
                log.warning("no connection to Slack", error=type(error).__name__)
                _close(client)
            self._stopping.wait(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)
        if self._stopping.is_set() and self._client is not None:
            _close(self._client)

    def _handle(self, client: "BaseSocketModeClient", request: "SocketModeRequest") -> None:
        """Handle a callback and confirm it. Slack repeats events that are not confirmed."""
        from slack_sdk.socket_mode.response import SocketModeResponse

        if self._stopping.is_set():
            return
        try:
            with connection():
                handled = slack.handle(request.payload or {}, self._place, store().now())
                body = dict(handled.body) if handled.body is not None else None
                client.send_socket_mode_response(SocketModeResponse(request.envelope_id, body))
                if handled.text:
                    replies.send(handled.url, handled.user, handled.text)
        except STORE_ERRORS as error:
            log.warning("a callback could not be handled", channel="slack", error=type(error).__name__)


def _close(client: "SocketModeClient") -> None:
    """Close a client. This waits for the callbacks that are handled now."""
    # Two threads of the library may close the same socket: then it raises an AttributeError, and the rest of
    # what it must close is still open.
    for _ in range(3):
        with suppress(AttributeError, OSError):
            client.close()
            break


def create_session(settings: Settings) -> Session:
    return SlackConnection(settings)
