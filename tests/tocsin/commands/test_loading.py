"""peewee is loaded without the driver of PostgreSQL, and gets it later."""

import json
import subprocess
import sys

import pytest

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
