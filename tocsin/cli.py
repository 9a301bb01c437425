"""The `tocsin` command: a table of commands, each loaded only when it is called."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from tocsin.commands.loading import load_command
from tocsin.commands.output import choose_colour, to_printable


class Declared(NamedTuple):
    """A command: the import path of its click command, and its text in `tocsin --help`."""

    path: str
    meaning: str


_ACCOUNT, _ALERTS = "tocsin.commands.account.", "tocsin.commands.alerts."
_INSTALLATION = "tocsin.commands.installation."

# The commands by what people do with them, in the order of `tocsin --help` and of docs/commands.md.
SECTIONS: dict[str, dict[str, Declared]] = {
    "Alerts and incidents": {
        "incidents": Declared(
            f"{_ALERTS}recent:list_incidents", "List the open incidents, and those that reached nobody."
        ),
        "alerts": Declared(
            f"{_ALERTS}recent:list_alerts", "List the alerts that came in, and those that reached nobody."
        ),
        "why": Declared(
            f"{_ALERTS}why:why", "Show what happened to an alert, and who was notified or not, and why."
        ),
        "ack": Declared(f"{_ALERTS}incident_actions:acknowledge", "Acknowledge an incident by its number."),
        "resolve": Declared(f"{_ALERTS}incident_actions:resolve", "Resolve an incident by its number."),
        "note": Declared(f"{_ALERTS}incident_actions:note", "Write a note on an incident."),
        "snooze": Declared(
            f"{_ALERTS}incident_actions:snooze", "Silence an acknowledged incident for a time."
        ),
        "reassign": Declared(
            f"{_ALERTS}incident_actions:reassign", "Assign an incident to a person or an escalation policy."
        ),
        "dead-letters": Declared(
            f"{_ALERTS}dead_letters:dead_letters_group",
            "List, replay or drop dead letters: alerts that Tocsin could not process.",
        ),
    },
    "On call": {
        "oncall": Declared(
            f"{_ACCOUNT}oncall:oncall", "Show who is on call, and whom each escalation policy would notify."
        ),
        "check": Declared(
            f"{_INSTALLATION}check:check",
            "Find gaps and conflicts in schedules, and people without a way to notify them.",
        ),
        "simulate": Declared(
            f"{_ALERTS}simulate:simulate", "Show who would be notified of an alert at a given time, and why."
        ),
        "drill": Declared(
            f"{_ALERTS}drill:drill", "Notify the people of a policy of a drill, and report who acknowledges."
        ),
        "test-message": Declared(
            f"{_ACCOUNT}test_message:test_message", "Send a test message to the contacts of a user."
        ),
        "maintenance": Declared(
            f"{_ACCOUNT}maintenance:maintenance", "Let the alerts of a service notify nobody for a time."
        ),
    },
    "People, services and tools": {
        "list": Declared(
            f"{_ACCOUNT}lists:list_group",
            "List users, teams, services, integrations, schedules or policies.",
        ),
        "account": Declared(f"{_ACCOUNT}accounts:account", "Add accounts and transfer their ownership."),
        "user": Declared(
            f"{_ACCOUNT}users:user", "Invite, add, rename and remove users; help those who cannot sign in."
        ),
        "token": Declared(f"{_ACCOUNT}tokens:token", "Create, list and revoke API tokens."),
        "integration": Declared(
            f"{_ACCOUNT}integrations:integration", "Add an integration to a service, and show its key."
        ),
        "send": Declared(
            f"{_ALERTS}send:send", "Send the example of a monitoring tool to an integration, to try it."
        ),
        "changes": Declared(f"{_ACCOUNT}changes:changes", "List who changed the configuration, and what."),
        "undo": Declared(f"{_ACCOUNT}changes:undo", "Undo a change of the configuration, or a batch."),
        "application": Declared(
            f"{_ACCOUNT}applications:application",
            "Add IDs of applications that an account brings from elsewhere.",
        ),
        "stakeholders": Declared(
            f"{_ACCOUNT}stakeholders:stakeholders",
            "List and change the addresses outside the account that alerts may mail.",
        ),
    },
    "Installation": {
        "init": Declared(
            f"{_INSTALLATION}init:init",
            "Ask for the public URL, the mail relay and the first person, and write tocsin.toml.",
        ),
        "up": Declared(
            f"{_INSTALLATION}processes:up",
            "Run web, worker and clock, and Redis if TOCSIN_REDIS_URL is not set.",
        ),
        "settings": Declared(
            f"{_INSTALLATION}settings:settings", "Show every setting, its value and its meaning."
        ),
        "health": Declared(
            f"{_INSTALLATION}health:health", "Say whether the web process on this host can accept alerts."
        ),
        "migrate": Declared(
            f"{_INSTALLATION}processes:migrate", "Apply the pending migrations to the database."
        ),
        "backup": Declared(
            f"{_INSTALLATION}backup:backup",
            "Write a backup of the database into a new file, while Tocsin runs.",
        ),
        "restore": Declared(
            f"{_INSTALLATION}backup:restore",
            "Restore a backup into a new data folder or an empty database, paused.",
        ),
        "resume": Declared(
            f"{_INSTALLATION}backup:resume",
            "End the pause of a restored copy: process alerts, fire timers, send messages.",
        ),
        "rotate-link-key": Declared(
            f"{_INSTALLATION}link_key:rotate_link_key",
            "Replace the key that signs links: all links of before end.",
        ),
    },
    "Processes, if each runs alone": {
        "web": Declared(f"{_INSTALLATION}processes:web", "Run a web process."),
        "worker": Declared(f"{_INSTALLATION}processes:worker", "Run a worker process."),
        "clock": Declared(f"{_INSTALLATION}processes:clock", "Run a clock process."),
        "listener": Declared(
            f"{_INSTALLATION}processes:listener",
            "Run a listener process, for Slack over a connection, Telegram, and alerts by mail.",
        ),
    },
}
COMMANDS = {name: declared for section in SECTIONS.values() for name, declared in section.items()}


class Commands(click.Group):
    """The table of commands. A command is loaded only when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        return super().make_context(info_name, args, parent, **{"color": choose_colour(), **extra})

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = load_command(COMMANDS[name].path)
        add_home_option(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that these words call. An unknown one is an error that names similar ones."""
        is_option = args[0].startswith("-")
        if args[0] not in COMMANDS and not is_option and not ctx.resilient_parsing:
            raise click.NoSuchCommand(to_printable(args[0]), possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with this text. No command is loaded for it."""
        found = [
            CompletionItem(name, help=declared.meaning)
            for name, declared in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Whichever it is, close its connections to the database at its end."""
        try:
            return super().invoke(ctx)
        finally:
            # A command that needs no database has not loaded this module.
            if store := sys.modules.get("models.store.store"):
                store.close_store()

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(click.style(title, bold=True)):
                formatter.write_dl([(name, declared.meaning) for name, declared in section.items()])


def _use_home(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Let this process and those that it starts use this data folder."""
    if value is not None:
        os.environ["TOCSIN_HOME"] = str(Path(value).absolute()) if value.strip() else value


# Longer lines are hard to read.
MAX_HELP_WIDTH = 110

home_option = click.option(
    "--home",
    metavar="FOLDER",
    expose_value=False,
    is_eager=True,
    callback=_use_home,
    help="Data folder; default: TOCSIN_HOME, or ./var.",
)


def add_home_option(command: click.Command) -> None:
    """Let a command, and the commands below it, take --home too."""
    if all(option.name != "home" for option in command.params):
        home_option(command)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        add_home_option(below)


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": MAX_HELP_WIDTH,
    },
)
@click.version_option(package_name="tocsin", message="%(version)s")
@home_option
def tocsin() -> None:
    """Self-hosted incident management and on-call."""


