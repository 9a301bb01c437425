"""Alerts by GET: only where an integration says so, with a known field, and never by a prefetch."""

from urllib.parse import urlencode

import pytest

from models.tables.events import Event, Receipt
from models.tables.services import SourceSetup
from workers.alerts import process_lane

QUERY = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


@pytest.fixture
def switch_on(world, now):
    def switch_on(**values):
        SourceSetup.create(integration=world.integration, accepts_get=True, updated_at=now, **values)

    return switch_on


@pytest.fixture
def get(app, world):
    """get(query, source, headers, method): the answer to a request without a body."""

    def get(query, source="generic", headers=None, method="GET", account=False):
        base = f"/integration/{world.account.account_identifier}" if account else "/api/integration"
        path = f"{base}/{source}/{world.integration.integration_key}/?{urlencode(query)}"
        return app.test_client().open(
            path, method=method, headers=headers or {"User-Agent": "UptimeRobot/2.0"}
        )

    return get


@pytest.mark.parametrize("account", [False, True])
def test_an_alert_can_be_in_the_query(get, switch_on, world, account):
    switch_on()
    answer = get(QUERY, account=account)
    process_lane.run(world.service.id)

    assert (answer.status_code, set(answer.json)) == (200, {"message", "trace_id"})
    event = Event.get()
    assert (event.message, event.alert_type, event.entity_id) == ("Disk full", 3, "db1")


def test_a_mapping_reads_the_query(get, switch_on, world):
    switch_on(mapping={"message": "monitor.name", "alert_type": "kind", "levels": {"1": "critical"}})
    answer = get({"monitor.name": "Shop", "kind": "1"}, "json")
    process_lane.run(world.service.id)

    assert answer.status_code == 200
    assert (Event.get().message, Event.get().alert_type) == ("Shop", 3)


def test_without_the_switch_get_is_not_allowed(get):
    answer = get(QUERY)

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST, OPTIONS")
    assert not Receipt.select().exists()


@pytest.mark.parametrize("source", ["zabbix", "pagerduty", "prometheus"])
def test_other_tools_take_no_get(get, switch_on, source):
    switch_on()

    assert get(QUERY, source).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"X-Moz": "prefetch"},
        {"Sec-Fetch-Mode": "navigate"},
        {"User-Agent": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
        {"User-Agent": "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"},
        {"User-Agent": "WhatsApp/2.23.20.0"},
        {"User-Agent": "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5"},
    ],
)
def test_a_prefetch_and_a_preview_send_no_alert(get, switch_on, headers):
    switch_on()

    assert get(QUERY, headers=headers).status_code == 400
    assert not Receipt.select().exists()


def test_head_sends_no_alert(get, switch_on):
    switch_on()

    assert get(QUERY, method="HEAD").status_code == 405
    assert not Receipt.select().exists()


@pytest.mark.parametrize("source", ["generic", "json"])
@pytest.mark.parametrize("query", [{}, {"utm_source": "x"}, {f"f{number}": 1 for number in range(150)}])
def test_a_query_without_a_known_field_sends_no_alert(get, switch_on, source, query):
    switch_on()

    assert get(query, source).status_code == 400
    assert not Receipt.select().exists()


def test_a_mapping_needs_one_of_its_fields(get, switch_on):
    switch_on(mapping={"message": "name"})

    assert get({"message": "Disk full"}, "json").status_code == 400


def test_an_unknown_key_is_not_found(app):
    path = "/api/integration/generic/00000000-0000-4000-8000-000000000000/?message=m"

    assert app.test_client().get(path).status_code == 404


def test_the_switch_is_a_setting_of_the_source(ask, world):
    path = f"/api/tocsin/integrations/{world.integration.unique_id}/source/"

    assert ask("GET", path).json["accepts_get"] is False
    assert ask("PUT", path, {"accepts_get": True}).json["accepts_get"] is True
    assert ask("PUT", path, {"accepts_get": False}).json["accepts_get"] is False
