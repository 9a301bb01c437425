"""A host vanishes in mid-transaction: PostgreSQL ends its session soon, and others get its locks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.requirements import skip_or_fail

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]

# Longer than the keepalives of a session need, and less than the limit for a transaction that is idle.
SOON_S = 13.0

# Runs in a network namespace of its own: when its loopback is down, the session over TCP gets no packet any
# more. The other one uses a Unix socket.
PROGRAM = """
import subprocess, time
import psycopg
from models.store.postgresql_pool import SESSION_SQL
from tests.support.postgresql.server import running_server

def loopback(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

loopback("up")
with running_server(durable=False) as server:
    vanishing = psycopg.connect(server.url, autocommit=True)
    vanishing.execute(SESSION_SQL)
    port = server.url.rpartition(":")[2].partition("/")[0]
    near = {"host": str(server.folder), "port": port, "user": "tocsin", "dbname": "postgres"}
    other = psycopg.connect(**near, autocommit=True)
    other.execute(SESSION_SQL)
    other.execute("create table lane (id integer); insert into lane values (1)")
    vanishing.execute("begin")
    vanishing.execute("select id from lane for no key update")
    loopback("down")
    cut_time = time.monotonic()
    other.execute("select id from lane for no key update")
    print(time.monotonic() - cut_time)
    loopback("up")
"""


def test_the_locks_of_a_vanished_host_are_free_soon(report: Callable[[str], None]) -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        skip_or_fail("only root can make a network namespace, with unshare and ip")
    command = ["unshare", "--net", sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    seconds = float(ended.stdout)

    report(f"the lock of a vanished host was free after {seconds:.1f} s")
    assert seconds <= SOON_S
