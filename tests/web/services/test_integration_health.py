"""The health of a source over the interface: it contains no text of an alert."""

from datetime import timedelta

import pytest

from models.tables.events import Receipt
from tests.support.alerts import accept
from web.services import integration_health
from workers.alerts import process_lane

DAY = timedelta(days=1)


@pytest.fixture
def path(world):
    return f"/api/tocsin/integrations/{world.integration.unique_id}/health/"


@pytest.fixture
def alerts(world, store):
    """Alerts on four days, the last one five days ago."""
    last = store.now() - 5 * DAY
    for number in reversed(range(4)):
        accept(world, last - number * DAY, exactly=True, message="secret text", alert_type="info")
    process_lane.run(world.service.id)


def test_the_health_of_an_integration(ask, path, alerts):
    shown = ask("GET", path)

    last = shown.json["last_alert"]
    assert last["trace_id"] == Receipt.select().order_by(Receipt.id.desc()).get().trace_id
    assert (last["alert_type"], shown.json["silence"]["usual_gap"]) == ("info", 86_400)
    assert [rate["requests"] for rate in shown.json["rates"]] == [0, 0, 2]
    assert shown.json["refused"] == {"count": 0, "is_complete": True, "newest": None}
    assert "secret text" not in shown.text


def test_the_health_says_that_no_alert_of_the_last_day_notified_anybody(ask, path, world, store):
    quiet = ask("GET", path).json["unheard"]
    accept(world, store.now(), message="m", alert_type="warning")
    process_lane.run(world.service.id)
    found = ask("GET", path).json["unheard"]

    assert (quiet["count"], quiet["newest"], quiet["advice"]) == (0, None, None)
    assert (found["count"], found["is_complete"]) == (1, True)
    assert found["newest"]["reason"].startswith("Warning alerts open no incident here.")
    assert found["advice"].startswith(
        f"Set create_incidents_for of integration {world.integration.unique_id} to 3"
    )


def test_silent_integrations_are_listed_with_their_owners(ask, world, alerts):
    shown = ask("GET", "/api/tocsin/integrations/silent/").json

    (found,) = shown["results"]
    names = [found[owner]["name"] for owner in ("integration", "service", "team")]
    assert names == [world.integration.name, world.service.name, world.team.name]
    assert shown["is_complete"]


def test_an_account_lists_silent_integrations_once_at_a_time(ask, world):
    with integration_health.CONCURRENCY.acquire(world.account):
        assert ask("GET", "/api/tocsin/integrations/silent/").status_code == 429
    assert ask("GET", "/api/tocsin/integrations/silent/").status_code == 200


def test_only_people_who_may_read_the_alerts_see_them(ask, path, alerts):
    assert ask("GET", path, who="charlie").status_code == 403
    assert ask("GET", path, who="mallory").status_code == 404
    for who in ("charlie", "mallory"):
        assert ask("GET", "/api/tocsin/integrations/silent/", who=who).json["results"] == []
