"""The bar of the pages of signed-in people: menu, open count, who the person is, and which account."""

from dataclasses import dataclass, replace

from flask import Flask, current_app, g, request

from models.domain.enums import IncidentStatus
from models.reports.pages import incident_list
from models.tables.accounts import get_display_name
from web.http.auth import viewer
from web.incidents.filters import IS_OPEN, select_visible

# A larger count is shown as "99+".
MAX_COUNT = 99


@dataclass(frozen=True, slots=True)
class Entry:
    """A page of the menu. `section` is the beginning of the paths below it."""

    path: str
    section: str
    name: str
    icon: str


# An icon is the path of its lines, in a square of 24.
_CIRCLE = "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z"
_HEAD = "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z"
_KNOBS = "M16 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM10 19.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z"
MENU = (
    Entry("/", "/incidents/", "Incidents", "M12 4 2.8 19.5h18.4zM12 10v4.5M12 17v.1"),
    Entry("/on-call/", "/on-call/", "On call", f"{_HEAD}M4.5 20c.8-4 3.6-5.5 7.5-5.5s6.7 1.5 7.5 5.5"),
    Entry("/why/", "/why/", "Why", f"{_CIRCLE}M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2v1.8M12 16.8v.1"),
    Entry("/figures/", "/figures/", "Figures", "M4 20V11M10 20V4M16 20v-6M21 20H2"),
    Entry("/set-up/", "/set-up/", "Set up", f"{_KNOBS}M4 7h9M19 7h1M4 17h3M13 17h7"),
)
SEARCH = "/search/"


@dataclass(frozen=True, slots=True)
class Counts:
    """The open incidents that the person may read, and how many of them nobody has acknowledged."""

    open: int
    triggered: int

    @property
    def acknowledged(self) -> int:
        return self.open - self.triggered

    @property
    def text(self) -> str:
        return str(self.open) if self.open <= MAX_COUNT else f"{MAX_COUNT}+"


def register(app: Flask) -> None:
    """Give all templates the values of the bar. Only pages of signed-in people may use them."""
    app.jinja_env.globals |= {
        "count_open": count_open,
        "menu": _list_menu,
        "has_search": lambda: SEARCH in current_app.view_functions,
        "who": lambda: get_display_name(viewer().user),
        "account_name": lambda: viewer().account.name,
        "here": lambda: request.path,
    }


def count_open() -> Counts:
    """Count the open incidents that the viewer may read, in one short statement per request."""
    if "open_counts" not in g:
        shown, g.viewer = g.viewer, replace(g.viewer, permission="incident_read")
        try:
            found = select_visible().where(IS_OPEN)
        finally:
            g.viewer = shown
        counted = incident_list.count_by_status(found, MAX_COUNT + 1)
        g.open_counts = Counts(sum(counted.values()), counted.get(IncidentStatus.TRIGGERED, 0))
    counts: Counts = g.open_counts
    return counts


def _list_menu() -> list[Entry]:
    """Return the pages of the menu that exist."""
    return [entry for entry in MENU if entry.path in current_app.view_functions]
