"""The page with every component of pages, in each of its states; only with TOCSIN_DEBUG."""

from datetime import timedelta

from flask import Response, current_app

from pipeline.simulation.next_messages import NextMessage, NextMessages
from web.http.auth import now
from web.http.errors import NotFound
from web.pages.console.page import render
from web.pages.look.incident_rows import LEVELS, NOBODY, Next
from web.pages.look.on_call_strip import Current

STATES = ("triggered", "acknowledged", "resolved")


def show() -> Response:
    """Show the page of components."""
    if not current_app.config["SETTINGS"].debug:
        raise NotFound
    soon, later = now() + timedelta(minutes=3), now() + timedelta(days=2, hours=4)
    elif_next = NextMessages((NextMessage(soon, ("Elif",)),))
    return render(
        "style.html",
        levels=[*LEVELS.values(), "resolved"],
        states=STATES,
        moments=[now() - timedelta(seconds=s) for s in (40, 720, 10_000, 100_000, 2_000_000, -180, -200_000)],
        people=[
            Current("1", "Payments", "Payments", ("Alice Ahrens",), later, ("Bob",)),
            Current("2", "Database", "Database", ("Dmitri", "Grace"), None, ()),
            Current("3", "Search", "Search", ("Elif Eren",), soon, ()),
            Current("4", "Nights", "Search", (), None, ()),
        ],
        steps=[
            ("triggered", None, elif_next, NOBODY),
            ("triggered", None, NextMessages(), NOBODY),
            ("triggered", None, NextMessages(resolved_at=soon), NOBODY),
            ("acknowledged", None, NextMessages(), NOBODY),
            ("acknowledged", None, NextMessages(), Next("again", later)),
            ("acknowledged", later, NextMessages(), Next("again", later)),
        ],
        at_fields={"wrong": "Must be at most 100 characters."},
    )
