"""Pages that stay open in browsers and ask whether something has changed, as the script of the pages does."""

import threading
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from bench.siege import rows
from bench.siege.attacks.attack import TIMEOUT_S, Attack, Sizes
from bench.siege.tenants import Tenant, create_tenant

CHANGING_PAGES, QUIET_PAGES = "open pages that change", "open pages that stay the same"
# How often an open page asks (web/pages/static/tocsin.js).
POLL_S = 5.0
POLLING_THREADS = 20
# As many as a page of the list shows.
OPEN_INCIDENTS = 50


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield the lists of the tenant that attacks, whose incidents change, and those of a quiet tenant."""
    quiet = create_tenant(tenant.base_url, "quiet")
    rows.write_incidents(quiet, 0, OPEN_INCIDENTS)
    for name, owner in ((CHANGING_PAGES, tenant), (QUIET_PAGES, quiet)):
        yield OpenPages(f"{sizes.open_pages} {name}", tenant.base_url, owner.cookie, sizes.open_pages)


class OpenPage:
    """The list of incidents in a browser, with its connection."""

    def __init__(self, address: str, cookie: dict[str, str]) -> None:
        self._client = HTTPConnection(address, timeout=TIMEOUT_S)
        self._cookie = cookie
        self.etag = ""

    def ask(self) -> str:
        """Return the status of a request for the page, or of a poll if it was loaded before."""
        headers = {**self._cookie, "Accept": "text/html"}
        if self.etag:
            headers |= {"X-Requested-With": "fetch", "If-None-Match": self.etag}
        try:
            self._client.request("GET", "/", headers=headers)
            answer = self._client.getresponse()
            answer.read()
        except TimeoutError:
            self.close()
            return "none"
        except (OSError, HTTPException):
            self.close()
            return "closed"
        # A page that could not be loaded again stays as it was.
        if answer.status == 200:
            self.etag = answer.headers.get("ETag", "")
        return str(answer.status)

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        self._client.close()


class OpenPages:
    """Lists of incidents in browsers, each of which asks every POLL_S.

    The first page of each thread is loaded when the attack begins. The others were loaded before it.
    """

    accepted: list[str] = []

    def __init__(self, name: str, base_url: str, cookie: dict[str, str], pages: int) -> None:
        self.name = name
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self._address = urlsplit(base_url).netloc
        self._cookie = cookie
        self._pages = pages
        self._lock = threading.Lock()

    def run(self, stopping: threading.Event) -> None:
        count = min(POLLING_THREADS, self._pages)
        threads = [
            threading.Thread(target=self._poll, args=(stopping, self._pages // count), daemon=True)
            for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _poll(self, stopping: threading.Event, count: int) -> None:
        pages = [OpenPage(self._address, self._cookie) for _ in range(count)]
        try:
            while True:
                for page in pages:
                    page.etag = page.etag or pages[0].etag
                    status = page.ask()
                    with self._lock:
                        self.requests += 1
                        self.statuses[status] += 1
                    if stopping.wait(POLL_S / count):
                        return
        finally:
            for page in pages:
                page.close()
