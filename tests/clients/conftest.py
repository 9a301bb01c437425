"""A running instance, and the published client as a user would use it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from zenduty.apiV2.authentication.zenduty_credential import ZendutyCredential
from zenduty.apiV2.client import ZendutyClient

from tests.support import stores
from tests.support.clients.team import ClientTeam
from tests.support.mail_server import Mailbox, start_mailbox
from tests.support.polling import wait_until
from tests.support.processes import Running, start_tocsin


@pytest.fixture(scope="session")
def mailbox() -> Iterator[Mailbox]:
    """Start the mail relay of the instance."""
    with start_mailbox() as box:
        yield box


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox) -> Iterator[Running]:
    """Run one `tocsin up` for all these tests. They share only the account and its owner."""
    home = tmp_path_factory.mktemp("clients") / "home"
    relay = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(mailbox.port)}
    with start_tocsin(home, "up", **relay) as up:
        wait_until(lambda: up.is_ready() and set(up.list_children()) >= {"web", "worker", "clock"})
        yield up
    stores.drop_store(home)


@pytest.fixture
def client(instance: Running, monkeypatch: pytest.MonkeyPatch) -> ZendutyClient:
    """Return a client with the token of the first start. Its address must have a dot and no port."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    credentials: dict[str, Any] = json.loads((instance.home / "credentials.json").read_text())
    made = ZendutyClient(ZendutyCredential(credentials["token"]), base_url="127.0.0.1", use_https=False)
    made._url = f"http://127.0.0.1:{instance.port}"
    return made


@pytest.fixture
def client_team(client: ZendutyClient, request: pytest.FixtureRequest) -> ClientTeam:
    return ClientTeam(client, request.node.name)
