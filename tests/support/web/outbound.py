"""A client of the HTTP interface for tests of workers."""

from collections.abc import Callable
from functools import cache
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from runtime.settings import load
from tests.support.delivery.webhook_server import LOOPBACK
from tests.support.world import World
from web.app import create_app


@cache
def _create_app() -> Flask:
    """Create the application once, because its many routes take some time."""
    return create_app(load({"TOCSIN_HOME": "nowhere", "TOCSIN_WEBHOOK_NETWORKS": ",".join(LOOPBACK)}))


def create_client(world: World) -> Callable[..., TestResponse]:
    """Return ask("POST", path, body): one request of Alice."""
    client = _create_app().test_client()
    headers = {"Authorization": f"Bearer {world.tokens['alice']}"}

    def ask(method: str, path: str, body: Any = None) -> TestResponse:
        more = {} if body is None else {"json": body}
        return client.open(path, method=method, headers=headers, **more)

    return ask
