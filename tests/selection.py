"""Which tests run in which target of the Makefile."""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Tests that start `tocsin`, a browser or another program: `make test-processes`. A single test of another
# file has the mark itself. In `make test` no test starts a process (tests/starts.py).
PROCESSES = (
    "tests/bench/servers",
    "tests/bench/test_load.py",
    "tests/bench/test_peers.py",
    "tests/bench/test_results.py",
    "tests/browser",
    "tests/clients",
    "tests/deploy/test_nagios_script.py",
    "tests/deploy/test_systemd_unit.py",
    "tests/docs/test_pages.py",
    "tests/models/store/test_concurrent_migrate.py",
    "tests/packaging/test_wheel.py",
    "tests/runtime/test_metrics_folder.py",
    "tests/runtime/test_signals.py",
    "tests/scenarios/test_alertmanager.py",
    "tests/scenarios/test_maintenance_end.py",
    "tests/schedules/test_clock_process.py",
    "tests/tocsin/checks/test_redis_server.py",
    "tests/tocsin/commands/account/test_test_message.py",
    "tests/tocsin/commands/installation/test_backup.py",
    "tests/tocsin/commands/installation/test_health.py",
    "tests/tocsin/commands/installation/test_init.py",
    "tests/tocsin/server/mail_in/test_listener_process.py",
    "tests/tocsin/server/test_alert_results.py",
    "tests/tocsin/server/test_dead_mans_switch.py",
    "tests/tocsin/server/test_embedded_redis.py",
    "tests/tocsin/server/test_first_start.py",
    "tests/tocsin/server/test_metrics_server.py",
    "tests/tocsin/server/test_serve.py",
    "tests/tocsin/server/test_supervisor.py",
    "tests/tocsin/test_cli.py",
    "tests/web/pages/test_link_key.py",
    "tests/web/rules/test_new_action.py",
    "tests/workers/test_broker.py",
)

# Tests of these files run on PostgreSQL too, because each store starts and is saved in its own way.
PROCESSES_ON_BOTH_STORES = (
    "tests/models/store/test_concurrent_migrate.py",
    "tests/tocsin/commands/installation/test_backup.py",
    "tests/tocsin/server/test_first_start.py",
    "tests/tocsin/server/test_supervisor.py",
    "tests/tocsin/test_cli.py",
)

# Tests of decisions and of texts, which use no database: `make quick`.
PURE = (
    "tests/docs/test_documents.py",
    "tests/docs/test_glossary.py",
    "tests/models/domain",
    "tests/packaging/test_pyproject.py",
    "tests/pipeline",
    "tests/runtime/test_settings.py",
    "tests/schedules",
    "tests/test_architecture.py",
    "tests/test_private_names.py",
    "tests/test_store_questions.py",
)

# Pure tests of many random examples, which take as long as all others together: in `make test` only.
LONG = (
    "tests/pipeline/rules/conditions/test_latest_verdict.py",
    "tests/pipeline/sources/test_every_source.py",
    "tests/schedules/oncall/test_schedule_shifts.py",
)

# Tests with a target of their own, by their marks.
OTHER_TARGETS = ("faults", "siege", "wheel", "schemathesis")


@cache
def is_among(path: Path, names: tuple[str, ...]) -> bool:
    """Return whether a file is one of these, or below one of them."""
    return f"{path}/".startswith(_list_folders(names))


def is_pure(path: Path) -> bool:
    """Return whether the tests of a file are for `make quick`."""
    return is_among(path, PURE) and not is_among(path, (*LONG, *PROCESSES))


@cache
def _list_folders(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{ROOT / name}/" for name in names)


@cache
def is_above(path: Path, names: tuple[str, ...]) -> bool:
    """Return whether a folder has one of these below it."""
    return any((ROOT / name).is_relative_to(path) for name in names)


def list_missing() -> list[str]:
    """Return the names above that no file or folder has."""
    return [
        name for name in (*PROCESSES, *PROCESSES_ON_BOTH_STORES, *PURE, *LONG) if not (ROOT / name).exists()
    ]


def runs_on_both_stores(path: Path, stores_used: set[str]) -> bool:
    """Return whether a test runs on PostgreSQL too: it uses a database, and most start no process."""
    if is_among(path, PROCESSES):
        return is_among(path, PROCESSES_ON_BOTH_STORES)
    return bool(stores_used)
