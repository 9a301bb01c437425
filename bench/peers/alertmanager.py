"""Prometheus Alertmanager with a webhook: one group per entity, and so one webhook per entity."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench.load import Sent
from bench.peers.child import ChildProcess, PeerUnavailable, child
from bench.peers.webhooks import WebhookSink
from bench.run import AlertsLost, RunOutcome, RunSpec
from bench.servers.instance import find_free_port
from bench.servers.processes import Process
from bench.traffic import ENTITY, GENERIC, Traffic

# The name in Debian, and the original name.
PROGRAMS = ("prometheus-alertmanager", "alertmanager")
VERSION = re.compile(r"version ([\w.]+)")

CONFIGURATION = """
route:
  {{receiver: sink, group_by: [alertname, disk], group_wait: 1s, group_interval: 5m, repeat_interval: 4h}}
receivers:
  [{{name: sink, webhook_configs: [{{url: "http://127.0.0.1:{port}/", send_resolved: false}}]}}]
"""

_GENERIC_BODY = json.loads(GENERIC)
SINGLE_BODY = json.dumps(
    [
        {
            "labels": {
                "alertname": "DiskAlmostFull",
                "disk": ENTITY.decode(),
                "host": "db1.example.org",
                "mountpoint": "/var/lib/postgresql",
                **_GENERIC_BODY["payload"]["labels"],
            },
            "annotations": {
                "summary": _GENERIC_BODY["message"],
                "description": _GENERIC_BODY["summary"],
                "runbook_url": _GENERIC_BODY["payload"]["runbook"],
                "query": _GENERIC_BODY["payload"]["query"],
                "values": json.dumps(_GENERIC_BODY["payload"]["values"]),
            },
            "generatorURL": "http://prometheus.example.org/graph?g0.expr=node_filesystem_avail_bytes&g0.tab=1",
        }
    ]
).encode()


def find_program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def get_version() -> str:
    """Return the version that is installed; "" without one."""
    program = find_program()
    if program is None:
        return ""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return next(iter(VERSION.findall(done.stdout + done.stderr)), "")


class Alertmanager:
    name = "Alertmanager"
    single_body = SINGLE_BODY

    def __init__(self, server: ChildProcess, sink: WebhookSink) -> None:
        self._server = server
        self._sink = sink
        self._count_before = 0

    def urls(self, spec: RunSpec) -> Sequence[str]:
        return [f"{self._server.url}/api/v2/alerts"]

    def get_alert_id(self, answer: bytes) -> str:
        return ""

    def processes(self) -> list[Process]:
        return self._server.processes()

    def start_run(self) -> None:
        self._count_before = self._sink.count()

    def is_done(self, traffic: Traffic) -> bool:
        return self._sink.count() - self._count_before >= traffic.entities

    def reconcile(self, traffic: Traffic, sent: Sent) -> RunOutcome:
        first: dict[str, float] = {}
        for request in sent.accepted:
            first.setdefault(request.entities[0], request.at)
        webhooks = [(name, at) for name, at in self._sink.arrivals() if name.startswith(f"{traffic.run}-")]
        times = Counter(name for name, _ in webhooks)
        faulty = [name for name in first if times[name] != 1]
        if faulty:
            raise AlertsLost([f"{len(faulty)} entities were not in exactly one webhook, such as {faulty[0]}"])
        with urlopen(f"{self._server.url}/api/v2/alerts") as answer:
            stored = Counter(alert["labels"]["disk"] for alert in json.load(answer))
        faulty = [name for name in first if stored[name] != 1]
        if faulty:
            raise AlertsLost([f"{len(faulty)} entities are not stored as one alert, such as {faulty[0]}"])
        latencies = [max(at - first[name], 0.0) * 1000 for name, at in webhooks]
        return RunOutcome(len(webhooks), len(webhooks), latencies)


@contextmanager
def start(server: str) -> Iterator[Alertmanager]:
    """Start Alertmanager. Raise PeerUnavailable."""
    found = find_program()
    if found is None:
        raise PeerUnavailable("not installed: Debian's package is prometheus-alertmanager")
    with TemporaryDirectory(prefix="tocsin-bench-") as folder, WebhookSink() as sink:
        settings = Path(folder) / "alertmanager.yml"
        settings.write_text(CONFIGURATION.format(port=sink.port))
        port = find_free_port()
        command = [
            found, f"--config.file={settings}", f"--storage.path={folder}/data", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        with child("Alertmanager", command, port, Path(folder)) as running:
            yield Alertmanager(running, sink)
