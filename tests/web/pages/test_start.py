"""A browser gets a page at / and for every refusal; clients of the interface get the same as ever."""

import pytest

from models.store.store import db
from web.http.errors import ApiError
from web.operations import health

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
JSON, XML, HTML = "application/json", "application/xml", "text/html"
# What HTTP libraries of Java send if the program names nothing.
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"

REFUSALS = {
    "unknown path": ("GET", "/nowhere", 404, "Not Found."),
    "no token": ("GET", "/api/account/teams/", 401, "Authentication credentials were not provided."),
    "wrong method": ("DELETE", "/api/account/teams/", 405, "Method not allowed."),
    "unknown key": ("GET", "/api/integration/heartbeat/x/", 404, "Not Found."),
    "file of the description": ("GET", "/api/docs/nowhere.js", 404, "Not Found."),
}


@pytest.fixture
def browse(ask):
    """browse("GET", path): one request as a browser sends it."""
    return lambda method, path, accept=BROWSER, **more: ask(
        method, path, who=None, headers={"Accept": accept}, **more
    )


def assert_page(answer, status: int) -> None:
    """Check that the answer is a safe page with the three things that each page says."""
    assert (answer.status_code, answer.mimetype) == (status, HTML)
    for words in (
        "What this is",
        "Its health",
        "Where to go next",
        "incident management",
        'href="/api/docs/"',
    ):
        assert words in answer.text
    assert "<script" not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; style-src 'nonce-" in policy
    assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == (
        "no-store",
        "nosniff",
    )
    assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("accept", [BROWSER, "*/*", "", HTML])
def test_the_first_page_says_what_this_is(browse, accept):
    assert_page(browse("GET", "/", accept), 200)


@pytest.mark.parametrize(("accept", "kind"), [(JSON, JSON), (XML, XML), (f"{JSON}, text/plain, */*", JSON)])
def test_a_client_that_names_json_or_xml_finds_nothing_at_the_first_page(browse, accept, kind):
    answer = browse("GET", "/", accept)

    assert (answer.status_code, answer.mimetype) == (404, kind)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_browser_gets_a_page_for_a_refusal(browse, name):
    method, path, status, detail = REFUSALS[name]
    answer = browse(method, path)

    assert_page(answer, status)
    assert detail in answer.text
    assert 'href="/"' in answer.text or status != 404


def test_a_tool_that_sends_alerts_gets_no_page(browse, world):
    for path in (f"/api/events/{world.integration.integration_key}/", "/api/integration/generic/x/"):
        assert browse("POST", path, data="x").mimetype != HTML


def test_health_needs_no_look_at_the_store(browse, app, monkeypatch):
    monkeypatch.setitem(app.config, "HEALTH", None)

    assert browse("POST", "/healthz").status_code == 405


def test_a_refusal_keeps_its_headers(browse):
    assert browse("GET", "/api/account/teams/").headers["WWW-Authenticate"] == "Token"
    assert browse("DELETE", "/api/account/teams/").headers["Allow"] == "POST, GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (BROWSER, HTML), (HTML, HTML), (f"{HTML}, {XML}", HTML), (f"{HTML}, */*", HTML),
        (f"{HTML}; q=0.9, {XML}", XML), (XML, XML), ("text/*", "text/xml"), ("*/*", JSON), ("", JSON),
        (f"{HTML}, {JSON}", JSON), (f"{HTML}; q=0.5, */*", JSON), (f"{HTML}; q=0, */*", JSON),
    ],
)  # fmt: skip
def test_the_header_accept_selects_the_form_of_a_refusal(browse, accept, kind):
    answer = browse("GET", "/nowhere", accept)

    assert (answer.status_code, answer.mimetype) == (404, kind)


@pytest.mark.parametrize("accept", [BROWSER, JAVA, HTML])
def test_a_client_with_a_token_or_with_json_gets_no_page(ask, accept):
    headers = {"Accept": accept}
    with_token = ask("GET", "/api/nowhere/", headers=headers)
    with_body = ask("POST", "/api/events/x/", {"message": "x"}, who=None, headers=headers)

    assert {with_token.status_code, with_body.status_code} == {404}
    assert HTML not in (with_token.mimetype, with_body.mimetype)


def test_texts_of_a_request_are_escaped(browse, app, monkeypatch):
    def refuse():
        raise ApiError({"<b>field</b>": ["<script>alert(1)</script>"]})

    monkeypatch.setattr("web.pages.start.serialization.prefers_data", refuse)
    answer = browse("GET", "/")

    assert_page(answer, 500)
    assert "&lt;b&gt;field&lt;/b&gt;" in answer.text


def test_the_page_names_each_limit(browse, monkeypatch):
    monkeypatch.setattr(health.probe, "_last", None)
    text = browse("GET", "/").text

    assert "healthy, with limits" in text
    for words in ("Redis does not answer", "The clock process does not run", "No mail relay is set"):
        assert words in text
    assert "The database cannot be written" not in text


def test_a_store_that_cannot_be_written_is_named(browse, monkeypatch):
    monkeypatch.setattr(health.probe, "_last", None)
    db.execute_sql("ALTER TABLE liveness RENAME TO hidden")
    try:
        page, readiness = browse("GET", "/"), browse("GET", "/readyz")
    finally:
        db.execute_sql("ALTER TABLE hidden RENAME TO liveness")
        monkeypatch.setattr(health.probe, "_last", None)

    assert_page(page, 200)
    assert "not healthy" in page.text
    assert "The database cannot be written" in page.text
    assert_page(readiness, 503)


def test_the_pages_show_nothing_of_an_account(browse, world):
    for path in ("/", "/nowhere"):
        text = browse("GET", path).text
        for secret in (world.account.name, world.account.account_identifier, world.team.name):
            assert f">{secret}<" not in text
