"""Run the path of an alert in this process, and list which of its statements scan a large table."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from werkzeug.test import Client

from bench.servers.plans import Statement, collect_statements, list_scans
from bench.traffic import Request
from models.domain.channels import USER_EMAIL_CHANNEL
from models.reports import backlog
from models.store.store import connection, db, store
from models.tables.services import Integration
from runtime.settings import load
from web.app import create_app
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.periodic import due_scan
from workers.timers import fire

SCANNED = re.compile(r"Seq Scan on (\w+)")


@dataclass(frozen=True, slots=True)
class StoppedInstance:
    """An instance whose processes have stopped: nobody else takes the alerts that are accepted here."""

    home: Path
    database_url: str
    smtp_port: int


def collect_of_alerts(stopped: StoppedInstance, requests: Iterable[Request]) -> list[Statement]:
    """Accept these alerts, process them, send their mails and fire due timers. Return all statements."""
    settings = load(
        {
            "TOCSIN_HOME": str(stopped.home),
            "TOCSIN_DATABASE_URL": stopped.database_url,
            "TOCSIN_SMTP_HOST": "127.0.0.1",
            "TOCSIN_SMTP_PORT": str(stopped.smtp_port),
        }
    )
    deliver.configure(settings)
    client = Client(create_app(settings))
    with connection(), collect_statements() as seen:
        for request in requests:
            head, _, body = request.raw.partition(b"\r\n\r\n")
            path = urlsplit(head.split()[1].decode()).path
            answer = client.post(path, data=body, content_type="application/json")
            if answer.status_code not in (200, 201):
                raise RuntimeError(f"{path} answered {answer.status_code}")
            process_lane.run(_find_service(path))
        deliver.send_due(USER_EMAIL_CHANNEL, store().now())
        fire.fire_due(store().now())
        due_scan.enqueue_due()
        due_scan.enqueue_stale()
        backlog.measure_backlog(store().now())
    return seen


def _find_service(path: str) -> int:
    row: int = Integration.get(Integration.integration_key == path.split("/")[-2]).service_id
    return row


def list_large_scans(seen: Iterable[Statement], rows: int) -> list[str]:
    """Return the plan lines with a sequential scan of a table of at least this number of rows."""
    with connection():
        return [
            found
            for found in list_scans(seen, whole_indexes=True)
            if (scanned := SCANNED.search(found)) and _count_rows(scanned.group(1)) >= rows
        ]


def _count_rows(table: str) -> int:
    """Return the number of rows that the planner expects."""
    row = db.execute_sql("SELECT reltuples FROM pg_class WHERE relname = %s", [table]).fetchone()
    return int(row[0]) if row else 0
