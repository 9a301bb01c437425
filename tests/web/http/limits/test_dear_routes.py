"""Dear operations and pages need a place; what people and providers wait for needs none."""

import pytest

from tests.support.web.places import held_elsewhere
from web.http.limits import places
from web.incidents import actions
from web.pages.console import incident_actions, incident_list
from web.routes import PAGES, ROUTES


@pytest.fixture
def no_place(monkeypatch):
    """Other accounts have all places."""
    monkeypatch.setattr(places, "TIMEOUT_S", 0.0)
    with held_elsewhere(places.places, "other", "third"):
        yield


# What took 0.2 to 4 s of CPU for one request. Calendars, lists by a key of Opsgenie and swaps of shifts hold
# their places themselves; their own tests prove it.
LONG = {
    "/api/incidents/filter/", "/api/tocsin/rules/try/", "/api/tocsin/simulate/", "/why/simulate/",
    "/api/tocsin/integrations/<source_id>/source/try/", "/api/tocsin/schedules/<schedule_id>/oncall/",
    "/on-call/<schedule_id>/", "/figures/", "/incidents/<incident>/postmortem.md", "/check/",
}  # fmt: skip


DEAR = [route for route in (*ROUTES, *PAGES) if route.is_dear]


@pytest.mark.usefixtures("no_place")
@pytest.mark.parametrize("route", [pytest.param(r, id=r.name) for r in DEAR if r.auth == "token"])
def test_a_dear_operation_is_refused_without_a_place(ask, route):
    answer = ask(route.method, route.path.replace("<", "").replace(">", ""), {})

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.usefixtures("no_place")
@pytest.mark.parametrize("route", [pytest.param(r, id=r.name) for r in DEAR if r.auth == "session"])
def test_a_dear_page_is_refused_without_a_place(sign_in, route):
    browser, path = sign_in("alice"), route.path.replace("<", "").replace(">", "")
    answer = browser.get(path) if route.method == "GET" else browser.post(path)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.usefixtures("no_place")
def test_a_large_body_is_dear_and_a_small_one_is_not(ask):
    assert ask("POST", "/api/incidents/", {"title": "x" * 70_000}).status_code == 503
    assert ask("POST", "/api/incidents/", {"title": "x"}).status_code == 400


def test_what_computes_long_is_dear():
    assert {route.path for route in DEAR} >= LONG


def test_nobody_waits_to_acknowledge_or_resolve_or_for_a_callback():
    urgent = (incident_actions.act, incident_list.act, incident_list.show, actions.reassign, actions.snooze)
    cheap = {route.view for route in (*ROUTES, *PAGES) if not route.is_dear}

    assert set(urgent) <= cheap
    assert [route.path for route in DEAR if route.auth is None or "callbacks" in route.path] == []
