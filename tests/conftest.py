"""Fixtures for all tests: a separate database, people, and a time. Marks, and what a test may start."""

import gc
import os
import random
import uuid
import zoneinfo
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from bench.servers.plans import collect_statements
from models.store.opening import open_store
from models.store.store import connection, db
from tests import selection, starts
from tests.support import stores
from tests.support.postgresql import reused_connections
from tests.support.scenarios.combinations import count_examples
from tests.support.web import password_cost
from tests.support.world import World, create_world
from web.pages import clients
from workers import config_cache
from workers.alerts import amazon, batches, lane_actors, pieces, process_lane, process_lanes, process_router
from workers.alerts.batches import BatchSize, CostlyLanes
from workers.broker import broker
from workers.lane_turns import Linger
from workers.timers import fire

# A traceback by rich, with the variables of each frame, takes seconds.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

password_cost.lower()

# By default an example fails after 0.2 s, also if the machine did something else in that time.
settings.register_profile(
    "tests",
    max_examples=count_examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")

# Rules of time zones are those of the locked package `tzdata`, not those of this host, here and in processes.
os.environ["PYTHONTZPATH"] = ""
zoneinfo.reset_tzpath(())

# Tests create data folders, which only their owner may use.
os.umask(0o077)

# Fixtures that open a database, or are the folder of one.
STORES = {"store", "empty_store", "home"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not read files whose tests are not asked for. Some import large packages."""
    chosen = config.option.markexpr
    if "not processes" in chosen and selection.is_among(collection_path, selection.PROCESSES):
        return True
    if chosen == "pure":
        is_asked = selection.is_pure(collection_path) or selection.is_above(collection_path, selection.PURE)
        return None if is_asked else True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their files and fixtures, before they are chosen by their marks."""
    assert not (missing := selection.list_missing()), f"tests/selection.py names {missing}"
    for item in items:
        if selection.is_among(item.path, selection.PROCESSES):
            item.add_marker("processes")
        if selection.runs_on_both_stores(item.path, STORES & set(getattr(item, "fixturenames", ()))):
            item.add_marker("both_stores")
        if selection.is_pure(item.path) and not item.get_closest_marker("processes"):
            item.add_marker("pure")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Refuse to start a process in a test without a mark that says so."""
    with starts.forbid_starts(None if starts.may_start(item) else item.nodeid):
        return (yield)


NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


# Modules and tests stay until the end of the run. Garbage collections would read them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the modules and tests of the run out of garbage collections: a tenth of the time of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.fixture
def now() -> datetime:
    """Return a Wednesday noon, far from a daylight-saving change."""
    return NOON


@pytest.fixture(scope="session", autouse=True)
def _empty_folder(tmp_path_factory: pytest.TempPathFactory):
    """Run in an empty folder, because `var/tocsin.toml` of the checkout has other settings."""
    os.chdir(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="session", autouse=True)
def _databases():
    """Drop all databases at the end of the run."""
    reused_connections.install()
    yield
    reused_connections.close_all()
    stores.drop_all_stores()


@pytest.fixture
def home(tmp_path: Path):
    """Return the data folder of this test."""
    yield tmp_path / "home"
    stores.drop_store(tmp_path / "home")


@pytest.fixture
def empty_store(home: Path):
    """Open a database without a schema."""
    yield open_store(stores.get_url(home), home)
    db.close_all()


@pytest.fixture
def store(home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Open a database with the schema and no rows. Caches of lanes are empty."""
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize())
    monkeypatch.setattr(process_lanes, "_batch_size", BatchSize())
    monkeypatch.setattr(process_router, "_batch_size", BatchSize())
    for module in (process_lane, process_lanes):
        monkeypatch.setattr(module, "_costly_lanes", CostlyLanes())
    monkeypatch.setattr(process_router, "_costly_routers", CostlyLanes())
    monkeypatch.setattr(fire, "_batch_size", BatchSize())
    # The lanes of the last test had the same row numbers; a lane that lingers would drop its wake-ups.
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    monkeypatch.setattr(lane_actors, "_large_lanes", set())
    monkeypatch.setattr(lane_actors, "_accounts", {})
    monkeypatch.setattr(lane_actors, "_gatherings", {})
    # On a busy machine, the time of a batch, a turn or a pass would end before its work.
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 60.0)
    monkeypatch.setattr(process_lane, "SLICE_S", 60.0)
    monkeypatch.setattr(fire, "PASS_S", 60.0)
    config_cache.clear()
    pieces.clear()
    amazon.clear()
    clients.clear()
    fire.clear_failures()
    cached = stores.Migrated.cached = stores.Migrated.cached or stores.Migrated(
        tmp_path_factory.mktemp("schema")
    )
    opened = cached.open_copy(home)
    with connection():
        yield opened
    with reused_connections.keeping():
        db.close_all()


WORLD: stores.RowCache[World] = stores.RowCache()


@pytest.fixture
def world(store, now: datetime, monkeypatch: pytest.MonkeyPatch) -> World:
    """Create Alice's team with a service. Bob is in it, Charlie is not, Mallory is in another account.

    The IDs are the same in each test, so that rows can be compared.
    """

    def create() -> World:
        numbers = random.Random(0)
        with monkeypatch.context() as patched, store.write_transaction():
            patched.setattr(uuid, "uuid4", lambda: uuid.UUID(int=numbers.getrandbits(128), version=4))
            return create_world(now)

    return WORLD.get(create)


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | str, ...]]:
    """Return a list of the wake-ups that are enqueued from now on: each is its queue and its arguments."""
    wake_ups: list[tuple[int | str, ...]] = []
    monkeypatch.setattr(
        broker, "enqueue", lambda message, delay=None: wake_ups.append((message.queue_name, *message.args))
    )
    return wake_ups


@pytest.fixture
def statements():
    """Return a context manager that collects all SQL statements with their values."""
    return collect_statements
