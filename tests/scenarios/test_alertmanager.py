"""A real Alertmanager from Debian sends alerts to the webhook of a running Tocsin."""

import contextlib
import json
import shutil
import subprocess
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.mail_server import start_mailbox
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_tocsin
from tests.support.requirements import skip_or_fail

CONFIGURATION = """
route:
  receiver: tocsin
  group_by: [alertname]
  group_wait: 100ms
  group_interval: 200ms
  repeat_interval: 1h
receivers:
  - name: tocsin
    webhook_configs:
      - url: {url}
"""


@pytest.fixture
def alertmanager(tmp_path):
    """alertmanager(url): start a server that sends to this webhook; return post(alerts)."""
    binary = shutil.which("prometheus-alertmanager")
    if binary is None:
        skip_or_fail("prometheus-alertmanager is not installed")
    with contextlib.ExitStack() as stack:

        def start(url):
            file = tmp_path / "alertmanager.yml"
            file.write_text(CONFIGURATION.format(url=url))
            port = find_free_port()
            process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={file}",
                    f"--storage.path={tmp_path / 'alertmanager'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--cluster.listen-address=",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            wait_until(lambda: is_answering(f"http://127.0.0.1:{port}/-/ready"))
            return lambda alerts: ask("POST", f"http://127.0.0.1:{port}/api/v2/alerts", alerts)

        yield start


def ask(method, url, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(
        urllib.request.Request(url, data, headers, method=method), timeout=30
    ) as answer:
        return json.loads(answer.read() or b"null")


def is_answering(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def box():
    with start_mailbox() as box:
        yield box


@pytest.fixture
def tocsin(home, box):
    """Start an instance that sends mail to the mailbox; its credentials are an attribute."""
    mail = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
    with start_tocsin(home, "up", TOCSIN_OWNER_EMAIL="alice@example.org", **mail) as up:
        wait_until(up.is_ready)
        up.credentials = json.loads((home / "credentials.json").read_text())
        yield up


def alert(name, instance, ends=None):
    now = datetime.now(UTC)
    body = {
        "labels": {"alertname": name, "instance": instance, "severity": "critical"},
        "annotations": {"summary": f"{name} on {instance}", "description": "97% of /var is used"},
        # Alertmanager sends a group at once if one of its alerts is older than group_wait.
        "startsAt": min(now, ends or now).isoformat(),
        "generatorURL": "http://prometheus.example:9090/graph",
    }
    return {**body, "endsAt": ends.isoformat()} if ends else body


@pytest.mark.parametrize("form", [0, 1], ids=["api/integration", "integration/account"])
def test_a_firing_opens_incidents_and_one_mail_and_a_resolve_resolves_them(tocsin, box, alertmanager, form):
    found = tocsin.credentials
    post = alertmanager(found["webhook_urls"]["prometheus"][form])

    def incidents(status):
        url = f"{found['base_url']}/api/incidents/filter/"
        return ask("POST", url, {"status": status}, found["token"])["results"]

    post([alert("DiskFull", "db1"), alert("DiskFull", "db2")])
    opened = wait_until(lambda: len(incidents(1)) == 2 and incidents(1))
    ((recipient, mail),) = box.wait_for(1)

    assert {incident["title"] for incident in opened} == {"DiskFull on db1", "DiskFull on db2"}
    assert recipient == "alice@example.org"
    text = mail.get_content()
    assert "DiskFull on db1" in text
    assert "DiskFull on db2" in text

    ended = datetime.now(UTC) - timedelta(seconds=1)
    post([alert("DiskFull", "db1", ended), alert("DiskFull", "db2", ended)])

    wait_until(lambda: len(incidents(3)) == 2)
    assert incidents(-1) == []
    recovery = box.wait_for(2)[1][1]
    assert "2 incidents are resolved: " in str(recovery["Subject"])
