"""Start real instances for faults: each in its own folder with a mail server, stopped after the test."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.store.opening import open_store
from models.store.store import db
from runtime.redis_socket import get_socket_path
from tests.support import stores
from tests.support.faults.host_clock import HostClock, find_library
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import OWNER
from tests.support.requirements import skip_or_fail


@pytest.fixture(scope="session")
def seed() -> int:
    """Return the seed. FAULTS_SEED repeats the same faults at the same times."""
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(10**6))


SUMMARY = "summary of the faults"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Print a summary at the end of the run, passed or failed. Tests run in several processes."""
    return lambda text: record_property(SUMMARY, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests reported."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, ())]
    for each in reports:
        texts = [text for name, text in each.user_properties if name == SUMMARY]
        if each.when == "call" and texts:
            terminalreporter.write_line("\n  ".join([each.nodeid, *map(str, texts)]))


@pytest.fixture
def chance(seed: int, report: Callable[[str], None]) -> random.Random:
    """Return a random generator with the seed, and print the seed."""
    report(f"FAULTS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def sink() -> Iterator[Sink]:
    """Start the mail server."""
    sink = Sink().start()
    yield sink
    sink.stop()


@pytest.fixture
def launch(tmp_path: Path, sink: Sink) -> Iterator[Callable[..., Installation]]:
    """Return a function that starts the instance of this test. The test can read its tables."""
    started: list[Installation] = []

    def launch_instance(**settings: Any) -> Installation:
        instance = Installation(tmp_path, settings.pop("relay", sink.port), owner_email=OWNER, **settings)
        started.append(instance)
        instance.start()
        open_store(instance.database_url, instance.home)
        return instance

    yield launch_instance
    for instance in started:
        instance.stop()
    db.close_all()
    stores.drop_store(tmp_path / "home")


@pytest.fixture
def host_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostClock:
    """Return a clock for all processes that are started later. They are killed at the end."""
    preloaded = find_library()
    if preloaded is None:
        skip_or_fail("libfaketime is not installed")
    clock = HostClock(tmp_path)
    for name, value in clock.environment(preloaded).items():
        monkeypatch.setenv(name, value)
    return clock


@pytest.fixture
def flushall() -> Callable[[Instance], None]:
    """Delete all data in Redis."""

    def flush_redis(instance: Instance) -> None:
        with redis.Redis(unix_socket_path=str(get_socket_path(instance.home))) as client:
            client.flushall()

    return flush_redis
