"""/metrics shows the processes of its host, on the port of web and on a port without web."""

import http.client
import os
import signal
import socket
from collections import Counter

import peewee
import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.reports import metrics_page
from models.reports.metrics_page import MetricsPage
from models.store.store import db
from tests.support import stores
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, is_running, start_tocsin
from tocsin.server import metrics_server


def test_one_scrape_has_the_metrics_of_all_processes_of_the_host(world, home, store):
    key = world.integration.integration_key
    db.close_all()
    with start_tocsin(home, "up") as tocsin:
        wait_until(tocsin.is_ready)
        for number in range(3):
            post(tocsin.port, f"/api/events/{key}/", f'{{"message":"m{number}","alert_type":"critical"}}')
        post(tocsin.port, f"/api/events/{key}/", "[")
        minimum = {
            ("tocsin_alerts_accepted_total", ("source", "generic")): 3,
            ("tocsin_requests_refused_total", ("status", "400")): 1,
            ("tocsin_incidents_opened_total",): 3,
            ("tocsin_notifications_total", ("channel", "email"), ("outcome", "failed")): 3,
            ("tocsin_processes_up", ("kind", "web")): 1,
            ("tocsin_processes_up", ("kind", "worker")): 1,
            ("tocsin_processes_up", ("kind", "clock")): 1,
        }
        found = wait_until(lambda: is_at_least(read_metrics(tocsin.port), minimum))
        tocsin.signal(signal.SIGTERM)

    assert {name: found[name] for name in minimum} == minimum
    assert found["tocsin_accept_to_done_seconds_count",] >= 1
    assert found["tocsin_batch_alerts_sum",] == 3
    assert found["tocsin_alerts_processed_total", ("outcome", "ended"), ("stage", "notify")] == 3


def test_a_worker_shows_the_metrics_of_its_host_on_a_port_of_its_own(world, home, store):
    db.close_all()
    port = find_free_port()
    with (
        start_tocsin(home, "worker", TOCSIN_METRICS_PORT=str(port)) as worker,
        start_tocsin(home, "clock", TOCSIN_METRICS_PORT=str(port)),
    ):
        both = {("tocsin_process_starts_total", ("kind", kind)): 1 for kind in ("worker", "clock")}
        both |= {("tocsin_processes_up", ("kind", kind)): 1 for kind in ("worker", "clock")}
        wait_until(lambda: listens(port) and is_at_least(read_metrics(port), both))
        wait_until(lambda: '"working"' in worker.log)
        worker.signal(signal.SIGTERM)
        wait_until(lambda: read_metrics(port)["tocsin_processes_up", ("kind", "worker")] == 0)
        found = read_metrics(port)

    assert found["tocsin_process_starts_total", ("kind", "worker")] == 1


def test_a_process_runs_without_a_port_that_another_program_uses(world, home, store):
    db.close_all()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with start_tocsin(home, "web", TOCSIN_METRICS_PORT=str(port)) as tocsin:
            wait_until(tocsin.is_ready)

            assert "cannot listen on TOCSIN_METRICS_PORT" in tocsin.log


@pytest.mark.parametrize(
    ("path", "error", "status"),
    [
        pytest.param("/metrics", None, 200, id="metrics"),
        pytest.param("/metrics", peewee.OperationalError("down"), 503, id="without the database"),
        pytest.param("/", None, 404, id="another path"),
    ],
)
def test_a_scrape_gets_a_status(store, monkeypatch, path, error, status):
    monkeypatch.setattr(metrics_server, "page", MetricsPage())
    monkeypatch.setattr(metrics_page, "render", lambda: fail_with(error))

    assert metrics_server._get_answer(path)[0] == status


def fail_with(error):
    if error is not None:
        raise error
    return b"text"


@pytest.mark.skipif(not stores.SERVER, reason="two data folders need PostgreSQL")
def test_the_sum_over_two_hosts_is_what_the_sender_sent(world, home, store, tmp_path):
    """Each host has a data folder of its own, and they share a PostgreSQL database."""
    key = world.integration.integration_key
    database = stores.get_url(home)
    db.close_all()
    ledger = Counter()
    with (
        start_tocsin(home, "up") as first,
        start_tocsin(tmp_path / "second", "up", TOCSIN_DATABASE_URL=database) as second,
    ):
        hosts = (first, second)
        wait_until(lambda: all(host.is_ready() for host in hosts))
        for part in range(2):
            for number in range(30):
                body = f'{{"message":"m{part}{number}"}}' if number % 10 else "["
                ledger[post(hosts[number % 2].port, f"/api/events/{key}/", body)[0]] += 1
            restart_web(hosts)
        expected = {
            ("tocsin_alerts_accepted_total", ("source", "generic")): ledger[201],
            ("tocsin_requests_refused_total", ("status", "400")): ledger[400],
            ("tocsin_batch_alerts_sum",): ledger[201],
            ("tocsin_process_starts_total", ("kind", "web")): 6,
        }
        total = wait_until(lambda: is_at_least(add_hosts(hosts), expected))
        gauges = [read_metrics(host.port)["tocsin_processes_up", ("kind", "web")] for host in hosts]

    assert ledger == {201: 54, 400: 6}
    assert {name: total[name] for name in expected} == expected
    assert max(gauges) == 2


def restart_web(hosts):
    before = [host.list_children()["web"] for host in hosts]
    for pid in before:
        os.kill(pid, signal.SIGTERM)
    wait_until(
        lambda: not any(is_running(pid) for pid in before) and all(host.is_ready() for host in hosts), 30
    )


def add_hosts(hosts):
    total = Counter()
    for host in hosts:
        total.update(read_metrics(host.port))
    return total


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def is_at_least(found, minimum):
    return found if all(found.get(name, -1) >= value for name, value in minimum.items()) else None


def read_metrics(port):
    status, text = get(port, "/metrics")
    assert status == 200
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def get(port, path):
    return ask(port, "GET", path)


def post(port, path, body):
    return ask(port, "POST", path, body)


def ask(port, method, path, body=None):
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        asked.request(method, path, body, {"Content-Type": "application/json"})
        answer = asked.getresponse()
        return answer.status, answer.read().decode()
    finally:
        asked.close()
