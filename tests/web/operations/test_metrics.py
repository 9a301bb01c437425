"""/metrics: the counters and the pending work, as Prometheus reads them."""

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.domain.enums import WorkState
from models.reports import backlog, metrics_page
from models.reports.backlog import ProcessLiveness
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.timers import Timer
from runtime import metrics as tocsin_metrics
from runtime.metrics import METRICS, Counters
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_alert, add_dead_letter_body
from tests.support.scenarios.timers import open_incident, set_policy
from web.operations import metrics


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setattr(metrics_page, "CACHE_S", 0.0)


@pytest.fixture
def scraped(ask, page, monkeypatch):
    """scraped(): the samples of one scrape by name and labels. Nothing was counted before the test."""
    monkeypatch.setattr(tocsin_metrics, "counters", Counters())

    def scrape():
        answer = ask("GET", "/metrics", who=None)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        scrape_result = list(text_string_to_metric_families(answer.text))
        assert all(family.type != "unknown" and family.documentation for family in scrape_result)
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in scrape_result
            for sample in family.samples
        }

    return scrape


def test_every_metric_of_the_table_is_described(ask, page):
    text = ask("GET", "/metrics", who=None).text

    assert [one.name for one in METRICS if f"# HELP {one.name} {one.meaning}\n" not in text] == []


def test_pending_alerts_are_counted_by_place(scraped, world, now, store):
    for _ in range(3):
        accept(world, now, message="m", alert_type="critical")
    dead_letter = add_dead_letter_alert(world, now)
    add_dead_letter_body(world, now)
    Event.update(state=WorkState.PENDING, stage="rules").where(Event.id == dead_letter.id).execute()
    Receipt.update(received_at=store.now() - timedelta(minutes=5)).execute()
    Event.update(creation_date=store.now() - timedelta(minutes=3)).execute()
    found = scraped()

    assert found["tocsin_alerts_pending", ("at", "received")] == 3
    assert found["tocsin_alerts_pending", ("at", "pipeline")] == 1
    assert found["tocsin_lanes_pending",] == 1
    assert 300 <= found["tocsin_oldest_pending_seconds",] < 330
    assert found["tocsin_dead_letters",] == 1


def test_a_replayed_alert_is_pending_since_its_replay(scraped, world, now, store):
    receipt = accept(world, now, message="m", alert_type="critical")
    Receipt.update(replayed_at=store.now()).where(Receipt.id == receipt.id).execute()

    assert scraped()["tocsin_oldest_pending_seconds",] < 30


def test_due_work_is_counted_with_the_delay_of_the_oldest(scraped, world, now, store):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    late = store.now() - timedelta(minutes=2)
    Timer.update(due_at=late).where(Timer.done_at.is_null()).execute()
    Message.update(next_attempt_at=late).execute()
    found = scraped()

    assert found["tocsin_timers_overdue",] == 1
    assert 120 <= found["tocsin_timers_overdue_oldest_seconds",] < 150
    assert found["tocsin_messages_pending", ("channel", "email")] == 1
    assert 120 <= found["tocsin_messages_oldest_seconds", ("channel", "email")] < 150


def test_gauges_are_zero_without_pending_work(scraped):
    found = scraped()

    assert found["tocsin_alerts_pending", ("at", "received")] == found["tocsin_oldest_pending_seconds",] == 0
    assert found["tocsin_incidents_opened_total",] == 0


def test_gauges_say_that_they_are_the_same_on_every_host(ask, page):
    text = ask("GET", "/metrics", who=None).text
    gauges = [line.split()[2] for line in text.splitlines() if line.endswith(" gauge")]
    helps = {line.split()[2]: line for line in text.splitlines() if line.startswith("# HELP")}

    assert len(gauges) == 13
    assert [name for name in gauges if not helps[name].endswith("The same on every host: use max.")] == []


