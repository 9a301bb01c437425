"""`python -m bench.compare.pages`: the list of many incidents, and many open pages beside alerts."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from http.client import HTTPConnection
from time import monotonic, perf_counter

import click

from bench.lists import INCIDENTS, start_with_data
from bench.load import Loader
from bench.report import describe_machine, format_machine
from bench.run import percentile
from bench.servers.instance import Instance
from bench.traffic import Traffic
from models.domain.enums import AccountRole
from models.sign_in import sessions
from models.sign_in.sessions import Browser
from models.store.store import connection, store
from models.tables.accounts import Account, User

# Budgets of the list: time of the server with one connection, and bytes without compression.
BUDGET_MS, BUDGET_BYTES = 300.0, 100_000
TIMES, WARM_UP = 40, 3
# Each open page polls at this interval (web/pages/static/tocsin.js).
POLL_S = 5.0
POLLERS = 8
# Alerts a second while the pages poll.
RATE = 50.0
COOKIE = "tocsin-session"


def start_session(account_id: str) -> str:
    """Sign in the owner of the account. Return the cookie of the session."""
    with connection(), store().write_transaction():
        owner = User.get(
            User.account == Account.get(Account.account_identifier == account_id),
            User.role == AccountRole.OWNER,
        )
        return sessions.start(owner, "password", Browser("bench", "127.0.0.1"), datetime.now(UTC))


def ask(client: HTTPConnection, cookie: str, etag: str = "") -> tuple[int, str, int]:
    """Ask for the list once. Return status, ETag and the size of the body."""
    headers = {"Cookie": f"{COOKIE}={cookie}", "Accept": "text/html"}
    client.request("GET", "/", headers={**headers, **({"If-None-Match": etag} if etag else {})})
    answer = client.getresponse()
    return answer.status, answer.headers.get("ETag", ""), len(answer.read())


def time_list(instance: Instance, cookie: str) -> tuple[float, float, int]:
    """Return the median and the 95th percentile of the list in milliseconds, and its size."""
    client = HTTPConnection("127.0.0.1", instance.port, timeout=60)
    times_ms, size = [], 0
    for _ in range(TIMES + WARM_UP):
        started = perf_counter()
        status, _, size = ask(client, cookie)
        times_ms.append(1000 * (perf_counter() - started))
        if status != 200:
            raise click.ClickException(f"the list answers {status}")
    client.close()
    ordered = sorted(times_ms[WARM_UP:])
    return percentile(ordered, 50), percentile(ordered, 95), size


class OpenPages:
    """Polls as this number of open pages does, from a few threads, and counts the answers by status."""

    def __init__(self, port: int, cookie: str, pages: int) -> None:
        self.statuses: dict[int, int] = {}
        self._port, self._cookie = port, cookie
        self._pause_s = POLL_S * POLLERS / pages
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._opened = threading.Barrier(POLLERS + 1, timeout=60)

    @contextmanager
    def run(self) -> Iterator["OpenPages"]:
        threads = [threading.Thread(target=self._poll, daemon=True) for _ in range(POLLERS)]
        for thread in threads:
            thread.start()
        # Only polls are measured: the pages are open.
        self._opened.wait()
        try:
            yield self
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _poll(self) -> None:
        client = HTTPConnection("127.0.0.1", self._port, timeout=60)
        _, etag, _ = ask(client, self._cookie)
        self._opened.wait()
        due = monotonic()
        while not self._stopping.wait(max(0.0, due - monotonic())):
            due += self._pause_s
            status, etag, _ = ask(client, self._cookie, etag)
            with self._lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
        client.close()


def measure_accept(instance: Instance, run: str, seconds: float) -> tuple[float, float]:
    """Return the median and the 99th percentile in which alerts are accepted at a rate."""
    addresses = instance.credentials()["webhook_urls"].values()
    generic = next(url for urls in addresses for url in urls if "/generic/" in url)
    # Alerts of a few entities, so that the work of processing them stays small.
    sent = Loader(instance.url, 8, rate=RATE).run(Traffic(run, round(RATE * seconds), 20).requests(generic))
    ordered = sorted(sent.latencies_ms)
    return percentile(ordered, 50), percentile(ordered, 99)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--server", envvar="TEST_DATABASE_URL", default="", help='"": SQLite.')
@click.option("--incidents", default=INCIDENTS, show_default=True)
@click.option("--pages", default=200, show_default=True)
@click.option("--seconds", default=20.0, show_default=True)
def main(server: str, incidents: int, pages: int, seconds: float) -> None:
    """Measure the pages. Exit code 1 if the list is over its budget."""
    with start_with_data(server, incidents) as (instance, _):
        cookie = start_session(instance.credentials()["account_id"])
        p50, p95, size = time_list(instance, cookie)
        click.echo(f"list of {incidents:,} incidents: p50 {p50:.0f} ms, p95 {p95:.0f} ms, {size:,} bytes")
        for name, opened in (("no page", None), (f"{pages} pages", OpenPages(instance.port, cookie, pages))):
            with opened.run() if opened is not None else nullcontext():
                half, most = measure_accept(instance, name.replace(" ", "-"), seconds)
            polls = f"; polls by status: {opened.statuses}" if opened is not None else ""
            click.echo(f"{RATE:.0f} alerts/s, {name}: accepted p50 {half:.1f} ms, p99 {most:.1f} ms{polls}")
        click.echo(format_machine(describe_machine()))
    if p95 > BUDGET_MS or size > BUDGET_BYTES:
        click.echo(f"the list is over {BUDGET_MS:.0f} ms or {BUDGET_BYTES:,} bytes", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
