"""Real instances to be hurt: each in a folder of its own, with a mail server, none left running."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from bench.instance import Instance
from bench.sink import Sink
from models.store.base import db, open_store
from tests.support import stores
from tests.support.faults.host_clock import HostClock, find_library
from tests.support.faults.installation import Installation
from tests.support.faults.ledger import OWNER
from tests.support.requirements import skip_or_fail
from tocsin.server.embedded_redis import get_socket_path


@pytest.fixture(scope="session")
def seed() -> int:
    """Set FAULTS_SEED to run the same faults at the same moments again."""
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(10**6))


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Says what a run was like, passed or not."""

    def print_line(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    return print_line


@pytest.fixture
def chance(seed: int, report: Callable[[str], None]) -> random.Random:
    """Chance that can be repeated; tells how."""
    report(f"FAULTS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def sink() -> Iterator[Sink]:
    """The mail server."""
    sink = Sink().start()
    yield sink
    sink.stop()


@pytest.fixture
def launch(tmp_path: Path, sink: Sink) -> Iterator[Callable[..., Installation]]:
    """Starts the instance of this test; its tables are open to the test, too."""
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
    """The clock that all processes see which are started from now on; they are killed at the end."""
    preloaded = find_library()
    if preloaded is None:
        skip_or_fail("libfaketime is not installed")
    clock = HostClock(tmp_path)
    for name, value in clock.environment(preloaded).items():
        monkeypatch.setenv(name, value)
    return clock


@pytest.fixture
def flushall() -> Callable[[Instance], None]:
    """Redis loses everything it holds."""

    def flush_redis(instance: Instance) -> None:
        with redis.Redis(unix_socket_path=str(get_socket_path(instance.home))) as client:
            client.flushall()

    return flush_redis
