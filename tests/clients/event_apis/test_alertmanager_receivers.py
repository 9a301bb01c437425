"""The receivers of Alertmanager for other services send to Tocsin: only their URL and key are changed.

The receiver for PagerDuty keeps its key if its URL is the webhook URL of the integration.
"""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.event_apis.conftest import ENDED, ask
from tests.support.requirements import skip_or_fail

CONFIGURATION = """
route:
  receiver: tocsin
  group_by: [alertname, instance]
  group_wait: 100ms
  group_interval: 200ms
  repeat_interval: 1h
receivers:
  - name: tocsin
"""
RECEIVERS = {
    "pagerduty": """
    pagerduty_configs:
      - routing_key: {key}
        url: {url}/v2/enqueue
""",
    "pagerduty by one line": """
    pagerduty_configs:
      - routing_key: R0123456789ABCDEF0123456789ABCDE
        url: {webhook_url}
""",
    "opsgenie": """
    opsgenie_configs:
      - api_key: {key}
        api_url: {url}/
        update_alerts: true
        note: Sent by Alertmanager
""",
    "victorops": """
    victorops_configs:
      - api_key: {key}
        api_url: {url}/integrations/generic/20131114/alert/
        routing_key: database
""",
}


@pytest.fixture
def start_alertmanager(start_server, tmp_path):
    """start_alertmanager(receiver): start a server with this receiver; return its URL."""
    binary = shutil.which("prometheus-alertmanager")
    if binary is None:
        skip_or_fail("prometheus-alertmanager is not installed")

    def start(receiver):
        (tmp_path / "alertmanager.yml").write_text(CONFIGURATION + receiver)
        return start_server(
            [
                binary,
                "--config.file=alertmanager.yml",
                "--storage.path=data",
                "--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ]
        )

    return start


def build_alert(ends=None):
    now = datetime.now(UTC)
    alert = {
        "labels": {"alertname": "DiskFull", "instance": "db1", "severity": "critical"},
        "annotations": {"summary": "Disk full on db1"},
        "startsAt": (now - timedelta(minutes=1)).isoformat(),
    }
    return {**alert, "endsAt": ends.isoformat()} if ends else alert


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_receiver_opens_an_incident_and_resolves_it(create_receiver, start_alertmanager, explain, name):
    receiver = create_receiver(name.partition(" ")[0])
    configuration = RECEIVERS[name].format(
        key=receiver.key, url=receiver.url, webhook_url=receiver.webhook_url
    )
    alertmanager = f"{start_alertmanager(configuration)}/api/v2/alerts"

    ask("POST", alertmanager, [build_alert()])
    ((title, status),) = receiver.await_incidents(1)
    assert "DiskFull" in title
    assert status == 1

    ask("POST", alertmanager, [build_alert(datetime.now(UTC) - timedelta(seconds=1))])
    receiver.wait_for((title, 3))
    assert ENDED in explain(receiver)
