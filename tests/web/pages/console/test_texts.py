"""What pages say to people: no word of the interface, no id, and nothing that stands for "no value"."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from models.links import signed_links
from models.links.signed_links import IncidentLink
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.notifications import Notification
from models.tables.schedules import Schedule
from tests.support.offenders import list_offenders
from tests.support.schedules.stored import layer
from tests.support.schedules.stored import schedule as add_schedule
from tests.support.web.page_paths import OTHERS, PAGES
from web.pages.look.times import Times, describe_span

# Senders of alerts know these two names: they stand in what they send and in what they get. The last one is
# the example in the refusal of what is no trace_id.
KNOWN = {"trace_id", "entity_id", "3f2c0e9a-1b7d-4c52-9a58-0c5d2f1e7a44"}
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
FORBIDDEN = re.compile(rf"unique_id|\bnull\b|^None$|{UUID}|\b[a-z]+(?:_[a-z]+)+\b")
SILENT = {"script", "style"}


class Texts(HTMLParser):
    """The texts of a page that a person reads or hears: also those of attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found, self.open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.found += [text for name, text in attrs if name in ("title", "aria-label", "placeholder")]

    def handle_endtag(self, tag):
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag) :]

    def handle_data(self, data):
        if not SILENT & set(self.open):
            self.found.append(data)


def list_forbidden(html: str) -> list[str]:
    # The address of a calendar is a link, shown so that it can be copied.
    texts = [re.sub(r"https?://\S+", "", text).strip() for text in Texts(html).found]
    return [word for text in texts for word in FORBIDDEN.findall(text) if word not in KNOWN]


@pytest.fixture
def paths(open_incident, world):
    open_incident("Disk full", payload={"labels": {"host": "db1"}})
    add_schedule(world.team, layer(world.alice, world.bob, name="Nights"), name="Payments on call")
    ids = {"trace_id": Receipt.get().trace_id, "schedule_id": Schedule.get().unique_id}
    return [path.format(**ids) for path in (*PAGES.values(), *OTHERS)]


def test_no_page_shows_an_id_or_the_name_of_a_field(sign_in, paths):
    browser = sign_in("alice")
    browser.get("/")
    browser.post("/incidents/1/", act="acknowledge")
    browser.post("/incidents/1/", act="task", title="Free some space")

    def check(path):
        assert list_forbidden(browser.get(path, Accept="text/html").text) == []

    assert list_offenders(check, paths, str) == []


def test_the_page_behind_a_link_shows_no_id_and_no_name_of_a_field(ask, open_incident):
    open_incident("Disk full")
    row = Notification.get()
    link = signed_links.get_signer().sign(
        IncidentLink(row.incident_id, row.user_id, row.id), datetime.now(UTC)
    )

    assert list_forbidden(ask("GET", f"/i/{link}", who=None).text) == []


def test_a_page_names_the_time_zone_once(sign_in, paths, world):
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    texts = " ".join(Texts(sign_in("alice").get("/incidents/1/").text).found)

    assert texts.count("Times are in Europe/Berlin") == 1


def test_the_page_of_components_exists_only_for_those_who_change_pages(sign_in, app):
    app.config["SETTINGS"] = replace(app.config["SETTINGS"], debug=False)

    assert sign_in("alice").get("/style/").status_code == 404


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"), (86_399, "23 h"),
        (86_400, "1 d"), (93_600, "1 d 2 h"), (7 * 86_400, "7 d"), (-5, "0 s"),
    ],
)  # fmt: skip
def test_a_span_has_the_unit_that_people_use(seconds, text):
    assert describe_span(timedelta(seconds=seconds)) == text


NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOW.replace(hour=2), "03:00"),
        (NOW + timedelta(days=5), "Mon 13:00"),
        (NOW + timedelta(days=20), "24 Mar 13:00"),
        (NOW - timedelta(days=90), "4 Dec 2025, 13:00"),
    ],
    ids=str,
)
def test_a_time_has_as_much_of_its_day_as_is_needed(at, text):
    assert Times("Europe/Berlin", NOW).describe(at) == text


def test_the_exact_time_with_its_zone_stands_behind_each_time():
    shown = Times("Europe/Berlin", NOW).mark(NOW, "12 min ago")

    assert 'datetime="2026-03-04T12:00:00+00:00"' in shown
    assert 'title="Wed 4 Mar 2026, 13:00:00 CET (Europe/Berlin)"' in shown


def test_style_and_script_stay_short_enough_to_be_read():
    folder = files("web.pages").joinpath("static")
    lines = {name: folder.joinpath(f"tocsin.{name}").read_text().count("\n") for name in ("css", "js")}

    assert lines["css"] <= 400
    assert lines["js"] <= 200
