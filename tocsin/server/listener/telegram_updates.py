"""Ask Telegram for updates (long polling), or register the address to which it sends them (webhook).

The number of the last update is stored in the transaction that handles it: no update acts twice, and none is
lost if the process is killed.
"""

import threading
import time
from collections.abc import Mapping, Sequence

import structlog

from models.processes import leases
from models.store.ids import digest
from models.store.store import STORE_ERRORS, connection, store
from runtime import metrics
from runtime.settings import Settings
from tocsin.server.listener.jobs import Session
from web.callbacks import received, telegram
from workers.delivery.channels.telegram import TelegramChannel
from workers.delivery.transport.channel import SendError
from workers.delivery.transport.http import HttpClient

log = structlog.get_logger()

# How long Telegram may take to answer that there is nothing new.
POLL_S = 20
DEADLINE_S = POLL_S + 10.0
# The pauses after errors.
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
# What the bot gets, and how many updates at once. A message may have 4,096 characters, and each may need
# six bytes, and as many again for what its text links to.
UPDATES = ("message", "callback_query")
BATCH = 10


class _UpdatesClient(HttpClient):
    """Reads answers with many updates. What is cut off would be asked for again, without end."""

    max_bytes = 4 * 1024 * 1024


class TelegramUpdates:
    """Asks for updates until stop() is called."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel = TelegramChannel(settings, _UpdatesClient("telegram", DEADLINE_S))
        self._position = f"telegram:{digest(settings.telegram_token)[:16]}"
        self._stopping = threading.Event()
        # Held while updates are handled.
        self._handling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="telegram", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Handle no further update. The open request to Telegram ends with its thread, which is a daemon."""
        self._stopping.set()
        with self._handling:
            pass

    def _run(self) -> None:
        pause_s, is_prepared = FIRST_PAUSE_S, False
        while not self._stopping.is_set():
            try:
                if not is_prepared:
                    self._prepare()
                    is_prepared = True
                if self._settings.telegram_webhook_secret:
                    return
                started = time.monotonic()
                if not self._poll() and time.monotonic() - started < FIRST_PAUSE_S:
                    # Such a server does not know the argument `timeout`. It is not asked without end.
                    self._stopping.wait(FIRST_PAUSE_S)
                pause_s = FIRST_PAUSE_S
            except SendError as error:
                log.warning("Telegram cannot be asked for updates", error=str(error))
                pause_s = self._pause(
                    max(pause_s, error.retry_after.total_seconds() if error.retry_after else 0)
                )
            except STORE_ERRORS as error:
                log.warning("an update could not be handled yet", error=type(error).__name__)
                pause_s = self._pause(pause_s)
            except Exception:
                log.exception("an update could not be handled")
                pause_s = self._pause(pause_s)

    def _pause(self, seconds: float) -> float:
        self._stopping.wait(min(seconds, MAX_PAUSE_S))
        return min(seconds * 2, MAX_PAUSE_S)

    def _prepare(self) -> None:
        """Register the address of the webhook, or remove one: with it, Telegram refuses to be asked."""
        if not self._settings.telegram_webhook_secret:
            self._call("deleteWebhook", {"drop_pending_updates": False})
            return
        self._call(
            "setWebhook",
            {
                "url": f"{self._settings.public_url}/callbacks/telegram/",
                "secret_token": self._settings.telegram_webhook_secret,
                "allowed_updates": UPDATES,
                "max_connections": 4,
            },
        )
        log.info("Telegram sends updates to web")

    def _poll(self) -> int:
        """Ask once, and handle the updates. Return how many there were."""
        with connection():
            last = leases.get_position(self._position)
        body: dict[str, object] = {"timeout": POLL_S, "limit": BATCH, "allowed_updates": UPDATES}
        if last is not None:
            body["offset"] = last + 1
        found = self._call("getUpdates", body)
        updates = found if isinstance(found, Sequence) else ()
        for update in updates:
            with self._handling:
                if self._stopping.is_set():
                    break
                self._handle(update)
        return len(updates)

    def _handle(self, update: Mapping[str, object]) -> None:
        number = update.get("update_id")
        if not isinstance(number, int):
            return
        with connection():
            now = store().now()

            def handle() -> list[telegram.Reply | None]:
                leases.set_position(self._position, number)
                return [telegram.handle(update, self._settings.public_url, now)]

            found = received.handle_once(telegram.NAME, str(number), now, handle)
        metrics.count_callback(telegram.NAME, "repeated" if found is None else "handled")
        reply = found[0] if found else None
        if reply:
            self._reply(reply)

    def _reply(self, reply: telegram.Reply) -> None:
        """Answer the person. An answer that Telegram does not take is lost: the update was handled."""
        arguments = {name: value for name, value in reply.items() if name != "method"}
        try:
            self._call(str(reply["method"]), arguments)
        except SendError as error:
            log.warning("a person could not be answered", channel="telegram", error=str(error))

    def _call(self, method: str, arguments: Mapping[str, object]) -> object:
        with connection():
            now = store().now()
        return self._channel.call(method, arguments, now)


def create_session(settings: Settings) -> Session:
    return TelegramUpdates(settings)
