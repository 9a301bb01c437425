"""Prometheus' Alertmanager, told by webhook: one group for each entity, so one webhook for each."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench.instance import free_port
from bench.load import Sent
from bench.peers.child import Absent, Child, child
from bench.peers.webhooks import WebhookSink
from bench.processes import Process
from bench.run import Lost, Told
from bench.traffic import ENTITY, GENERIC, Traffic

# Debian's name, and its own.
PROGRAMS = ("prometheus-alertmanager", "alertmanager")

CONFIGURATION = """
route:
  {{receiver: sink, group_by: [alertname, disk], group_wait: 1s, group_interval: 5m, repeat_interval: 4h}}
receivers:
  [{{name: sink, webhook_configs: [{{url: "http://127.0.0.1:{port}/", send_resolved: false}}]}}]
"""

_OURS = json.loads(GENERIC)
ALONE = json.dumps(
    [
        {
            "labels": {
                "alertname": "DiskAlmostFull",
                "disk": ENTITY.decode(),
                "host": "db1.example.org",
                "mountpoint": "/var/lib/postgresql",
                **_OURS["payload"]["labels"],
            },
            "annotations": {
                "summary": _OURS["message"],
                "description": _OURS["summary"],
                "runbook_url": _OURS["payload"]["runbook"],
                "query": _OURS["payload"]["query"],
                "values": json.dumps(_OURS["payload"]["values"]),
            },
            "generatorURL": "http://prometheus.example.org/graph?g0.expr=node_filesystem_avail_bytes&g0.tab=1",
        }
    ]
).encode()


def program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Alertmanager:
    name = "Alertmanager"
    alone = ALONE

    def __init__(self, server: Child, sink: WebhookSink) -> None:
        self._server = server
        self._sink = sink
        self._before = 0

    def urls(self, batch: int) -> Sequence[str]:
        return [f"{self._server.url}/api/v2/alerts"]

    def name_of(self, answer: bytes) -> str:
        return ""

    def processes(self) -> list[Process]:
        return self._server.processes()

    def begin(self) -> None:
        self._before = self._sink.count()

    def settled(self, traffic: Traffic) -> bool:
        return self._sink.count() - self._before >= traffic.entities

    def told(self, traffic: Traffic, sent: Sent) -> Told:
        first: dict[str, float] = {}
        for request in sent.accepted:
            first.setdefault(request.entities[0], request.at)
        told = [(name, at) for name, at in self._sink.arrivals() if name.startswith(f"{traffic.run}-")]
        times = Counter(name for name, _ in told)
        wrong = [name for name in first if times[name] != 1]
        if wrong:
            raise Lost([f"{len(wrong)} entities were not told of by one webhook, such as {wrong[0]}"])
        with urlopen(f"{self._server.url}/api/v2/alerts") as answer:
            kept = Counter(alert["labels"]["disk"] for alert in json.load(answer))
        wrong = [name for name in first if kept[name] != 1]
        if wrong:
            raise Lost([f"{len(wrong)} entities are not kept as one alert, such as {wrong[0]}"])
        waits = [max(at - first[name], 0.0) * 1000 for name, at in told]
        return Told(len(told), len(told), waits)


@contextmanager
def started(server: str) -> Iterator[Alertmanager]:
    """Alertmanager, started. Raises Absent."""
    found = program()
    if found is None:
        raise Absent("not installed: Debian's package is prometheus-alertmanager")
    with TemporaryDirectory(prefix="tocsin-bench-") as folder, WebhookSink() as sink:
        settings = Path(folder) / "alertmanager.yml"
        settings.write_text(CONFIGURATION.format(port=sink.port))
        port = free_port()
        command = [
            found, f"--config.file={settings}", f"--storage.path={folder}/data", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        with child("Alertmanager", command, port, Path(folder)) as running:
            yield Alertmanager(running, sink)
