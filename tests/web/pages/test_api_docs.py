"""The page with the documentation of the interface: small, collapsed, without a script."""

import base64
import gzip
import hashlib
import re
from html.parser import HTMLParser

import pytest

from web.routes import ROUTES

DOCS = "/api/docs/"
DOCUMENTED = [route for route in ROUTES if route.documented]
# Bytes, of everything that the page loads.
MAX_SIZE = 300_000


class Elements(HTMLParser):
    """Collects the elements of a page as (name, attributes)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def page(ask):
    return ask("GET", DOCS, who=None, headers={"Host": 'evil"></script>'})


def test_the_page_is_small(ask):
    answer = ask("GET", DOCS, who=None, headers={"Accept-Encoding": "gzip"})

    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.data) <= MAX_SIZE
    assert b"HTTP interface" in gzip.decompress(answer.data)


def test_the_page_loads_nothing_and_runs_nothing(page):
    elements = Elements(page.text).found

    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert {"script", "link", "img", "iframe", "form", "object"}.isdisjoint(tag for tag, _ in elements)
    assert [attributes for _, attributes in elements if {"src", "srcset", "style"} & set(attributes)] == []
    assert "url(" not in page.text
    assert "evil" not in page.text


def test_its_policy_allows_its_style_and_nothing_else(page):
    (style,) = re.findall("<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert page.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none';"
        " frame-ancestors 'none'"
    )
    assert page.headers["Referrer-Policy"] == "no-referrer"


def test_all_sections_are_collapsed(page):
    details = [attributes for tag, attributes in Elements(page.text).found if tag == "details"]

    assert len([each for each in details if each["class"] == "section"]) >= len({r.tag for r in DOCUMENTED})
    assert [each for each in details if "open" in each] == []


def test_the_width_is_that_of_the_phone_and_long_lines_are_broken(page):
    (viewport,) = [each for tag, each in Elements(page.text).found if each.get("name") == "viewport"]

    assert viewport["content"] == "width=device-width, initial-scale=1"
    assert "overflow-wrap: anywhere" in page.text
    assert "white-space: pre-wrap" in page.text
    assert "<table" not in page.text


def test_each_operation_is_there_once(page):
    operations = page.text.split('<details class="operation">')[1:]
    shown = [re.findall(' id="([^"]+)"', text)[0] for text in operations]

    assert sorted(shown) == sorted(route.name for route in DOCUMENTED)


def test_a_link_to_an_operation_opens_it(page):
    """A browser opens the sections around the target of a link, but not the target itself."""
    assert [each for tag, each in Elements(page.text).found if tag == "details" and "id" in each] == []


def test_each_link_inside_the_page_has_a_target(page):
    elements = Elements(page.text).found
    targets = {each["id"] for _, each in elements if "id" in each}
    links = {each["href"] for tag, each in elements if tag == "a"}

    assert {link for link in links if link.startswith("#")} <= {f"#{target}" for target in targets}
    assert {link for link in links if not link.startswith("#")} == {"/", "/api/openapi.json"}


def test_an_operation_is_shown_with_everything_that_a_caller_needs(page):
    (shown,) = [text for text in page.text.split("<details ") if 'id="create_maintenance"' in text]

    for text in (
        "Create a maintenance window",
        "POST /api/account/teams/{team_id}/maintenance/",
        "<code>maintenance_write</code>",
        "The unique_id of the team.",
        "<code>start_time</code> <i>string (date-time), <b>required</b></i>",
        "0 to 3650",
        "<samp>&#34;Europe/Berlin&#34;</samp>",
        "curl &#34;$URL/api/account/teams/$TEAM_ID/maintenance/&#34;",
        "Answer 201",
        "<code>creation_date</code>",
    ):
        assert text in shown


def test_a_browser_that_has_the_page_does_not_load_it_again(ask, page):
    again = ask("GET", DOCS, who=None, headers={"If-None-Match": page.headers["ETag"]})

    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Content-Security-Policy"] == page.headers["Content-Security-Policy"]


def test_the_path_without_its_last_slash_works_too(ask, page):
    assert ask("GET", "/api/docs", who=None).text == page.text
