"""Alerta behind gunicorn, on a PostgreSQL database of its own.

It tells nobody: the request does all of its work.
"""

import json
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from bench.instance import free_port
from bench.load import Sent
from bench.peers.child import Absent, Child, child
from bench.postgres import Database, NoServer, own_database
from bench.processes import Process
from bench.run import Lost, Told
from bench.traffic import ENTITY, GENERIC, Traffic

# In a folder that is not kept: an environment of its own, which our own knows nothing of.
PLACE = Path(__file__).parents[2] / "build" / "peers" / "alerta"
PACKAGES = ("alerta-server==9.1.0", "gunicorn==27.0.1", "psycopg2-binary==2.9.13")
INSTALL_S = 240
SCHEMA_S = 30

KEPT = """
select resource, sum(duplicate_count + 1)::int from alerts where resource like %s group by resource
"""

_OURS = json.loads(GENERIC)
ALONE = json.dumps(
    {
        "resource": ENTITY.decode(),
        "event": "DiskAlmostFull",
        "environment": "Production",
        "severity": "critical",
        "service": ["payments"],
        "group": "Storage",
        "value": "93%",
        "text": _OURS["message"],
        "origin": "bench",
        "attributes": {
            "summary": _OURS["summary"],
            "query": _OURS["payload"]["query"],
            **_OURS["payload"]["labels"],
        },
        "tags": ["env=production", "region=eu-central", "mountpoint=/var/lib/postgresql"],
        "rawData": json.dumps(_OURS["payload"]["values"]) + _OURS["payload"]["runbook"],
    }
).encode()  # fmt: skip


def installed() -> bool:
    return (PLACE / "bin" / "gunicorn").exists() and (PLACE / "complete").exists()


def install() -> None:
    """Make its environment, unless it is there. Raises Absent."""
    if installed():
        return
    venv.create(PLACE, with_pip=True, clear=True)
    pip = [str(PLACE / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run([*pip, *PACKAGES], capture_output=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Absent(f"Alerta was not installed within {INSTALL_S} s") from None
    if done.returncode:
        raise Absent("Alerta cannot be installed: pip failed")
    (PLACE / "complete").touch()


class Alerta:
    name = "Alerta"
    alone = ALONE

    def __init__(self, server: Child, database: Database) -> None:
        self._server = server
        self._database = database

    def urls(self, batch: int) -> Sequence[str]:
        return [f"{self._server.url}/alert"]

    def name_of(self, answer: bytes) -> str:
        return ""

    def processes(self) -> list[Process]:
        return self._server.processes() + self._database.backends()

    def begin(self) -> None:
        """Its alerts are told apart by the name of the run."""

    def settled(self, traffic: Traffic) -> bool:
        return True

    def told(self, traffic: Traffic, sent: Sent) -> Told:
        sent_of = Counter(name for request in sent.accepted for name in request.entities)
        with psycopg.connect(self._database.url) as talk:
            kept: dict[str, int] = dict(talk.execute(KEPT, (f"{traffic.run}-%",)).fetchall())
        # What was answered with an error, or not at all, may have been kept all the same.
        unsure = sum(sent.refused.values()) + sent.unknown
        wrong = [name for name, count in sent_of.items() if not count <= kept.get(name, 0) <= count + unsure]
        if wrong:
            raise Lost(
                [f"{len(wrong)} resources do not have the count that was accepted, such as {wrong[0]}"]
            )
        return Told()


@contextmanager
def started(server: str) -> Iterator[Alerta]:
    """Alerta, started. Raises Absent."""
    if not installed():
        raise Absent(f"not installed: run {Path(sys.executable).name} -m bench.peers")
    try:
        with own_database(server) as database, TemporaryDirectory(prefix="tocsin-bench-") as folder:
            settings = Path(folder) / "alertad.conf"
            settings.write_text("SECRET_KEY = 'of this run alone'\nLOG_HANDLERS = []\n")
            environment = {"DATABASE_URL": database.url, "ALERTA_SVR_CONF_FILE": str(settings)}
            _make_schema(environment, Path(folder))
            port = free_port()
            command = [
                str(PLACE / "bin" / "gunicorn"), "--workers", "2", "--threads", "4",
                "--bind", f"127.0.0.1:{port}", "--keep-alive", "60",
                "--log-level", "warning", "alerta:create_app()",
            ]  # fmt: skip
            with child("Alerta", command, port, Path(folder), environment) as running:
                yield Alerta(running, database)
    except NoServer as error:
        raise Absent(str(error)) from None


def _make_schema(environment: dict[str, str], folder: Path) -> None:
    """Once, before its workers race for it."""
    command = [str(PLACE / "bin" / "python"), "-c", "import alerta; alerta.create_app()"]
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, timeout=SCHEMA_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"Alerta made no schema within {SCHEMA_S} s") from None
    if done.returncode:
        raise Absent(f"Alerta made no schema: {done.stderr.decode(errors='replace').strip()[-200:]}")
