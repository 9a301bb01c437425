"""The health of a source is read by indexes, and names silent integrations."""

import json
from datetime import timedelta

import pytest

from bench.servers.plans import list_scans, list_sorts
from models.domain.enums import AlertType, WorkState
from models.domain.reasons import make_reason
from models.domain.source_silence import Silence
from models.reports.integrations import source_health
from models.store import bulk
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.services import Integration, Service, SourceSetup
from models.tables.teams import Team
from pipeline.sources.own import OWN_SOURCES
from tests.support.alerts import accept
from tests.support.rules import accept_from_router, add_router, add_router_rule
from workers.alerts import process_lane, process_router

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def load(world):
    return lambda now: source_health.load_health(world.integration, OWN_SOURCES, now)


@pytest.fixture
def list_silent(world):
    teams = Team.select(Team.id).where(Team.account == world.account)
    return lambda now: [
        (found.integration.name, found.silence)
        for found in source_health.list_silent(teams, OWN_SOURCES, now).sources
    ]


def accept_daily(world, last, days=4):
    for number in reversed(range(days)):
        accept(world, last - number * DAY, exactly=True, message="m", alert_type="critical", entity_id="e")
    process_lane.run(world.service.id)


def test_an_integration_without_alerts_has_empty_figures(load, list_silent, now):
    health = load(now)

    assert (health.last_request_at, health.last_alert, health.silence) == (None, None, None)
    assert [(rate.requests, rate.alerts, rate.is_complete) for rate in health.rates] == [(0, 0, True)] * 3
    assert list_silent(now) == []


def test_the_last_alert_has_what_its_last_stage_decided(load, world, now):
    accept(world, now, message="m", alert_type="info")
    process_lane.run(world.service.id)

    last = load(now).last_alert

    assert (last.trace_id, last.received_at) == (Receipt.get().trace_id, Receipt.get().received_at)
    assert last.alert_type == AlertType.INFO
    assert last.reason is not None


def test_requests_and_alerts_are_counted_in_each_period(load, world, now):
    for age in (timedelta(minutes=5), 2 * HOUR, 3 * HOUR, 3 * DAY, 8 * DAY):
        accept(world, now - age, exactly=True, message="m", alert_type="critical")
    process_lane.run(world.service.id)

    assert [(rate.period, rate.requests, rate.alerts) for rate in load(now).rates] == [
        ("hour", 1, 1), ("day", 3, 3), ("week", 4, 4),
    ]  # fmt: skip


def test_counts_end(load, world, now, monkeypatch):
    monkeypatch.setattr(source_health, "MAX_COUNTED", 2)
    for _ in range(4):
        accept(world, now - HOUR / 2, message="m", alert_type="critical")
    process_lane.run(world.service.id)

    rate = load(now).rates[0]

    assert (rate.requests, rate.alerts, rate.is_complete) == (2, 2, False)


def test_what_tocsin_writes_itself_is_no_request(load, world, now):
    accept(world, now - DAY, exactly=True, message="m", alert_type="critical")
    accept(world, now - HOUR, exactly=True, message="m", alert_type="critical")
    Receipt.update(source="expired").where(Receipt.received_at == now - HOUR).execute()

    assert load(now).last_request_at == now - DAY


def test_a_body_in_another_form_is_counted_with_its_trace(load, world, now):
    accept(world, now, source="grafana", body=json.dumps({"message": "not of Grafana"}).encode())
    accept(world, now, message="m", alert_type="critical")
    process_lane.run(world.service.id)

    unread = load(now).unread

    assert (unread.count, unread.is_complete) == (1, True)
    assert unread.newest.trace_id == Receipt.select().order_by(Receipt.id).get().trace_id
    assert unread.newest.reason == make_reason("other_form", kind="grafana")


def test_refused_requests_are_counted_with_the_last_reason(load, world, now):
    SourceSetup.create(integration=world.integration, secret="a secret", updated_at=now)
    body = {"alerts": [{"status": "firing", "labels": {}, "fingerprint": "f"}]}
    accept(world, now, source="grafana", body=json.dumps(body).encode())
    accept(world, now, message="signature_wrong", alert_type="critical")
    process_lane.run(world.service.id)

    refused = load(now).refused

    assert (refused.count, refused.newest.reason) == (2, make_reason("signature_required"))


def test_dead_letters_are_counted_with_the_newest_error(load, world, now):
    for number in range(2):
        accept(world, now + number * HOUR, exactly=True, message="m", alert_type="critical")
    error = make_reason("alert_failed", error="KeyError", stage="normalize")
    Receipt.update(state=WorkState.DEAD_LETTER, error=error).execute()

    found = load(now).dead_letters

    assert (found.count, found.newest.received_at, found.newest.reason) == (2, now + HOUR, error)


def test_an_integration_that_stops_is_silent(load, list_silent, world, now):
    accept_daily(world, now)

    assert list_silent(now + 3 * DAY) == []
    silence = Silence(now, DAY)
    assert list_silent(now + 3 * DAY + HOUR) == [(world.integration.name, silence)]
    assert load(now + 3 * DAY + HOUR).silence == silence


