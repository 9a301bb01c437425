"""Each fault of the table, under load: nothing lost, no duplicate incident, nothing stale, soon over.

`make faults` tries some of them, `make faults-full` all, and both print the table.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.faults.lengths import FULL
from tests.support import stores
from tests.support.faults import catalogue
from tests.support.faults.catalogue import Fault
from tests.support.faults.installation import Installation
from tests.support.faults.relay import FaultyRelay
from tests.support.faults.rounds import Row, Site, Table, run_round
from tests.support.postgresql.server import running_server
from tests.support.relays import build_server_context, certificate
from tests.support.requirements import skip_or_fail

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

# For each worker, a mail may be accepted by the relay before this is recorded.
MAILS_IN_FLIGHT = 2 * 4
RECOVERY_S = 30.0

# The fixture of another module, used here too.
__all__ = ["certificate"]


@pytest.fixture
def sink() -> Iterator[FaultyRelay]:
    relay = FaultyRelay().start()
    yield relay
    relay.stop()


@pytest.fixture
def try_all(report: Callable[[str], None], seed: int) -> Callable[..., None]:
    """Return a function that tries faults on one instance, prints the table, and checks it at the end."""

    def try_faults(instance: Installation, relay: FaultyRelay, faults: list[Fault]) -> None:
        site = Site(instance, relay, seed)
        table = Table()
        unanswered: dict[str, int] = {}
        for fault in faults:
            before = relay.unanswered
            table.rows.append(run_round(site, fault.name, fault.strike(site), fault.seconds))
            unanswered[fault.name] = relay.unanswered - before
        report(table.format())
        assert [problem for row in table.rows for problem in list_problems(row, unanswered[row.fault])] == []

    return try_faults


def list_problems(row: Row, unanswered: int) -> Iterator[str]:
    """Yield what must not be in a line of the table.

    `unanswered` mails arrived without an answer for Tocsin. Each of them, and each mail in flight, may come
    again, or its notifications may be cancelled before that.
    """
    for name in ("lost", "duplicate_incidents", "unnotified"):
        if getattr(row, name):
            yield f"{row.fault}: {name} {getattr(row, name)} {', '.join(row.examples)}"
    if row.stale + row.repeated > MAILS_IN_FLIGHT + unanswered:
        yield f"{row.fault}: {row.repeated} mails repeated, {row.stale} stale"
    if row.recovery_s > RECOVERY_S:
        yield f"{row.fault}: recovery {row.recovery_s:.1f} s"


def choose(faults: tuple[Fault, ...] | list[Fault]) -> list[Fault]:
    """Return the faults to try. FAULT=relay, for example, selects those with this text in their names."""
    if selected := os.environ.get("FAULT"):
        return [fault for fault in faults if selected in fault.name]
    return [fault for fault in faults if FULL or fault.is_short]


def test_processes_redis_and_relay(
    launch: Callable[..., Installation], sink: FaultyRelay, try_all: Callable[..., None]
) -> None:
    faults = choose((*catalogue.PROCESS_FAULTS, *catalogue.REDIS_FAULTS, *catalogue.RELAY_FAULTS))
    try_all(launch(), sink, faults)


@pytest.mark.skipif(not FULL, reason="make faults-full tries it")
def test_a_relay_with_broken_tls(
    launch: Callable[..., Installation],
    certificate: Path,
    try_all: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    relay = FaultyRelay(build_server_context(certificate)).start()
    try:
        instance = launch(relay=relay.port, smtp_tls="starttls", smtp_host="localhost")
        try_all(instance, relay, list(catalogue.TLS_FAULTS))
    finally:
        relay.stop()


@pytest.mark.skipif(not stores.SERVER, reason="belongs to the run on PostgreSQL")
def test_a_server_of_postgresql(
    launch: Callable[..., Installation], sink: FaultyRelay, try_all: Callable[..., None]
) -> None:
    with running_server() as server:
        try_all(launch(database_url=server.url), sink, choose(catalogue.list_server_faults(server)))


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a file system of this size at a folder."""
    if os.geteuid() != 0:
        skip_or_fail("only root can mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(
    launch: Callable[..., Installation], sink: FaultyRelay, try_all: Callable[..., None], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        if stores.SERVER:
            server = stack.enter_context(running_server(mount=lambda folder: small_disk(folder, "400m")))
            folder, settings = server.folder, {"database_url": server.url}
        else:
            folder, settings = tmp_path / "home", {}
            folder.mkdir(mode=0o700)
            stack.enter_context(small_disk(folder, "64m"))
            folder.chmod(0o700)
        instance = launch(**settings)
        stack.callback(instance.stop)
        try_all(instance, sink, [Fault("disk of the database full", partial(catalogue.fill_disk, folder))])
