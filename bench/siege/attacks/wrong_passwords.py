"""Wrong passwords of addresses that nobody has, from one client."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode, urlsplit

from bench.siege.attacks.attack import TIMEOUT_S, Attack, Sizes
from bench.siege.tenants import Tenant

THREADS = 16
FORM = "application/x-www-form-urlencoded"


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield wrong passwords as fast as they are answered."""
    yield WrongPasswords(tenant.base_url)


class WrongPasswords:
    """Sends the form of the sign-in page, from several threads, with the cookie and the token of one page."""

    name = "wrong passwords"

    def __init__(self, base_url: str) -> None:
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        self._address = urlsplit(base_url).netloc
        self._lock = threading.Lock()

    def run(self, stopping: threading.Event) -> None:
        threads = [
            threading.Thread(target=self._repeat, args=(stopping,), name=self.name, daemon=True)
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, stopping: threading.Event) -> None:
        cookie, token = "", ""
        while not stopping.is_set():
            if not cookie:
                cookie, token = self._load_page()
            with self._lock:
                self.requests += 1
                number = self.requests
            address = f"nobody-{number}@example.org"
            fields = {"csrf": token, "address": address, "password": "not the password"}
            status = self._send(urlencode(fields), {"Content-Type": FORM, "Cookie": cookie})
            with self._lock:
                self.statuses[status] += 1

    def _load_page(self) -> tuple[str, str]:
        """Return the cookie of the forms, and the token of the sign-in page; "": there was no answer."""
        client = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            client.request("GET", "/sign-in/")
            answer = client.getresponse()
            page = answer.read().decode()
            cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
            return cookie, page.partition('name="csrf" value="')[2].partition('"')[0]
        except (OSError, HTTPException):
            return "", ""
        finally:
            client.close()

    def _send(self, body: str, headers: dict[str, str]) -> str:
        client = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                client.request("POST", "/sign-in/", body, headers)
            answer = client.getresponse()
            answer.read()
            return str(answer.status)
        except TimeoutError:
            return "none"
        except (OSError, HTTPException):
            return "closed"
        finally:
            client.close()
