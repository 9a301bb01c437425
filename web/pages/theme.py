"""The colours that a person chose in this browser: those of the device, light or dark."""

from flask import Flask

from web.pages import forms

# The purpose of the cookie with the colours.
THEME = "theme"
THEMES = ("light", "dark")


def register(app: Flask) -> None:
    """Give all templates `get_theme()`."""
    app.jinja_env.globals["get_theme"] = get_theme


def get_theme() -> str:
    """Return the colours that the person chose in this browser; empty: those of the device."""
    chosen = forms.read_cookie(THEME) or ""
    return chosen if chosen in THEMES else ""
