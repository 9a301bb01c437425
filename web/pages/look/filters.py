"""Filters of templates for times: the zone is that of the reader, who is signed in or opened a link.

`{{ at|clock }}`    "Mon 09:00"
`{{ at|ago }}`      "12 min ago", or "in 3 min"
`{{ at|age }}`      "12 min", for a row of a list
`{{ at|since }}`    "since 03:45, 12 min ago"
`{{ at|until }}`    "until Mon 09:00 (in 2 d)"
`{{ at|at }}`       "Mon 09:00 (in 2 d)"
"""

from datetime import datetime

from flask import Flask, g
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from web.http.auth import now
from web.http.fields import parse_moment
from web.pages.look.style import read_style
from web.pages.look.times import Times


def register(app: Flask) -> None:
    """Give all templates the filters, the name of the reader's zone, and the style."""
    for name, show in FILTERS.items():
        app.jinja_env.filters[name] = show
    app.jinja_env.globals["name_zone"] = _name_zone
    app.jinja_env.globals["initials"] = make_initials
    app.jinja_env.globals["read_style"] = read_style


def make_initials(name: str) -> str:
    """Return the first letters of the first and the last word of a name."""
    words = [word for word in name.replace(".", " ").split() if word[0].isalnum()]
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper() or "?"


def _read(at: object) -> datetime:
    return at if isinstance(at, datetime) else parse_moment(str(at))


def _get_times(context: Context) -> Times:
    zone = context.get("time_zone")
    if not isinstance(zone, str):
        zone = g.viewer.user.time_zone if "viewer" in g else "UTC"
    return Times(zone, now())


@pass_context
def _name_zone(context: Context) -> str:
    return _get_times(context).name_zone()


@pass_context
def _clock(context: Context, at: object, *, in_row: bool = False) -> Markup:
    times = _get_times(context)
    return times.mark(_read(at), times.describe(_read(at)), in_row=in_row)


@pass_context
def _ago(context: Context, at: object, *, in_row: bool = False) -> Markup:
    times, moment = _get_times(context), _read(at)
    return times.mark(moment, times.describe_distance(moment), kind="ago", in_row=in_row)


@pass_context
def _age(context: Context, at: object) -> Markup:
    times = _get_times(context)
    return times.mark(_read(at), times.describe_age(_read(at)), kind="age", in_row=True)


@pass_context
def _since(context: Context, at: object) -> Markup:
    times, moment = _get_times(context), _read(at)
    text = f"since {times.describe(moment)}"
    return times.mark(moment, f"{text}, {times.describe_distance(moment)}")


@pass_context
def _until(context: Context, at: object, *, in_row: bool = False) -> Markup:
    times, moment = _get_times(context), _read(at)
    text = f"until {times.describe(moment)} ({times.describe_distance(moment)})"
    return times.mark(moment, text, in_row=in_row)


@pass_context
def _at(context: Context, at: object) -> Markup:
    times, moment = _get_times(context), _read(at)
    return times.mark(moment, f"{times.describe(moment)} ({times.describe_distance(moment)})")


FILTERS = {"clock": _clock, "ago": _ago, "age": _age, "since": _since, "until": _until, "at": _at}
