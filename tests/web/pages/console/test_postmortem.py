"""The postmortem of an incident: written as text, stored as HTML, exported as Markdown."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from html import unescape

import pytest

from models.tables.notifications import Message
from models.tables.postmortems import Postmortem
from web.pages.console import postmortem
from web.pages.console.postmortem import is_plain, to_html, to_markdown, to_text

PATH = "/incidents/1/postmortem/"


@pytest.fixture
def browser(sign_in, open_incident):
    open_incident()
    found = sign_in("alice")
    found.get(PATH)
    return found


def read_seen(page) -> str:
    return unescape(re.search(r'name="seen" value="([^"]*)"', page.text)[1])


@pytest.mark.parametrize(
    "text", ["One row", "One\nrow", "Two\n\nparagraphs", "a < b & c > d", "<script>", ""]
)
def test_a_text_survives_the_form_of_the_store(text):
    assert is_plain(to_html(text))
    assert to_text(to_html(text)) == text


@pytest.mark.parametrize("html", ["<h1>x</h1>", "<p>a<b>b</b></p>", "text", "<p>x</p><ul></ul>"])
def test_other_html_is_not_plain(html):
    assert not is_plain(html)


def test_markdown_shows_a_text_as_it_is():
    assert to_markdown("# [x](y) *z*") == r"\# \[x\](y) \*z\*"


def test_a_postmortem_is_written_and_changed(browser):
    browser.post(PATH, title="Disk", text="It was full.")
    page = browser.follow()
    browser.post(PATH, title="Disk", text="It was very full.", seen=read_seen(page))

    assert Postmortem.get().postmortem_data == "<p>It was very full.</p>"


def test_a_change_of_somebody_else_is_not_overwritten(browser):
    browser.post(PATH, title="Disk", text="It was full.")
    answer = browser.post(PATH, title="Disk", text="Other", seen="2026-01-01T00:00:00.000000Z")

    assert answer.status_code == 400
    assert Postmortem.get().postmortem_data == "<p>It was full.</p>"


def test_of_two_requests_at_the_same_time_one_stores_the_postmortem(browser, sign_in, monkeypatch):
    """The first one stores its text after the second has begun, and before that one stores its own."""
    other = sign_in("alice")
    other.get(PATH)
    real = postmortem._access

    def access(incident):
        found = real(incident)
        monkeypatch.setattr(postmortem, "_access", real)
        with ThreadPoolExecutor(1) as threads:
            stored = threads.submit(other.post, PATH, title="Disk", text="The first")
        assert stored.result().status_code == 303
        return found

    monkeypatch.setattr(postmortem, "_access", access)

    assert browser.post(PATH, title="Disk", text="The second").status_code == 400
    assert [row.postmortem_data for row in Postmortem.select()] == ["<p>The first</p>"]


def test_a_layout_of_another_client_is_not_destroyed(browser):
    browser.post(PATH, title="Disk", text="It was full.")
    Postmortem.update(postmortem_data="<h1>Disk</h1>").execute()

    assert browser.post(PATH, title="x", text="y").status_code == 400
    assert "<textarea" not in browser.get(PATH).text


def test_the_export_has_facts_timeline_and_text(browser):
    browser.post(PATH, title="Disk", text="It was *full*.")
    answer = browser.get("/incidents/1/postmortem.md")

    assert answer.mimetype == "text/markdown"
    assert answer.text.startswith("# #1 Disk full on db1")
    assert "It was \\*full\\*." in answer.text
    assert "Opened by an alert of level critical" in answer.text


def test_an_export_is_not_longer_than_its_limit_and_says_so(browser, monkeypatch):
    browser.post(PATH, title="Disk", text="It was full.\r\n" * 100)
    monkeypatch.setattr(postmortem, "MAX_EXPORT", 300)

    text = browser.get("/incidents/1/postmortem.md").text

    assert text.startswith("# #1 Disk full on db1")
    assert text.endswith("The rest is left out: an export has at most 300 characters.")
    assert len(text) < 400


def test_the_export_says_who_got_a_message_and_what_people_noted(browser):
    Message.update(first_attempt_at=datetime.now(UTC)).execute()
    browser.get("/incidents/1/")
    browser.post("/incidents/1/", act="note", note="Rolled *back*.\r\n---\r\nIt helps.", back="/incidents/1/")
    text = browser.get("/incidents/1/postmortem.md").text

    assert re.search(r": Alice by e-mail \(\w+\)\. Named by step 1", text)
    notes = text.partition("## Notes")[2]
    assert re.search(r"^- .*, Alice: Rolled \\\*back\\\*\.\n  \\---\n  It helps\.$", notes, re.MULTILINE)
