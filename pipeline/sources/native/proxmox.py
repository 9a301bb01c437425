"""Notifications of Proxmox VE and Proxmox Backup Server, by a webhook target with the body of our page.

pve.proxmox.com and pbs.proxmox.com, "Notifications". The type, the host and the job name the problem. A job
that succeeded has the severity info: it ends what its failure began.
"""

import re

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, join_entity, read_level

KIND = "proxmox"

# Error is the highest severity of Proxmox. `unknown` is that of mails of the system, as of smartd.
SEVERITIES = {
    "error": AlertType.CRITICAL,
    "unknown": AlertType.ERROR,
    "warning": AlertType.WARNING,
    "notice": AlertType.INFO,
    "info": AlertType.INFO,
}
# The types of jobs: each run reports how it ended.
JOBS = frozenset({"vzdump", "replication", "gc", "prune", "sync", "verify", "verification", "tape-backup"})
SUCCEEDED = "info"
# What differs between two notifications of one problem, if it has no job.
_CHANGING = re.compile(r"\d+")


def _is_known(data: Fields) -> bool:
    return data.has("title") and data.has("severity", "fields", "type")


def _read(data: Fields) -> list[ParsedAlert]:
    kind, host = data.text("fields.type", "type"), data.text("fields.hostname", "hostname", "host")
    title = data.text("title")
    return [
        build_alert(
            data.value,
            _read_level(data, kind),
            message=title if not host or host in title else f"{host}: {title}",
            summary=data.text("message"),
            entity=_name_entity(data, kind, host, title),
            at=data.get("timestamp"),
        )
    ]


def _read_level(data: Fields, kind: str) -> Level:
    severity = data.text("severity").lower()
    if kind in JOBS and severity == SUCCEEDED:
        return Level(AlertType.RESOLVED)
    return read_level(severity, SEVERITIES)


def _name_entity(data: Fields, kind: str, host: str, title: str) -> str:
    job = data.text("fields.job-id", "job-id")
    store = data.text("fields.datastore", "datastore", "fields.media-pool")
    if kind in JOBS:
        return join_entity(kind, host, job, store)
    return join_entity(kind, host, _CHANGING.sub("#", title[:1_000]))


parse = as_parser(KIND, _is_known, _read)
