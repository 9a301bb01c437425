"""The counters of a process are written to the store, even after errors."""

import http.client
import signal

import peewee
import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.reports import backlog, save_metrics
from models.reports.save_metrics import MetricsKeeper, save
from models.store.base import STORE_ERRORS, db
from models.tables.accounts import Liveness
from models.tables.samples import Sample
from runtime import metrics
from runtime.metrics import Counters
from tests.support.polling import wait_until
from tests.support.processes import start_tocsin

ACCEPTED = ("tocsin_alerts_accepted_total", '{"source": "generic"}')


@pytest.fixture
def counts():
    return Counters()


def count_accepted(counts, number):
    counts.add("tocsin_alerts_accepted_total", number, source="generic")


def test_an_error_of_the_store_loses_no_counts(store, counts, monkeypatch):
    count_accepted(counts, 2)
    with monkeypatch.context() as patched:
        patched.setattr(backlog, "add", fail)
        with pytest.raises(STORE_ERRORS):
            save(counts)
    count_accepted(counts, 3)
    save(counts)

    assert backlog.load_totals()[ACCEPTED] == 5


def fail(_):
    raise peewee.OperationalError("disk I/O error")


def test_unchanged_counters_need_no_statement(store, counts, statements):
    count_accepted(counts, 1)
    save(counts)
    with statements() as seen:
        save(counts)

    assert seen == []


def test_all_changed_counters_are_one_statement(store, counts, statements):
    count_accepted(counts, 1)
    counts.observe("tocsin_batch_alerts", 7)
    with statements() as seen:
        save(counts)

    inserts = [statement for statement, _ in seen if "INSERT" in statement]
    assert len(inserts) == 1
    assert Sample.select().count() > 10


def test_a_process_records_its_liveness_and_its_counters_survive_its_end(store, counts, monkeypatch):
    monkeypatch.setattr(save_metrics, "FLUSH_EVERY_S", 60.0)
    keeper = MetricsKeeper("worker", counts)
    keeper.start()
    wait_until(lambda: [life.kind for life in backlog.list_live(store.now())] == ["worker"])
    count_accepted(counts, 4)
    keeper.stop()

    assert backlog.load_totals()[ACCEPTED] == 4
    assert backlog.load_totals()["tocsin_process_starts_total", '{"kind": "worker"}'] == 1
    assert backlog.list_live(store.now()) == []


def test_the_liveness_of_a_process_killed_long_ago_is_deleted(store):
    now = store.now()
    with store.write_transaction():
        Liveness.create(process="clock", at=now - 2 * backlog.FORGET_AFTER)
        backlog.record_liveness(
            backlog.ProcessLiveness("worker", "worker:a", now), now - 2 * backlog.FORGET_AFTER
        )
        backlog.record_liveness(backlog.ProcessLiveness("worker", "worker:b", now), now)

    assert {row.process for row in Liveness.select()} == {"clock", "worker:b"}


def test_every_metric_name_fits_into_its_column():
    assert all(len(f"{one.name}_bucket") <= 80 for one in metrics.METRICS)
    assert len({one.name for one in metrics.METRICS}) == len(metrics.METRICS)


@pytest.mark.timeout(120)
def test_one_scrape_has_the_metrics_of_all_processes(world, home, store):
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
        found = wait_until(lambda: is_at_least(read_metrics(tocsin.port), minimum), 30)
        tocsin.signal(signal.SIGTERM)

    assert {name: found[name] for name in minimum} == minimum
    assert found["tocsin_accept_to_done_seconds_count",] >= 1
    assert found["tocsin_batch_alerts_sum",] == 3
    assert found["tocsin_alerts_processed_total", ("outcome", "ended"), ("stage", "notify")] == 3


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
