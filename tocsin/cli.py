"""The `tocsin` command: a table of commands, each loaded only when it is called."""

import gc
import importlib
import os
import sys
from pathlib import Path

import click

# Name -> the import path of its click command, and its text in `tocsin --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": (
        "tocsin.commands.installation.init:init",
        "Ask for the public URL, the mail relay and the first person, and write tocsin.toml.",
    ),
    "up": (
        "tocsin.commands.installation.processes:up",
        "Run web, worker and clock, and Redis if TOCSIN_REDIS_URL is not set.",
    ),
    "web": ("tocsin.commands.installation.processes:web", "Run a web process."),
    "worker": ("tocsin.commands.installation.processes:worker", "Run a worker process."),
    "clock": ("tocsin.commands.installation.processes:clock", "Run a clock process."),
    "listener": (
        "tocsin.commands.installation.processes:listener",
        "Run a listener process, for Slack over a connection, Telegram, and alerts by mail.",
    ),
    "migrate": (
        "tocsin.commands.installation.processes:migrate",
        "Apply the pending migrations to the database.",
    ),
    "health": (
        "tocsin.commands.installation.health:health",
        "Say whether the web process on this host can accept alerts.",
    ),
    "backup": (
        "tocsin.commands.installation.backup:backup",
        "Write a backup of the database into a new file, while Tocsin runs.",
    ),
    "restore": (
        "tocsin.commands.installation.backup:restore",
        "Restore a backup into a new data folder or an empty database, paused.",
    ),
    "resume": (
        "tocsin.commands.installation.backup:resume",
        "End the pause of a restored copy: process alerts, fire timers, send messages.",
    ),
    "settings": (
        "tocsin.commands.installation.settings:settings",
        "Show every setting, its value and its meaning.",
    ),
    "account": ("tocsin.commands.account.accounts:account", "Add accounts and transfer their ownership."),
    "user": ("tocsin.commands.account.accounts:user", "Add users, and help those who cannot sign in."),
    "test-message": (
        "tocsin.commands.account.test_message:test_message",
        "Send a test message to the contacts of a user.",
    ),
    "token": ("tocsin.commands.account.accounts:token", "Create, list and revoke API tokens."),
    "application": (
        "tocsin.commands.account.applications:application",
        "Add IDs of applications that an account brings from elsewhere.",
    ),
    "rotate-link-key": (
        "tocsin.commands.installation.link_key:rotate_link_key",
        "Replace the key that signs links: all links of before end.",
    ),
    "stakeholders": (
        "tocsin.commands.account.stakeholders:stakeholders",
        "List and change the addresses outside the account that alerts may mail.",
    ),
    "oncall": (
        "tocsin.commands.account.oncall:oncall",
        "Show who is on call, and whom each escalation policy would notify.",
    ),
    "check": (
        "tocsin.commands.installation.check:check",
        "Find gaps and conflicts in schedules, and people without a way to notify them.",
    ),
    "send": (
        "tocsin.commands.alerts.send:send",
        "Send the example of a monitoring tool to an integration, to try it.",
    ),
    "simulate": (
        "tocsin.commands.alerts.simulate:simulate",
        "Show who would be notified of an alert at a given time, and why.",
    ),
    "drill": (
        "tocsin.commands.alerts.drill:drill",
        "Notify the people of a policy of a drill, and report who acknowledges.",
    ),
    "why": (
        "tocsin.commands.alerts.why:why",
        "Show what happened to an alert, and who was notified or not, and why.",
    ),
    "alerts": (
        "tocsin.commands.alerts.recent:list_alerts",
        "List the alerts that came in, and those that reached nobody.",
    ),
    "incidents": (
        "tocsin.commands.alerts.recent:list_incidents",
        "List the open incidents, and those that reached nobody.",
    ),
    "ack": ("tocsin.commands.alerts.ack_and_resolve:acknowledge", "Acknowledge an incident by its number."),
    "resolve": ("tocsin.commands.alerts.ack_and_resolve:resolve", "Resolve an incident by its number."),
    "dead-letters": (
        "tocsin.commands.alerts.dead_letters:dead_letters_group",
        "List, replay or drop dead letters: alerts that Tocsin could not process.",
    ),
}


class Commands(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name][0].split(":")
        # Modules are no garbage: a search for it while they load needs a tenth of the time of a command.
        gc.disable()
        command: click.Command = getattr(importlib.import_module(module), attribute)
        gc.enable()
        add_home_option(command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Whichever it is, close its connections to the database at its end."""
        try:
            return super().invoke(ctx)
        finally:
            # A command that needs no database has not loaded this module.
            if store := sys.modules.get("models.store.store"):
                store.close_store()

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, meaning) for name, (_, meaning) in COMMANDS.items()])


def _use_home(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Let this process and those that it starts use this data folder."""
    if value is not None:
        os.environ["TOCSIN_HOME"] = str(Path(value).absolute()) if value.strip() else value


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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
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
USAGE_ERRORS = (("runtime.setting_values", "BadSetting"), ("models.store.postgresql_pool", "BadUrl"))
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
