"""Prepare an installation at the start of a process: schema, secrets and, at the first start, an account.

With this account a user can send the first alert immediately.
"""

import json
import os
import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from models.changes.record import Actor
from models.domain.applications import APPLICATIONS, GENERIC, PROMETHEUS
from models.domain.enums import AccountRole, Way
from models.people import owner_email, provisioning
from models.store.migrate import create_schema
from models.store.opening import open_store
from models.store.store import STORE_ERRORS, connection, store
from models.tables.accounts import Account, Secret, User
from models.tables.changes import Change
from models.tables.services import Integration
from models.tables.teams import EscalationPolicy
from runtime import data_folder
from runtime.settings import Settings
from tocsin.server.sign_in_url import build_sign_in_url

log = structlog.get_logger()

# The pause while the database cannot be written.
RETRY_S = 2.0
# How long the first alert may take until the answer has its incident. Most take some hundredths.
FIRST_ALERT_S = 5
# The key that signs the links in messages.
LINKS = "links"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The data that a new user needs to send an alert and to use the interface."""

    base_url: str
    token: str
    account_id: str
    username: str
    integration_key: str
    webhook_urls: dict[str, list[str]]

    def build_curl(self) -> str:
        """Return a command that opens an incident and shows its number and the trace_id of the alert."""
        alert = {"message": "Disk is almost full", "summary": "/var at 96 %", "alert_type": "critical"}
        alert["entity_id"] = "db1-var"
        url = self.webhook_urls[APPLICATIONS[GENERIC].extension][0]
        words = ["curl", "-X", "POST", url, "-H", f"Prefer: wait={FIRST_ALERT_S}"]
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(alert)]
        return shlex.join(words)


def get_credentials_path(settings: Settings) -> Path:
    return settings.home / "credentials.json"


def prepare(settings: Settings, schema: Callable[[Path], list[str]] = create_schema) -> Credentials | None:
    """Open the store. Return the credentials at the first start, None at later starts.

    Any process may be the first: the processes wait for each other, and one of them creates the account.
    `schema` handles a database with pending migrations: create_schema raises an error unless the database is
    empty, migrate applies them.
    """
    data_folder.prepare(settings.home)
    open_store(settings.database_url, settings.home)
    if applied := schema(settings.home):
        log.info("database migrations applied", applied=applied)
    with connection():
        if _is_provisioned():
            _apply_owner_email(settings.owner_email)
            return None
        with store().write_transaction():
            store().lock_table(Secret)
            return None if _is_provisioned() else _provision(settings)


def prepare_process(
    settings: Settings, schema: Callable[[Path], list[str]] = create_schema
) -> Credentials | None:
    """Prepare as above. While the database is full or read-only, for example after a failover, try again.

    A process that ended instead would need somebody to start it. Raises all other errors.
    """
    while True:
        try:
            return prepare(settings, schema)
        except STORE_ERRORS as error:
            if not store().refuses_writes(error):
                raise
            log.warning(
                "the database is full or read-only: waiting until it can be written",
                reason=str(error).splitlines()[0],
                retry_s=RETRY_S,
            )
            time.sleep(RETRY_S)


def _apply_owner_email(email: str) -> None:
    """Apply the setting if it is new or was changed. Raises BadSetting if it cannot be applied."""
    if owner_email.is_applied(email):
        return
    with store().write_transaction():
        store().lock_table(Secret)
        if not owner_email.is_applied(email) and owner_email.apply(email):
            log.info("the owner of the account has the address of TOCSIN_OWNER_EMAIL")


def _is_provisioned() -> bool:
    return Secret.select().where(Secret.name == LINKS).exists()


def _provision(settings: Settings) -> Credentials | None:
    """Create the rows of the first start and the file with the credentials.

    The file is on disk before the rows are committed. A crash in between leaves a file without rows, and the
    next start writes the file again. So the database never contains a token that nobody knows.
    """
    Secret.create(name=LINKS, value=secrets.token_urlsafe(32))
    if Account.select().exists():
        if not owner_email.is_applied(settings.owner_email):
            owner_email.apply(settings.owner_email)
        return None
    if settings.owner_email != owner_email.UNSET:
        owner_email.store_applied(settings.owner_email)
    now = store().now()
    account, owner = provisioning.create_account("Default", settings.owner_email, now)
    team = provisioning.create_team(account, "First team", owner, now)
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    service = provisioning.create_service(team, "First service", policy, owner, now)
    integrations = {
        application: provisioning.create_integration(
            service, APPLICATIONS[application].name, application, owner, now
        )
        for application in (GENERIC, PROMETHEUS)
    }
    credentials = _build_credentials(settings, account, owner, integrations)
    _write(get_credentials_path(settings), credentials)
    return credentials


def _build_credentials(
    settings: Settings, account: Account, owner: User, integrations: dict[str, Integration]
) -> Credentials:
    return Credentials(
        base_url=settings.public_url,
        token=provisioning.issue_token(owner, "first start", store().now()),
        account_id=account.account_identifier,
        username=owner.username,
        integration_key=integrations[GENERIC].integration_key,
        webhook_urls={
            APPLICATIONS[application].extension: build_webhook_urls(
                settings.public_url,
                account.account_identifier,
                APPLICATIONS[application].extension,
                integration.integration_key,
            )
            for application, integration in integrations.items()
        },
    )


def build_webhook_urls(base: str, account_identifier: str, extension: str, key: str) -> list[str]:
    """Return both forms of the webhook URL of an integration (contract X36)."""
    return [
        f"{base}/api/integration/{extension}/{key}/",
        f"{base}/integration/{account_identifier}/{extension}/{key}/",
    ]


def _write(path: Path, credentials: Credentials) -> None:
    """Write the file atomically and durably, readable only by its owner."""
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


def find_first_sign_in(settings: Settings) -> str:
    """Return a link with which the owner of the first account signs in; "" after the first sign-in."""
    with connection(), store().write_transaction():
        owner = User.select().where(User.role == AccountRole.OWNER).order_by(User.id).first()
        signed_in = Change.select().where(Change.user == owner, Change.action == "signed_in")
        if owner is None or signed_in.exists():
            return ""
        return build_sign_in_url(settings, owner, Actor("first start", Way.SYSTEM))


def build_welcome(
    settings: Settings, credentials: Credentials | None, *, to_terminal: bool, sign_in: str = ""
) -> str:
    """Return the text to print when all processes are ready. Only the text for a terminal has secrets.

    `sign_in`: the link with which the owner signs in for the first time.
    """
    ready = f"Tocsin is ready at {settings.public_url}"
    path = get_credentials_path(settings)
    if not to_terminal:
        return f"{ready} (credentials: {path})" if path.exists() else ready
    first = ["", "Sign in with this link, once and within an hour:", "", sign_in, ""] if sign_in else []
    if credentials is None:
        return "\n".join([f"{ready} (credentials: {path})" if path.exists() else ready, *first])
    lines = [ready, ""]
    for name in ("base_url", "token", "account_id", "username", "integration_key"):
        lines.append(f"  {name:16} {getattr(credentials, name)}")
    for urls in credentials.webhook_urls.values():
        lines += [f"  {'webhook_url':16} {url}" for url in urls]
    lines += ["", f"They are stored in {path}", "", "Send a first alert:", "", credentials.build_curl(), ""]
    lines += ["The answer has the number of its incident. See why people are notified: tocsin why last", ""]
    return "\n".join([*lines, *first[1:]])
