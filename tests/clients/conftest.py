"""A running instance, and the published client as somebody who installed both would use them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from zenduty.apiV2.authentication.zenduty_credential import ZendutyCredential
from zenduty.apiV2.client import ZendutyClient

from tests import stores
from tests.clients.scene import Scene
from tests.processes import Running, running
from tests.waiting import until


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One `tocsin up` for all of these tests: nothing of theirs is shared but the account and its owner."""
    home = tmp_path_factory.mktemp("clients") / "home"
    with running(home, "up") as up:
        until(lambda: up.ready() and set(up.children()) >= {"web", "worker", "clock"}, 30)
        yield up
    stores.forget(home)


@pytest.fixture
def client(instance: Running, monkeypatch: pytest.MonkeyPatch) -> ZendutyClient:
    """With the token that the first start made; it wants an address with a dot in it, and no port."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    credentials: dict[str, Any] = json.loads((instance.home / "credentials.json").read_text())
    made = ZendutyClient(ZendutyCredential(credentials["token"]), base_url="127.0.0.1", use_https=False)
    made._url = f"http://127.0.0.1:{instance.port}"
    return made


@pytest.fixture
def scene(client: ZendutyClient, request: pytest.FixtureRequest) -> Scene:
    return Scene(client, request.node.name)
