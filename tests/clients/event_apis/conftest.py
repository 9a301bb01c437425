"""An integration of a running instance for each test, and programs that send to it."""

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from models.domain.applications import KINDS
from tests.support.clients.team import ClientTeam
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.processes import Running, find_free_port, tocsin

# What `tocsin why` says about an incident that its source has resolved.
ENDED = "An alert of level resolved came in."


def ask(method: str, url: str, body: object = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", **headers}, method=method
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


@dataclass
class Receiver:
    """A service with an integration of one application."""

    url: str
    token: str
    service: str
    key: str
    webhook_url: str

    def list_incidents(self) -> list[tuple[str, int]]:
        """Return title and status of the incidents of the service."""
        return [(title, status) for _, title, status in self.list_numbered()]

    def list_numbered(self) -> list[tuple[int, str, int]]:
        """Return number, title and status of the incidents of the service."""
        found = ask(
            "POST",
            f"{self.url}/api/incidents/filter/",
            {"service_ids": [self.service], "status": 0},
            Authorization=f"Bearer {self.token}",
        )["results"]
        return [
            (one["incident_number"], one["title"], one["status"])
            for one in found
            if one["service"] == self.service
        ]

    def await_incidents(self, count: int) -> list[tuple[str, int]]:
        """Wait until so many incidents exist, and return them."""
        wait_until(lambda: len(self.list_incidents()) == count)
        return self.list_incidents()

    def wait_for(self, *expected: tuple[str, int], seconds: float = PATIENCE_S) -> None:
        """Wait until exactly these incidents exist, in any order."""
        wait_until(lambda: sorted(self.list_incidents()) == sorted(expected), seconds)


@pytest.fixture
def create_receiver(instance: Running, client_team: ClientTeam) -> Callable[[str], Receiver]:
    """create_receiver(kind): an integration of this kind in the service of a new team."""
    url = f"http://127.0.0.1:{instance.port}"
    token = json.loads((instance.home / "credentials.json").read_text())["token"]

    def create(kind: str) -> Receiver:
        service = str(client_team.service.unique_id)
        path = f"/api/account/teams/{client_team.team.unique_id}/services/{service}/integrations/"
        body = {"name": kind, "application": KINDS[kind].unique_id}
        made = ask("POST", f"{url}{path}", body, Authorization=f"Bearer {token}")
        return Receiver(url, token, service, made["integration_key"], made["webhook_url"])

    return create


@pytest.fixture
def explain(instance: Running) -> Callable[[Receiver], str]:
    """explain(receiver): what `tocsin why` says about the only incident of the service."""

    def explain(receiver: Receiver) -> str:
        ((number, _, _),) = receiver.list_numbered()
        shown = tocsin(instance.home, "why", f"#{number}")
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    return explain


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[[list[str]], str]]:
    """start_server(command): start a program that listens at {port} and return its URL."""
    with contextlib.ExitStack() as stack:

        def start(command: list[str]) -> str:
            port = find_free_port()
            process = subprocess.Popen(
                [word.format(port=port) for word in command],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _is_answering(f"{url}/-/ready"))
            return url

        yield start


def _is_answering(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
