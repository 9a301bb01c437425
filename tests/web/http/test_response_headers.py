"""The headers that every answer has, and those of the page with the API description."""

import base64
import hashlib
import re

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


@pytest.mark.parametrize("path", ["/api/openapi.json"])
def test_the_description_may_be_cached_but_is_asked_for_again(ask, path):
    answer = ask("GET", path, who=None)

    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_the_page_of_the_description_runs_only_its_own_scripts(ask):
    page = ask("GET", "/api/docs/", who=None)
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]

    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["Content-Security-Policy"].split(";"))
    (script,) = re.findall("<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["script-src"] == f"'self' 'sha256-{digest}'"
    assert rules["connect-src"] == "'self' https://tocsin.example.org"
    assert (rules["form-action"], rules["base-uri"]) == ("'none'", "'none'")


def test_the_files_of_the_description_are_not_sniffed_or_framed(ask):
    for name in ("swagger-ui-bundle.js", "oauth2-redirect.html"):
        with ask("GET", f"/api/docs/{name}", who=None) as file:
            assert file.headers["X-Content-Type-Options"] == "nosniff"
            assert "frame-ancestors 'none'" in file.headers["Content-Security-Policy"]
