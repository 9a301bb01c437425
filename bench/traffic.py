"""Build the requests of a run: alerts of about 900 bytes, in the form that the operation accepts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit


class Way(StrEnum):
    """An operation that accepts alerts."""

    WEBHOOK = "generic webhook"
    # One alert in each request, by the integration key alone.
    EVENT = "event operation"
    # Groups of alerts.
    ALERTMANAGER = "Alertmanager webhook"


JSON = b"Content-Type: application/json\r\n"
# Placeholders in the bodies for the values of each alert; they occur nowhere else.
ENTITY = b"@entity@"

_GENERIC = {
    "message": f"Disk 93% full [{ENTITY.decode()}]",
    "summary": "/var/lib/postgresql has 12 GiB left of 180 GiB; at this rate it is full in 3 h 40 min. " * 2,
    "alert_type": "critical",
    "entity_id": ENTITY.decode(),
    "payload": {
        "host": "db1.example.org",
        "mountpoint": "/var/lib/postgresql",
        "labels": {"team": "payments", "env": "production", "region": "eu-central", "severity": "critical"},
        "values": {"used_bytes": 180388626432, "size_bytes": 193273528320, "inodes_free": 11534336},
        "runbook": "https://runbooks.example.org/disk-almost-full#grow-the-volume-or-remove-old-base-backups",
        "query": 'node_filesystem_avail_bytes{mountpoint="/var/lib/postgresql"} / node_filesystem_size_bytes',
    },
    "urls": [{"link_url": "https://grafana.example.org/d/disk?var-host=db1", "link_text": "Dashboard"}],
}

GENERIC = json.dumps(_GENERIC).encode()

_GROUPED = {
    "status": "firing",
    "labels": {
        "alertname": "DiskAlmostFull",
        "severity": "critical",
        "host": "db1.example.org",
        "mountpoint": "/var/lib/postgresql",
        "team": "payments",
        "env": "production",
        "disk": ENTITY.decode(),
    },
    "annotations": {
        "summary": f"Disk 93% full [{ENTITY.decode()}]",
        "description": _GENERIC["summary"],
        "runbook_url": "https://runbooks.example.org/disk",
    },
    "startsAt": "2026-03-04T11:58:00.000Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus.example.org/graph?g0.expr=node_filesystem_avail_bytes&g0.tab=1",
    "fingerprint": ENTITY.decode(),
}


@dataclass(frozen=True, slots=True)
class Request:
    """The bytes of a request; `entities` are those of its alerts, in order."""

    raw: bytes
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """A number of alerts about a number of entities, `batch` of them per request.

    `run` is part of every entity's name, so that runs on one instance do not share entities. `single_body` is
    the body of a single alert, with placeholders.
    """

    run: str
    alerts: int
    entities: int
    batch: int = 1
    single_body: bytes = GENERIC
    way: Way = Way.WEBHOOK

    def requests(self, *urls: str) -> Iterator[Request]:
        """Yield the requests. With several addresses, each entity uses only one.

        Groups then need a number of entities that is a multiple of `batch`.
        """
        if self.batch > 1 and self.way is not Way.ALERTMANAGER:
            raise ValueError(f"a request to the {self.way} has one alert, not {self.batch}")
        if len(urls) > 1 and self.entities % self.batch:
            raise ValueError(f"{self.entities} entities are not a multiple of groups of {self.batch}")
        heads = [_build_head(url) for url in urls]
        for first in range(0, self.alerts, self.batch):
            names = self._names(first, min(first + self.batch, self.alerts))
            head = heads[first % self.entities // self.batch % len(heads)]
            body = (
                _build_group(names)
                if self.way is Way.ALERTMANAGER
                else self.single_body.replace(ENTITY, names[0].encode())
            )
            yield Request(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body), names)

    def _names(self, first: int, end: int) -> tuple[str, ...]:
        return tuple(f"{self.run}-{number % self.entities}" for number in range(first, end))


def _build_head(url: str) -> bytes:
    url_parts = urlsplit(url)
    return f"POST {url_parts.path} HTTP/1.1\r\nHost: {url_parts.netloc}\r\n".encode() + JSON


_SINGLE_ALERT = json.dumps(_GROUPED).encode()
_ENVELOPE = {
    "version": "4",
    "groupKey": '{}:{alertname="DiskAlmostFull"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "tocsin",
    "groupLabels": {"alertname": "DiskAlmostFull"},
    "commonLabels": {"alertname": "DiskAlmostFull", "severity": "critical"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager.example.org",
}


def _build_group(names: tuple[str, ...]) -> bytes:
    alerts = b",".join(_SINGLE_ALERT.replace(ENTITY, name.encode()) for name in names)
    return json.dumps(_ENVELOPE).encode()[:-1] + b',"alerts":[' + alerts + b"]}"