def test_many_alerts_hide_no_silence(list_silent, world, now):
    """Only times that are three hours apart are read."""
    for number in reversed(range(3 * 24)):
        accept(world, now - number * HOUR, exactly=True, message="m", alert_type="info")
    process_lane.run(world.service.id)

    assert list_silent(now + DAY + HOUR) == [(world.integration.name, Silence(now, 3 * HOUR))]


def test_alerts_of_a_router_count(list_silent, world, now):
    router = add_router(world)
    add_router_rule(router, world.integration)
    for number in reversed(range(4)):
        accept_from_router(router, now - number * DAY, message="m", alert_type="critical")
    process_router.run(router.id)
    process_lane.run(world.service.id, process_lane.get_segment("rules").name)

    assert [name for name, _ in list_silent(now + 4 * DAY)] == [world.integration.name]


def add_routed(world, moments):
    """Store the alerts of a router at these times, oldest first. Each fourth alert is of this integration."""
    receipt = Receipt.create(
        trace_id="routed", account=world.account, source="webhook", body=b"{}", received_at=moments[0]
    )
    rows = []
    for number, at in enumerate(moments):
        for place in range(4):
            rows.append(
                {
                    "unique_id": f"{number}.{place}", "receipt": receipt.id, "position": number,
                    "message": "m", "integration": None if place else world.integration.id,
                    "alert_type": 0, "entity_id": "e", "creation_date": at,
                }
            )  # fmt: skip
    with store().write_transaction():
        bulk.insert(Event, rows)


def test_a_busy_integration_behind_a_router_is_silent(list_silent, load, world, now, statements):
    """Some alerts are read, however many the router sent: in the days, and in a night without any."""
    first = now - 9 * DAY
    moments = [first + number * timedelta(minutes=3) for number in range(9 * 480 + 1)]
    add_routed(world, [at for at in moments if at.hour >= 10 or at == now])

    with statements() as seen:
        ((_, silence),) = list_silent(now + 3 * DAY)
        own = list(seen)
        assert len(own) <= 2 * source_health.MAX_HALVED + 5
        assert [line for line in list_scans(own) if line.startswith(("SCAN event", "SCAN receipt"))] == []
        assert list_sorts([each for each in own if 'FROM "event"' in each[0]]) == []

    assert silence.last_at == now
    assert timedelta(hours=10) <= silence.usual_gap <= timedelta(hours=13)
    assert load(now + 3 * DAY).silence == silence


def test_few_alerts_of_a_router_are_read_exactly(list_silent, world, now):
    add_routed(world, [now - 60 * DAY, *(now - number * DAY for number in reversed(range(6)))])

    assert list_silent(now + 4 * DAY) == [(world.integration.name, Silence(now, DAY))]


def test_what_tocsin_writes_itself_ends_no_silence(list_silent, load, world, now):
    accept_daily(world, now)
    accept(world, now + 3 * DAY, exactly=True, message="m", alert_type="resolved", entity_id="e")
    process_lane.run(world.service.id)
    Receipt.update(source="expired").where(Receipt.received_at == now + 3 * DAY).execute()

    silence = Silence(now, DAY)
    assert list_silent(now + 3 * DAY + HOUR) == [(world.integration.name, silence)]
    assert load(now + 3 * DAY + HOUR).silence == silence


@pytest.mark.parametrize(
    "change",
    [
        lambda: Integration.update(is_enabled=False),
        lambda: Integration.update(integration_type=1),
        lambda: Service.update(status=0),
    ],
    ids=["a disabled integration", "an outbound one", "a disabled service"],
)
def test_what_takes_no_alerts_is_not_silent(list_silent, world, now, change):
    accept_daily(world, now)
    change().execute()

    assert list_silent(now + 9 * DAY) == []


def test_other_accounts_are_not_listed(world, now):
    accept_daily(world, now)

    teams = Team.select(Team.id).where(Team.account != world.account)
    assert source_health.list_silent(teams, OWN_SOURCES, now + 9 * DAY).sources == []


def test_a_caller_can_end_the_list_before_each_integration(world, now):
    accept_daily(world, now)

    def stop():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        source_health.list_silent(Team.select(Team.id), OWN_SOURCES, now + 9 * DAY, stop)


def test_more_candidates_than_the_limit_are_reported(world, now, monkeypatch):
    accept_daily(world, now)
    monkeypatch.setattr(source_health, "MAX_CANDIDATES", 0)

    found = source_health.list_silent(Team.select(Team.id), OWN_SOURCES, now + 9 * DAY)

    assert (found.sources, found.is_complete) == ([], False)


def test_no_question_scans_or_sorts_a_large_table(load, list_silent, world, now, statements):
    accept_daily(world, now)
    with statements() as seen:
        load(now + 9 * DAY)
        list_silent(now + 9 * DAY)

        large = [each for each in seen if 'FROM "receipt"' in each[0] or 'FROM "event"' in each[0]]
        # The rows of a subquery with a limit are read once, and `one` are the texts of the statement itself.
        of_subqueries = ("SCAN _wrapped", "SCAN newest", "SCAN one")
        assert [line for line in list_scans(seen) if not line.startswith(of_subqueries)] == []
        assert list_sorts(large) == []
        assert Event.select().count() == 4
