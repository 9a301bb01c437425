"""The alerts of an integration, and the names that its key returns."""

import tracemalloc

import pytest

from models.store.ids import make_uuid
from tests.support.alerts import accept
from web.http import paging
from workers.alerts import process_lane


@pytest.fixture
def alerts(world, now):
    """The path of the alerts, after twelve alerts; the first two alerts opened incidents."""
    for number in range(12):
        level = "critical" if number < 2 else "info"
        accept(world, now, message=f"No. {number}", alert_type=level, entity_id=f"db{number}")
    process_lane.run(world.service.id)
    ids = (world.team.unique_id, world.service.unique_id, world.integration.unique_id)
    return "/api/account/teams/{}/services/{}/integrations/{}/alerts/".format(*ids)


def test_all_alerts_are_listed_newest_first(ask, alerts):
    array = ask("GET", alerts).json

    assert [alert["message"] for alert in array] == [f"No. {number}" for number in reversed(range(12))]
    assert [alert["incident"] for alert in array[-3:]] == [None, 2, 1]


def test_a_page_is_returned_on_request_and_always_to_published_clients(ask, alerts, world):
    array = ask("GET", alerts).json

    first, second = (ask("GET", f"{alerts}?page={page}").json for page in (1, 2))

    assert first["results"] + second["results"] == array
    assert (first["count"], second["next"]) == (None, None)
    assert ask("GET", alerts, scheme="Token").json == first
    assert ask("GET", f"{alerts}?page=3").status_code == 404


def test_a_key_returns_the_names_of_its_integration(ask, world):
    path = f"/api/account/integration-metadata/{world.integration.integration_key}/"

    assert ask("GET", path, who="bob").json == {
        "team": {"name": world.team.name, "unique_id": world.team.unique_id},
        "service": {"name": world.service.name, "unique_id": world.service.unique_id},
        "integration": {
            "name": world.integration.name,
            "unique_id": world.integration.unique_id,
            "extension": "generic",
        },
    }
    assert ask("GET", path, who="charlie").status_code == 403
    assert ask("GET", path, who="mallory").status_code == 404
    assert ask("GET", f"/api/account/integration-metadata/{make_uuid()}/").status_code == 404


def test_a_viewer_of_an_incident_does_not_see_integration_keys(ask, alerts, world):
    path = f"/api/account/teams/{world.team.unique_id}/permissions/"
    ask("PUT", path, {"account_permissions": ["incident_read"]})

    def keys(who):
        listed = ask("GET", "/api/incidents/1/alerts/", who=who).json
        return {alert["integration_object"]["integration_key"] for alert in listed}

    assert keys("charlie") == {None}
    assert keys("bob") == {world.integration.integration_key}


def test_payloads_are_not_loaded_into_an_answer(ask, alerts, world, now):
    """Sixty payloads of 260 kB took 267 MB when they were read."""
    payload = {"list": [{"a": number} for number in range(20_000)]}
    for number in range(60):
        accept(world, now, message="Large", entity_id=f"large{number}", payload=payload)
    while process_lane.run(world.service.id).taken:
        pass

    tracemalloc.start()
    try:
        answer = ask("GET", alerts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(answer.json) == 72
    assert peak < 20_000_000


def test_an_alert_has_its_attachments(ask, alerts, world, now):
    urls = [{"link_url": "https://example.org/graph", "link_text": "Graph"}]
    accept(world, now, message="With link", entity_id="link", urls=urls)
    process_lane.run(world.service.id)

    alert = ask("GET", alerts).json[0]

    (url,) = alert["urls"]
    assert (url["link_url"], url["link_text"]) == ("https://example.org/graph", "Graph")
    assert (alert["images"], alert["notes"]) == ([], [])


def test_long_arrays_have_the_latest_alerts_and_lead_to_pages(ask, alerts, world, now, monkeypatch):
    for number in range(4):
        accept(world, now, message="Disk full", alert_type="critical", entity_id="db1", summary=f"{number}")
    process_lane.run(world.service.id)
    of_incident = "/api/incidents/2/alerts/"
    complete = [ask("GET", path).json for path in (alerts, of_incident)]
    monkeypatch.setattr(paging, "MAX_ARRAY", 2)
    found = [ask("GET", path) for path in (alerts, of_incident)]

    # The alerts of an integration begin with the latest, those of an incident with the first.
    assert [answer.json for answer in found] == [complete[0][:2], complete[1][-2:]]
    assert ['rel="first"' in answer.headers["Link"] for answer in found] == [True, True]
    page = ask("GET", f"{of_incident}?page=2&page_size=1")
    assert (page.json, len(page.headers.get_all("Link"))) == (complete[1][1:2], 2)
