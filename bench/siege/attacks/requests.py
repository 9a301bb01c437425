"""Attacks with requests. The next one follows after the answer."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from bench.load import get_alert_id
from bench.siege.attacks.attack import TIMEOUT_S


@dataclass(slots=True)
class Request:
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"


class Requests:
    """Sends requests from several threads, each after the answer to the one before and a pause.

    `build` gets the number of a request. `finish` is for requests with alerts: it gets the trace_id of each
    accepted one, and may block until `stopping` is set. `accepted` has these IDs.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        build: Callable[[int], Request],
        *,
        threads: int,
        pause_s: float,
        finish: Callable[[str, threading.Event], None] | None = None,
    ) -> None:
        self.name = name
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        self._address = urlsplit(base_url).netloc
        self._build = build
        self._threads = threads
        self._pause_s = pause_s
        self._finish = finish
        self._lock = threading.Lock()

    def run(self, stopping: threading.Event) -> None:
        threads = [
            threading.Thread(target=self._repeat, args=(stopping,), name=self.name, daemon=True)
            for _ in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with self._lock:
                self.requests += 1
                number = self.requests
            status, answer = self._send(self._build(number))
            with self._lock:
                self.statuses[status] += 1
            if self._finish is not None and status.startswith("2"):
                self.accepted.append(get_alert_id(answer))
                self._finish(self.accepted[-1], stopping)
            stopping.wait(self._pause_s)

    def _send(self, request: Request) -> tuple[str, bytes]:
        client = HTTPConnection(self._address, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json", **request.headers}
        try:
            # A server that refuses a body may close the connection before all of it is sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                client.request(request.method, request.path, request.body or None, headers)
            answer = client.getresponse()
            return str(answer.status), answer.read()
        except TimeoutError:
            return "none", b""
        except (OSError, HTTPException):
            return "closed", b""
        finally:
            client.close()