def test_processes_count_while_their_liveness_is_recent(scraped, store):
    now = store.now()
    with store.write_transaction():
        backlog.record_liveness(ProcessLiveness("worker", "worker:a", now - timedelta(hours=1)), now)
        backlog.record_liveness(ProcessLiveness("worker", "worker:b", now - timedelta(minutes=1)), now)
        backlog.record_liveness(
            ProcessLiveness("clock", "clock:c", now - timedelta(hours=1)), now - timedelta(minutes=1)
        )
    found = scraped()

    assert [found["tocsin_processes_up", ("kind", kind)] for kind in ("web", "worker", "clock")] == [0, 2, 0]
    started = found["tocsin_process_start_time_seconds", ("kind", "worker")]
    assert started == pytest.approx(now.timestamp() - 60)


def test_requests_with_alerts_that_are_refused_are_counted(ask, world, monkeypatch):
    refused = []
    monkeypatch.setattr(metrics, "count_refused", refused.append)
    key = world.integration.integration_key
    ask("POST", f"/api/events/{key}/", {"message": ""}, who=None)
    ask("POST", f"/api/events/{world.team.unique_id}/", {"message": "m"}, who=None)
    ask("POST", f"/api/events/{key}/", {"message": "m"}, who=None)
    ask("GET", "/api/account/teams/", who=None)

    assert refused == [400, 404]


def test_metrics_name_no_account(ask, page, world, now):
    accept(world, now, message="secret", alert_type="critical", entity_id="secret")
    text = ask("GET", "/metrics", who=None).text

    for word in ("secret", world.account.name, world.account.account_identifier, "Checkout", "Payments"):
        assert word not in text


def test_a_page_is_cached_for_a_second(ask, monkeypatch):
    monkeypatch.setattr(metrics_page, "page", metrics_page.MetricsPage())
    made = []
    monkeypatch.setattr(metrics_page, "render", lambda: made.append(1) or b"")
    for _ in range(3):
        ask("GET", "/metrics", who=None)

    assert len(made) == 1


def test_the_number_of_statements_is_constant(ask, page, world, now, statements):
    def cost(number):
        for _ in range(number):
            accept(world, now, message="m", alert_type="critical")
            add_dead_letter_body(world, now)
        with statements() as seen:
            metrics_page.render()
        return len(seen)

    assert cost(1) == cost(20)
    assert Incident.select().count() == 0


def test_alerts_are_counted_by_source_after_their_commit(ask, world, scraped):
    key = world.integration.integration_key
    group = {"version": "4", "alerts": [{"status": "firing", "fingerprint": str(n)} for n in range(3)]}
    for path, body in (
        (f"/api/events/{key}/", {"message": "m"}),
        (f"/api/integration/generic/{key}/", {"message": "m"}),
        (f"/api/integration/prometheus/{key}/", group),
        (f"/api/events/{world.team.unique_id}/", {"message": "m"}),
    ):
        ask("POST", path, body, who=None)
    found = scraped()

    assert found["tocsin_alerts_accepted_total", ("source", "generic")] == 2
    assert found["tocsin_alerts_accepted_total", ("source", "prometheus")] == 3
    assert found["tocsin_requests_refused_total", ("status", "404")] == 1


@pytest.mark.parametrize(
    ("kind", "settings", "is_shown"),
    [
        ("worker", {}, False),
        ("worker", {"TOCSIN_TELEGRAM_TOKEN": True}, True),
        ("worker", {"TOCSIN_SLACK_APP_TOKEN": True, "TOCSIN_SLACK_BOT_TOKEN": False}, False),
        ("worker", {"TOCSIN_MAIL_IN_DOMAIN": "alerts.example.org"}, True),
        ("listener", {}, True),
    ],
    ids=str,
)
def test_a_listener_is_missing_only_if_a_setting_needs_one(scraped, now, kind, settings, is_shown):
    backlog.record_liveness(ProcessLiveness(kind, f"{kind}:1", now, settings=settings), store().now())

    assert (("tocsin_processes_up", ("kind", "listener")) in scraped()) is is_shown