def main() -> None:
    """Run a command. An error that an operator can correct is one line on standard error, not a traceback.

    Exit codes: 1 if the command failed, 2 if its arguments or a setting are invalid. Commands that only
    read have more exit codes (tocsin/commands/read_only.py).
    """
    if any("\udc80" <= char <= "\udcff" for arg in sys.argv for char in arg):
        _exit_with_error("the command line is not valid UTF-8", 2)
    try:
        # Some commands create the database with the key that signs links.
        os.umask(0o077)
        tocsin.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except _load_errors(USAGE_ERRORS) as error:
        _exit_with_error(error, 2)
    except _load_errors(KNOWN_ERRORS) as error:
        _exit_with_error(error, 1)


# Errors with their modules. An error can occur only if its module is loaded.
USAGE_ERRORS = (("runtime.setting_values", "BadSetting"), ("models.store.store", "BadUrl"))
KNOWN_ERRORS = (
    ("builtins", "OSError"),
    ("peewee", "OperationalError"),
    # A database that is read-only.
    ("peewee", "InternalError"),
    ("models.store.backup.file", "BackupError"),
    ("models.store.migrate", "SchemaOutdated"),
    ("models.store.migrate", "SchemaUnknown"),
    ("models.store.migrate", "MigrationRefused"),
    ("runtime.redis_socket", "NoServer"),
    ("tocsin.server.supervisor", "AlreadyUp"),
)


def _load_errors(errors: tuple[tuple[str, str], ...]) -> tuple[type[Exception], ...]:
    return tuple(getattr(sys.modules[name], error) for name, error in errors if name in sys.modules)


def _exit_with_error(error: Exception | str, code: int) -> None:
    first = str(error).strip().splitlines() or [type(error).__name__]
    click.echo(f"tocsin: {first[0]}", err=True)
    sys.exit(code)
