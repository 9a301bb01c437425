"""What commands load."""

import json
import subprocess
import sys

import pytest

from tests.support import stores
from tests.support.alerts import accept
from tests.support.processes import build_environment
from workers.alerts import process_lane

pytestmark = pytest.mark.processes

PRINT = """
import json, sys, peewee
names = {"peewee": vars(peewee), "adapter": vars(peewee.Psycopg3Adapter)}
marks = "psycopg.", "'psycopg'", "TransactionStatus"
own = {
    place: {name: repr(value) for name, value in found.items() if any(mark in repr(value) for mark in marks)}
    for place, found in names.items()
}
print(json.dumps(own))
"""
LATER = "from tocsin.commands.loading import import_peewee; import_peewee()\n"


def run(program: str) -> str:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_peewee_has_the_same_names_of_the_driver_whether_it_gets_them_at_once_or_later():
    at_once = json.loads(run(PRINT))
    later = json.loads(run(f"{LATER}import models.store.psycopg_internals\n{PRINT}"))

    assert at_once == later
    assert len(at_once["peewee"]) > 3
    assert len(at_once["adapter"]) > 2


def test_a_process_on_sqlite_does_not_load_the_driver():
    opened = "from models.store.opening import open_store; from models.store import sqlite, prepared, bulk\n"

    assert run(f"{LATER}{opened}import sys; print('psycopg' in sys.modules)") == "False\n"


# Each needs as much time to load as the rest of a short command, or half of it.
SLOW_TO_LOAD = {"flask", "marshmallow", "dramatiq", "redis", "structlog", "datalogic_py", "prometheus_client"}
SLOW_TO_LOAD |= {"psycopg", "playhouse.migrations", "jinja2", "web.app", "pipeline.sources.table"}
SHORT = (
    "list users",
    "changes --account {account}",
    "incidents --account {account}",
    "alerts --account {account}",
    "why last --account {account}",
    "token list",
    "oncall --account {account}",
    "ack 1 --account {account}",
    "note 1 text --user bob@example.org --account {account}",
    "maintenance start {service} 1h --account {account}",
    "dead-letters",
    "backup {copy}",
    "migrate",
)
# Conditions of rules and the server are checked; an alert is read and decided on as in a worker.
LONGER = {
    "check --account {account}": {"datalogic_py", "redis"},
    "simulate --message x --service {service} --account {account}": {
        "datalogic_py",
        "pipeline.sources.table",
    },
}
SCRIPT = """
import sys
from tocsin.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", [*SHORT, *LONGER])
def test_a_command_loads_only_what_it_needs(world, now, home, tmp_path, command):
    accept(world, now, message="db1 is full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    names = {
        "account": world.account.account_identifier,
        "service": world.service.unique_id,
        "copy": tmp_path / "copy",
    }

    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command.format(**names).split()],
        env=build_environment(home),
        capture_output=True,
        text=True,
    )

    loaded = set(ended.stderr.splitlines()[-1].split())
    assert SLOW_TO_LOAD & loaded == LONGER.get(command, set()) | ({"psycopg"} if stores.SERVER else set())
    # The incident reached nobody, which some commands report.
    assert ended.returncode in (0, 1)
    assert "Error: " not in ended.stderr
