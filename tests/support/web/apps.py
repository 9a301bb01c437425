"""Applications for tests that do not use the fixtures of tests/web."""

from functools import cache

from flask import Flask

from runtime.settings import Settings, load
from web.app import create_app


def get_app(settings: Settings, number: int = 0) -> Flask:
    """Return an application with these settings; one of another number has settings of its own.

    Each is built once, because its many routes take some time, and keeps nothing but its settings.
    """
    app = _create_app(number)
    app.config["SETTINGS"] = settings
    return app


@cache
def _create_app(number: int) -> Flask:
    return create_app(load({"TOCSIN_HOME": "nowhere"}))
