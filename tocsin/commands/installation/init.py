"""`tocsin init`: ask the few questions of a new installation, write tocsin.toml, and send a test message."""

import json
import os
import sys
from pathlib import Path

import click

from runtime import data_folder, logs, settings_file
from runtime.settings import (
    DEFAULT,
    ENVIRONMENT,
    FILE,
    SETTINGS,
    Given,
    Settings,
    load,
    parse_settings,
    read_given,
)
from tocsin.commands.output import to_printable
from tocsin.commands.read_only import BadArguments

# The port of a mail relay, by the value of smtp_tls.
PORTS = {"none": 25, "starttls": 587, "tls": 465}
PARSERS = {setting.name: setting.parse for setting in SETTINGS}
DEFAULTS = {setting.name: Given(setting.default, DEFAULT, setting.variable) for setting in SETTINGS}


@click.command()
def init() -> None:
    """Ask for the public URL, the mail relay, the first person and the account; write tocsin.toml; send a
    test message.

    Exit code 1: the test message was not sent. The file is written nevertheless. 2: the answers cannot be
    used together, or with the data in the folder. Then no file is written.
    """
    logs.configure("error", "init")
    settings = load()
    path = settings.home / settings_file.NAME
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadArguments(
            f"init asks questions, so it needs a terminal. Without one, write {path}: see docs/settings.md"
        )
    if path.exists():
        raise click.ClickException(f"{path} exists: change it with an editor, and restart Tocsin")
    data_folder.prepare(settings.home)
    values = {**_ask_for_page(settings.public_url), **_ask_for_relay(), **_ask_for_person()}
    name, account = _ask_for_names()
    first_alert = _prepare(_combine(path, values))
    _store_names(name, account)
    write_settings(path, values)
    click.echo(to_printable(f"{path} is written."))
    if not values.get("smtp_host"):
        click.echo("There is no mail relay, so nobody can be notified. Add smtp_host to the file later.")
        _describe_next(first_alert)
        return
    while not _send_test_message():
        if not click.confirm("Enter the mail relay again?", default=True):
            sys.exit(1)
        values = {name: text for name, text in values.items() if not name.startswith("smtp_")}
        values |= _ask_for_relay()
        _combine(path, values)
        write_settings(path, values)
    _describe_next(first_alert)


def _describe_next(first_alert: str | None) -> None:
    click.echo("Start Tocsin with `tocsin up`. If it runs, restart it.")
    if first_alert:
        click.echo(to_printable(f"Then send a first alert: {first_alert}"))


def _ask_for_page(default: str) -> dict[str, str]:
    click.echo("The URL under which phones reach Tocsin. Links in messages begin with it.")
    return {"public_url": _ask("public_url", "Public URL", default)}


def _ask_for_relay() -> dict[str, str]:
    host = _ask("smtp_host", "Mail relay (empty: none)", "")
    if not host:
        return {"smtp_host": ""}
    tls = _ask("smtp_tls", "Encryption: none, starttls or tls", "starttls")
    values = {"smtp_host": host, "smtp_tls": tls, "smtp_port": _ask("smtp_port", "Port", str(PORTS[tls]))}
    # Without TLS, Tocsin sends no password.
    user = _ask("smtp_user", "User name (empty: no login)", "") if tls != "none" else ""
    if user:
        values |= {
            "smtp_user": user,
            "smtp_password": click.prompt("Password", hide_input=True, value_proc=_check_text),
        }
    return {**values, "smtp_from": _ask("smtp_from", "Sender address", None)}


def _ask_for_person() -> dict[str, str]:
    click.echo("The first person owns the account and is notified first.")
    return {"owner_email": _ask("owner_email", "Your e-mail address", None)}


def _ask_for_names() -> tuple[str, str]:
    """Return the name of the owner and that of the account. They are rows of the database, not settings."""
    name = click.prompt(
        "Your first and last name (empty: none)", default="", value_proc=_check_name, show_default=False
    )
    click.echo("The account is your organization: its name is in messages to people who are invited.")
    question = "Account name (empty: Default for a new installation)"
    return name, click.prompt(question, default="", value_proc=_check_name, show_default=False)


def _check_name(text: str) -> str:
    from tocsin.commands.names import MAX_NAME

    if len(_check_text(text)) > MAX_NAME:
        raise click.BadParameter(f"a name has at most {MAX_NAME} characters.")
    return text.strip()


def _store_names(name: str, account: str) -> None:
    """Store the names that are not empty for the owner and the account."""
    from models.people.owner_email import find_owner
    from models.store.store import connection, store
    from models.tables.accounts import Account, User, bump_version
    from tocsin.commands.names import split_name

    with connection(), store().write_transaction():
        owner = find_owner()
        if owner is None or not (name or account):
            return
        if name:
            first_name, last_name = split_name(name)
            User.update(first_name=first_name, last_name=last_name).where(User.id == owner.id).execute()
        if account:
            Account.update(name=account).where(Account.id == owner.account_id).execute()
        bump_version(owner.account_id)


def _ask(name: str, question: str, default: str | None) -> str:
    """Ask until the value can be used, and return it."""

    def check(text: str) -> str:
        try:
            PARSERS[name](_check_text(text).strip())
        except ValueError as error:
            raise click.BadParameter(f"It must {error}.") from None
        return text.strip()

    answer: str = click.prompt(question, default=default, value_proc=check, show_default=bool(default))
    return answer


def _check_text(text: str) -> str:
    if not text.isprintable():
        raise click.BadParameter("It must have no control characters.")
    return text


def _combine(path: Path, values: dict[str, str]) -> Settings:
    """Return the settings as they will be with only these values in the file. Raise BadSetting."""
    # After a failed test message, the file has the answers of the first try. They are replaced.
    given = {name: DEFAULTS[name] if one.source == FILE else one for name, one in read_given().items()}
    for name, text in values.items():
        if text and given[name].source != ENVIRONMENT:
            given[name] = Given(text, FILE, f"{name} in {path}")
    return parse_settings(given)


def _prepare(settings: Settings) -> str | None:
    """Prepare the installation as its first start does. This refuses an owner who cannot be the owner.

    Return a command that sends an alert if this is the first start: later starts do not print it.
    """
    from tocsin.server.first_start import prepare

    credentials = prepare(settings)
    return credentials.build_curl() if credentials is not None else None


def write_settings(path: Path, values: dict[str, str]) -> None:
    """Write the file atomically, readable only by its owner. A text of JSON is a text of TOML."""
    lines = ["# Settings of Tocsin: see docs/settings.md. The environment wins."]
    lines += [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in values.items() if text]
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _send_test_message() -> bool:
    """Send a test message to the owner with the settings of the file."""
    from models.people.owner_email import find_owner
    from models.store.store import connection
    from tocsin.commands.account.test_message import list_contacts, send_test
    from workers.delivery import deliver

    deliver.configure(load())
    with connection():
        owner = find_owner()
        results = [send_test(contact) for contact in list_contacts(owner)] if owner else []
    for result in results:
        click.echo(to_printable(f"Test message to {result['contact']}: {result['outcome']}"))
    return all(result["state"] == "sent" for result in results)
