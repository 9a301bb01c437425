"""Create the tenant that attacks and the tenant that only sends alerts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from models.domain.applications import APPLICATIONS, GENERIC, PROMETHEUS
from models.people import provisioning
from models.sign_in import sessions
from models.store.store import connection, store
from models.tables.teams import EscalationPolicy

# The ID of the application whose messages Amazon SNS signs.
CLOUDWATCH = "1ef0e211-82fb-454a-96c4-20bd26ebdcab"
# That of tools for Opsgenie, whose keys may read alerts.
OPSGENIE = "bf43cf1b-4357-4905-9be9-843cfd8a1c56"
SETUP_S = 30.0
# The domain of the addresses at which the instance receives alerts by mail.
MAIL_DOMAIN = "siege.invalid"


@dataclass(frozen=True, slots=True)
class Integration:
    """The paths are those of its webhook, its alert rules and its set-up."""

    unique_id: str
    key: str
    path: str
    rules_path: str
    source_path: str


@dataclass(frozen=True, slots=True)
class Tenant:
    """An account with one person, who gets mail. Each integration has its own service.

    `mail_port` is that of the instance's server for alerts by mail; 0: it has none.
    """

    base_url: str
    token: str
    generic: Integration
    prometheus: Integration
    cloudwatch: Integration
    opsgenie: Integration
    # The cookie of a person who is signed in, and the path of a calendar feed.
    cookie: dict[str, str]
    calendar_path: str
    mail_port: int = 0

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Send a request of the interface. Raise RuntimeError if the answer is not 2xx."""
        self._send("POST", path, body)

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Send a request as post() does."""
        self._send("PUT", path, body)

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        client = HTTPConnection(urlsplit(self.base_url).netloc, timeout=SETUP_S)
        try:
            client.request(method, path, json.dumps(body), self.headers)
            answer = client.getresponse()
            text = answer.read()
        finally:
            client.close()
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{path}: {answer.status} {text[:200]!r}")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}


def create_tenant(base_url: str, name: str, mail_port: int = 0) -> Tenant:
    """Create a tenant with rows of its own in the open store."""
    now = datetime.now(UTC)
    with connection(), store().write_transaction():
        account, owner = provisioning.create_account(name, f"{name}@example.org", now)
        team = provisioning.create_team(account, name, owner, now)
        policy = EscalationPolicy.get(EscalationPolicy.team == team)
        found = {}
        for application in (GENERIC, PROMETHEUS, CLOUDWATCH, OPSGENIE):
            service = provisioning.create_service(team, application, policy, owner, now)
            made = provisioning.create_integration(service, application, application, owner, now)
            found[application] = Integration(
                made.unique_id,
                made.integration_key,
                f"/api/integration/{APPLICATIONS[application].extension}/{made.integration_key}/",
                f"/api/account/teams/{team.unique_id}/services/{service.unique_id}"
                f"/integrations/{made.unique_id}/transformers/",
                f"/api/tocsin/integrations/{made.unique_id}/source/",
            )
        token = provisioning.issue_token(owner, "siege", now)
        secret = sessions.start(owner, "password", sessions.Browser("siege", "127.0.0.1"), now)
    cookie = {"Cookie": f"tocsin-session={secret}"}
    calendar = get(base_url, "/api/tocsin/calendar/", token)["url"]
    return Tenant(base_url, token, *found.values(), cookie, urlsplit(str(calendar)).path, mail_port)


def get(base_url: str, path: str, token: str) -> dict[str, object]:
    """Return the answer to a question."""
    client = HTTPConnection(urlsplit(base_url).netloc, timeout=SETUP_S)
    try:
        client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        found: dict[str, object] = json.loads(client.getresponse().read())
    finally:
        client.close()
    return found
