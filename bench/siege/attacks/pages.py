"""Forms, questions of pages, and pages that stay open and ask whether something has changed."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from bench.siege import bodies
from bench.siege.attacks.attack import TIMEOUT_S, Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant

FORMS = "forms of 1 MiB"
EVENTS = "512 KiB to event APIs, unknown keys"
TRIAL = "source/try with 500 KB"
DOCUMENTS = "exports, calendars, figures"
OPEN_PAGES = "open pages"
# How often an open page asks. The script asks every 10 s; here as often as 400 pages would.
POLL_S = 5.0
POLLING_THREADS = 20


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield forms and large events of strangers, and costly questions of a person who is signed in."""
    url = tenant.base_url
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    fields = b"a&" * 524_288
    forms = [Request(path, fields, form) for path in ("/sign-in/", "/join/x")]
    events = [Request(path, body) for path, body in bodies.list_unknown_events()]
    payload = {"list": [[[]]] * 32_000, "text": bodies.TEXT[:200_000]}
    trial = Request(
        f"/api/tocsin/integrations/{tenant.generic.unique_id}/source/try/",
        json.dumps({"body": {"message": "m", "payload": payload}}).encode(),
        tenant.headers,
    )
    asked = ("/figures/?days=90", "/incidents/1/postmortem.md", "/on-call/")
    documents = [Request(path, headers=tenant.cookie, method="GET") for path in asked]
    documents += [Request(f"{tenant.calendar_path}?n={number}", method="GET") for number in range(len(asked))]
    yield Requests(FORMS, url, lambda number: forms[number % len(forms)], threads=35, pause_s=0.2)
    yield Requests(EVENTS, url, lambda number: events[number % len(events)], threads=8, pause_s=0.2)
    yield Requests(TRIAL, url, lambda _: trial, threads=4, pause_s=0.2)
    yield Requests(DOCUMENTS, url, lambda number: documents[number % len(documents)], threads=6, pause_s=0.2)
    yield OpenPages(f"{sizes.open_pages} {OPEN_PAGES}", url, tenant.cookie, sizes.open_pages)


class OpenPages:
    """Lists of incidents in browsers. Each browser asks every POLL_S whether its list has changed."""

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

    def _poll(self, stopping: threading.Event, pages: int) -> None:
        known = [""] * pages
        while not stopping.is_set():
            for place, etag in enumerate(known):
                status, known[place] = self._ask(etag)
                with self._lock:
                    self.requests += 1
                    self.statuses[status] += 1
                if stopping.wait(POLL_S / pages):
                    return

    def _ask(self, etag: str) -> tuple[str, str]:
        """Return the status, and the ETag of the page that the browser has now."""
        client = HTTPConnection(self._address, timeout=TIMEOUT_S)
        headers = {**self._cookie, "X-Requested-With": "fetch", "If-None-Match": etag}
        try:
            client.request("GET", "/", headers=headers)
            answer = client.getresponse()
            answer.read()
            return str(answer.status), answer.headers.get("ETag", "")
        except TimeoutError:
            return "none", etag
        except (OSError, HTTPException):
            return "closed", etag
        finally:
            client.close()
