"""The application under test, and a client that sends requests as one of the people."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from runtime.settings import Settings, load
from tests.support.web.browser import PageBrowser
from tests.support.world import World
from web.app import create_app
from web.http.failed_authentication import failures

Ask = Callable[..., TestResponse]


@cache
def load_once() -> Settings:
    settings = {"TOCSIN_PUBLIC_URL": "https://tocsin.example.org", "TOCSIN_DEBUG": "1"}
    return load({"TOCSIN_HOME": "nowhere", **settings})


@cache
def create_app_once() -> Flask:
    """Build the application once, because its many routes take some time."""
    return create_app(load_once())


@pytest.fixture
def app(world: World, home: Path) -> Flask:
    application = create_app_once()
    application.config["SETTINGS"] = replace(load_once(), home=home)
    failures.clear()
    return application


@pytest.fixture
def ask(app, world: World) -> Ask:
    """ask("POST", path, body, who="bob", word="Bearer"): one request; who=None sends no token."""
    client = app.test_client()

    def ask(
        method: str, path: str, body: Any = None, *, who: str | None = "alice", scheme="Bearer", **more: Any
    ) -> TestResponse:
        headers = dict(more.pop("headers", {}))
        if who is not None:
            headers["Authorization"] = f"{scheme} {world.tokens[who]}"
        if body is not None:
            more["json"] = body
        return client.open(path, method=method, headers=headers, **more)

    return ask


@pytest.fixture
def browser(app) -> PageBrowser:
    """Return a browser in which nobody is signed in."""
    return PageBrowser(app)


@pytest.fixture
def sign_in(app, world: World) -> Callable[[str], PageBrowser]:
    """sign_in("bob"): a browser in which this person is signed in."""

    def sign_in(who: str = "alice") -> PageBrowser:
        found = PageBrowser(app)
        found.start_session(getattr(world, who))
        return found

    return sign_in
