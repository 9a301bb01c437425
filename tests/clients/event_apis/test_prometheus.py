"""A real Prometheus from Debian pushes alerts to Tocsin, without an Alertmanager."""

import shutil
import urllib.request

import pytest

from tests.clients.event_apis.conftest import ENDED
from tests.support.requirements import skip_or_fail

CONFIGURATION = """
global:
  evaluation_interval: 200ms
rule_files: [rules.yml]
alerting:
  alertmanagers:
    - path_prefix: {prefix}
      {authorization}
      static_configs:
        - targets: ["{address}"]
"""
RULES = """
groups:
  - name: test
    rules:
      - alert: DiskFull
        expr: {expression}
        labels: {{severity: critical, instance: db1}}
        annotations: {{summary: Disk full on db1}}
"""
FIRES, ENDS = "vector(1)", "vector(1) > 1"
PLACES = {
    "prefix": ("/integration/alertmanager/{key}", "scheme: http"),
    "bearer": ("/", "authorization: {{credentials: {key}}}"),
    "basic": ("/", "basic_auth: {{username: prometheus, password: {key}}}"),
}


@pytest.fixture
def start_prometheus(start_server, tmp_path):
    """start_prometheus(receiver, place): start a server with a rule that fires; return its URL."""
    binary = shutil.which("prometheus")
    if binary is None:
        skip_or_fail("prometheus is not installed")

    def write_rule(expression):
        (tmp_path / "rules.yml").write_text(RULES.format(expression=expression))

    def start(receiver, place):
        prefix, authorization = (text.format(key=receiver.key) for text in PLACES[place])
        address = receiver.url.removeprefix("http://")
        (tmp_path / "prometheus.yml").write_text(
            CONFIGURATION.format(prefix=prefix, authorization=authorization, address=address)
        )
        write_rule(FIRES)
        return start_server(
            [
                binary,
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--web.listen-address=127.0.0.1:{port}",
                "--web.enable-lifecycle",
                "--rules.alert.resend-delay=500ms",
            ]
        )

    start.write_rule = write_rule
    return start


def reload(url):
    with urllib.request.urlopen(urllib.request.Request(f"{url}/-/reload", method="POST"), timeout=30):
        pass


@pytest.mark.parametrize("place", PLACES)
def test_a_rule_opens_an_incident_and_resolves_it(
    instance, create_receiver, start_prometheus, explain, place
):
    receiver = create_receiver("alertmanager")
    url = start_prometheus(receiver, place)
    receiver.wait_for(("Disk full on db1", 1))

    start_prometheus.write_rule(ENDS)
    reload(url)
    receiver.wait_for(("Disk full on db1", 3))
    assert ENDED in explain(receiver)
    assert receiver.key not in instance.log
