"""Webhooks at hosts whose names resolve late, beside the webhooks of another tenant.

A look-up in progress cannot be ended, and each channel of a process has a bounded number of them.
"""

import json
import threading
import weakref
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from bench.siege.attacks.alerts import go_on
from bench.siege.attacks.attack import TIMEOUT_S, Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.attacks.slow_targets import PAUSE_S, add_contacts
from bench.siege.bodies import build_alert
from bench.siege.late_names.sitecustomize import LATE_DOMAIN
from bench.siege.tenants import Tenant, create_tenant
from models.domain.enums import OtherContactType

SLOW_NAMES = "webhooks at names that resolve late"
# As many as a person may have, besides the own e-mail address.
CONTACTS = 19
IN_TIME, LATE = "webhook in time", "webhook late"
# The goal for pages. A webhook that has not arrived by then is late.
GOAL_S = 2.0


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant whose contacts have names that resolve late, and one whose webhooks must be in time."""
    path = create_tenant(tenant.base_url, "unknown").generic.path
    add_contacts("unknown@example.org", OtherContactType.WEBHOOK, _build_urls())
    server = _Webhooks()
    beside = create_tenant(tenant.base_url, "prompt").generic.path
    # A name, since an address is not looked up.
    add_contacts("prompt@example.org", OtherContactType.WEBHOOK, [f"http://localhost:{server.server_port}/"])
    attack = SlowNames(tenant.base_url, path, beside, server)
    weakref.finalize(attack, server.server_close)
    yield attack


def _build_urls() -> list[str]:
    """Return URLs with many names: a host that does not answer gets a pause."""
    return [f"http://n{place}.{LATE_DOMAIN}/" for place in range(CONTACTS)]


class _Webhooks(ThreadingHTTPServer):
    """Accepts webhooks, and knows which entities they were about."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._arrived: dict[str, threading.Event] = {}

    def expect(self, entity: str) -> threading.Event:
        """Return an event that a webhook with this text sets."""
        return self._arrived.setdefault(entity, threading.Event())

    def record(self, body: str) -> None:
        for entity, arrived in tuple(self._arrived.items()):
            if f'"{entity}"' in body:
                arrived.set()


class _Handler(BaseHTTPRequestHandler):
    server: _Webhooks

    # The library defines the name.
    def do_POST(self) -> None:
        self.server.record(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class SlowNames(Requests):
    """Alerts for the contacts with slow names. Each second, an alert of the other tenant must be notified."""

    def __init__(self, base_url: str, path: str, beside: str, server: _Webhooks) -> None:
        super().__init__(SLOW_NAMES, base_url, self._build_alert, threads=1, pause_s=PAUSE_S, finish=go_on)
        self._path, self._beside = path, beside
        self._netloc = urlsplit(base_url).netloc
        self._server = server

    def _build_alert(self, number: int) -> Request:
        return Request(self._path, json.dumps(build_alert(f"unknown-{number}", {})).encode())

    def run(self, stopping: threading.Event) -> None:
        serving = threading.Thread(target=self._server.serve_forever, daemon=True)
        prompt = threading.Thread(target=self._send_beside, args=(stopping,), daemon=True)
        for thread in (serving, prompt):
            thread.start()
        super().run(stopping)
        prompt.join()
        self._server.shutdown()
        serving.join()

    def _send_beside(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.wait(PAUSE_S):
            number += 1
            entity = f"prompt-{id(stopping)}-{number}"
            arrived = self._server.expect(entity)
            in_time = self._send_alert(entity) and arrived.wait(GOAL_S)
            self.statuses[IN_TIME if in_time else LATE] += 1

    def _send_alert(self, entity: str) -> bool:
        client = HTTPConnection(self._netloc, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json"}
        try:
            client.request("POST", self._beside, json.dumps(build_alert(entity, {})), headers)
            return client.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            client.close()
