"""The headers that every answer has."""

import pytest

TEAMS = "/api/account/teams/"
REQUESTS = {
    "list": ("GET", TEAMS, 200),
    "no content": ("DELETE", "/api/tocsin/calendar/", 204),
    "unknown path": ("GET", "/api/nowhere/", 404),
    "wrong method": ("DELETE", TEAMS, 405),
    "options": ("OPTIONS", TEAMS, 200),
    "wrong body": ("POST", TEAMS, 400),
    "health": ("GET", "/healthz", 200),
    "metrics": ("GET", "/metrics", 200),
    "page": ("GET", "/i/x", 404),
}


def assert_safe(answer) -> None:
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_is_neither_cached_nor_sniffed_nor_framed(ask, name):
    method, path, status = REQUESTS[name]
    answer = ask(method, path)

    assert answer.status_code == status
    assert_safe(answer)


@pytest.mark.parametrize("accept", ["application/json", "application/xml"])
def test_the_answer_to_an_alert_too(ask, world, accept):
    """With the first header, the fast path answers; with the second, Flask."""
    path = f"/api/integration/generic/{world.integration.integration_key}/"
    answer = ask("POST", path, {"message": "Disk full"}, who=None, headers={"Accept": accept})

    assert answer.status_code == 200
    assert_safe(answer)


def test_an_answer_without_a_token_too(ask):
    answer = ask("GET", TEAMS, who=None)

    assert answer.status_code == 401
    assert_safe(answer)


@pytest.mark.parametrize("path", ["/api/openapi.json", "/api/docs/"])
def test_the_description_may_be_cached_but_is_asked_for_again(ask, path):
    answer = ask("GET", path, who=None)

    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/api/account/teams/", "/api/integration/generic/KEY/", "/sign-in/"])
def test_options_needs_no_token_and_allows_no_other_origin(app, path):
    answer = app.test_client().options(path, headers={"Origin": "https://other.example.org"})

    assert (answer.status_code, answer.data) == (200, b"")
    assert "POST" in answer.headers["Allow"]
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]
