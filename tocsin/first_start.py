"""What a start finds or makes: the schema, the installation's secrets and, in an empty data folder, an
account in which the first alert can be sent at once.
"""

import json
import os
import secrets
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from models import founding
from models.accounts import Account, Secret, User
from models.applications import APPLICATIONS, GENERIC, PROMETHEUS
from models.base import connection, db, open_store, store
from models.migrate import make_schema
from models.services import Integration
from models.teams import EscalationPolicy
from tocsin.settings import Settings

log = structlog.get_logger()

# The key that signs the links in messages.
LINKS = "links"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a newcomer needs to send an alert and to use the interface."""

    base_url: str
    token: str
    account_id: str
    username: str
    integration_key: str
    webhook_urls: dict[str, list[str]]

    def curl(self) -> str:
        """A command that makes an incident."""
        alert = {"message": "Disk is almost full", "summary": "/var at 96 %", "alert_type": "critical"}
        alert["entity_id"] = "db1-var"
        words = ["curl", "-X", "POST", f"{self.base_url}/api/events/{self.integration_key}/"]
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(alert)]
        return shlex.join(words)


def credentials_file(settings: Settings) -> Path:
    return settings.home / "credentials.json"


def prepare(settings: Settings, schema: Callable[[Path], list[str]] = make_schema) -> Credentials | None:
    """Open the store; returns credentials if this was the first start, None at all later ones.

    Any process may come first: they wait for each other, and one of them does it. `schema` is what to do
    about a database that lacks migrations: make_schema refuses all but an empty one, migrate applies them.
    """
    os.umask(0o077)
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    open_store(settings.database_url, settings.home)
    if applied := schema(settings.home):
        log.info("the database is brought up to date", applied=applied)
    with connection():
        if _is_founded():
            return None
        with store().writing():
            _wait_for_others()
            return None if _is_founded() else _found(settings)


def _is_founded() -> bool:
    return Secret.select().where(Secret.name == LINKS).exists()


def _wait_for_others() -> None:
    if store().name == "postgresql":
        db.execute_sql('lock table "secret" in share row exclusive mode')


def _found(settings: Settings) -> Credentials | None:
    """The rows of the first start. The file is on disk before they are committed: a crash in between
    leaves a file without rows, which the next start writes again, and never a token that nobody knows.
    """
    Secret.create(name=LINKS, value=secrets.token_urlsafe(32))
    if Account.select().exists():
        return None
    now = store().now()
    account, owner = founding.new_account("Default", settings.owner_email, now)
    team = founding.new_team(account, "First team", owner, now)
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    service = founding.new_service(team, "First service", policy, owner, now)
    integrations = {
        application: founding.new_integration(
            service, APPLICATIONS[application].name, application, owner, now
        )
        for application in (GENERIC, PROMETHEUS)
    }
    credentials = _credentials(settings, account, owner, integrations)
    _write(credentials_file(settings), credentials)
    return credentials


def _credentials(
    settings: Settings, account: Account, owner: User, integrations: dict[str, Integration]
) -> Credentials:
    return Credentials(
        base_url=settings.public_url,
        token=founding.new_token_for(owner, "first start", store().now()),
        account_id=account.account_identifier,
        username=owner.username,
        integration_key=integrations[GENERIC].integration_key,
        webhook_urls={
            APPLICATIONS[application].extension: webhook_urls(
                settings.public_url,
                account.account_identifier,
                APPLICATIONS[application].extension,
                integration.integration_key,
            )
            for application, integration in integrations.items()
        },
    )


def webhook_urls(base: str, account_identifier: str, extension: str, key: str) -> list[str]:
    """Both forms of an integration's webhook URL (contract X36)."""
    return [
        f"{base}/api/integration/{extension}/{key}/",
        f"{base}/integration/{account_identifier}/{extension}/{key}/",
    ]


def _write(path: Path, credentials: Credentials) -> None:
    """All of the file or nothing of it, on disk, readable by its owner alone."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(asdict(credentials), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def welcome(settings: Settings, credentials: Credentials | None, *, to_terminal: bool) -> str:
    """What is told when everything is up. Secrets are for the eyes at a terminal, never for a log."""
    ready = f"Tocsin is ready at {settings.public_url}"
    path = credentials_file(settings)
    if credentials is None or not to_terminal:
        return f"{ready} (credentials: {path})" if path.exists() else ready
    lines = [ready, ""]
    for name in ("base_url", "token", "account_id", "username", "integration_key"):
        lines.append(f"  {name:16} {getattr(credentials, name)}")
    for urls in credentials.webhook_urls.values():
        lines += [f"  {'webhook_url':16} {url}" for url in urls]
    lines += ["", f"They are kept in {path}", "", "Send a first alert:", "", credentials.curl(), ""]
    return "\n".join(lines)
