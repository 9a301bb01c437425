"""Alerta with gunicorn, on its own PostgreSQL database.

It sends no notifications. A request does all the work.
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

from bench.load import Sent
from bench.peers.child import ChildProcess, PeerUnavailable, child
from bench.run import AlertsLost, RunOutcome, RunSpec
from bench.servers.instance import find_free_port
from bench.servers.postgres import Database, ServerUnavailable, create_own_database
from bench.servers.processes import Process
from bench.traffic import ENTITY, GENERIC, Traffic

# A separate virtual environment, in a folder that is not under version control.
INSTALL_DIR = Path(__file__).parents[2] / "build" / "peers" / "alerta"
PACKAGES = ("alerta-server==9.1.0", "gunicorn==27.0.1", "psycopg2-binary==2.9.13")
INSTALL_S = 240
SCHEMA_S = 30

COUNT_QUERY = """
select resource, sum(duplicate_count + 1)::int from alerts where resource like %s group by resource
"""

_GENERIC_BODY = json.loads(GENERIC)
SINGLE_BODY = json.dumps(
    {
        "resource": ENTITY.decode(),
        "event": "DiskAlmostFull",
        "environment": "Production",
        "severity": "critical",
        "service": ["payments"],
        "group": "Storage",
        "value": "93%",
        "text": _GENERIC_BODY["message"],
        "origin": "bench",
        "attributes": {
            "summary": _GENERIC_BODY["summary"],
            "query": _GENERIC_BODY["payload"]["query"],
            **_GENERIC_BODY["payload"]["labels"],
        },
        "tags": ["env=production", "region=eu-central", "mountpoint=/var/lib/postgresql"],
        "rawData": json.dumps(_GENERIC_BODY["payload"]["values"]) + _GENERIC_BODY["payload"]["runbook"],
    }
).encode()  # fmt: skip


def is_installed() -> bool:
    return (INSTALL_DIR / "bin" / "gunicorn").exists() and (INSTALL_DIR / "complete").exists()


def get_version() -> str:
    """Return the version that is installed; "" without one."""
    return PACKAGES[0].partition("==")[2] if is_installed() else ""


def install() -> None:
    """Create the virtual environment unless it exists. Raise PeerUnavailable."""
    if is_installed():
        return
    venv.create(INSTALL_DIR, with_pip=True, clear=True)
    pip = [
        str(INSTALL_DIR / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    try:
        done = subprocess.run([*pip, *PACKAGES], capture_output=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"Alerta was not installed within {INSTALL_S} s") from None
    if done.returncode:
        raise PeerUnavailable("Alerta cannot be installed: pip failed")
    (INSTALL_DIR / "complete").touch()


class Alerta:
    name = "Alerta"
    single_body = SINGLE_BODY

    def __init__(self, server: ChildProcess, database: Database) -> None:
        self._server = server
        self._database = database

    def urls(self, spec: RunSpec) -> Sequence[str]:
        return [f"{self._server.url}/alert"]

    def get_alert_id(self, answer: bytes) -> str:
        return ""

    def processes(self) -> list[Process]:
        return self._server.processes() + self._database.backends()

    def start_run(self) -> None:
        """Begin a run. Its alerts are identified by the name of the run."""

    def is_done(self, traffic: Traffic) -> bool:
        return True

    def reconcile(self, traffic: Traffic, sent: Sent) -> RunOutcome:
        sent_counts = Counter(name for request in sent.accepted for name in request.entities)
        with psycopg.connect(self._database.url) as database_connection:
            stored: dict[str, int] = dict(
                database_connection.execute(COUNT_QUERY, (f"{traffic.run}-%",)).fetchall()
            )
        # Alerts with an error or without an answer may have been stored too.
        uncertain = sum(sent.refused.values()) + sent.unknown
        faulty = [
            name
            for name, count in sent_counts.items()
            if not count <= stored.get(name, 0) <= count + uncertain
        ]
        if faulty:
            raise AlertsLost(
                [f"{len(faulty)} resources do not have the count that was accepted, such as {faulty[0]}"]
            )
        return RunOutcome()


@contextmanager
def start(server: str) -> Iterator[Alerta]:
    """Start Alerta. Raise PeerUnavailable."""
    if not is_installed():
        raise PeerUnavailable(f"not installed: run {Path(sys.executable).name} -m bench.peers")
    try:
        with create_own_database(server) as database, TemporaryDirectory(prefix="tocsin-bench-") as folder:
            settings = Path(folder) / "alertad.conf"
            settings.write_text("SECRET_KEY = 'of this run alone'\nLOG_HANDLERS = []\n")
            environment = {"DATABASE_URL": database.url, "ALERTA_SVR_CONF_FILE": str(settings)}
            _make_schema(environment, Path(folder))
            port = find_free_port()
            command = [
                str(INSTALL_DIR / "bin" / "gunicorn"), "--workers", "2", "--threads", "4",
                "--bind", f"127.0.0.1:{port}", "--keep-alive", "60",
                "--log-level", "warning", "alerta:create_app()",
            ]  # fmt: skip
            with child("Alerta", command, port, Path(folder), environment) as running:
                yield Alerta(running, database)
    except ServerUnavailable as error:
        raise PeerUnavailable(str(error)) from None


def _make_schema(environment: dict[str, str], folder: Path) -> None:
    """Create the schema once, before the workers do it concurrently."""
    command = [str(INSTALL_DIR / "bin" / "python"), "-c", "import alerta; alerta.create_app()"]
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, timeout=SCHEMA_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"Alerta created no schema within {SCHEMA_S} s") from None
    if done.returncode:
        raise PeerUnavailable(
            f"Alerta created no schema: {done.stderr.decode(errors='replace').strip()[-200:]}"
        )
