"""The `tocsin` command: a table of commands, each loaded only when it is called."""

import importlib
import sys
from typing import Any

import click

# Name -> where its click command stands, and what `tocsin --help` says of it.
COMMANDS: dict[str, tuple[str, str]] = {
    "up": (
        "tocsin.commands.processes:up",
        "Run everything: web, worker, clock, and Redis unless there is one.",
    ),
    "web": ("tocsin.commands.processes:web", "Run a web process."),
    "worker": ("tocsin.commands.processes:worker", "Run a worker process."),
    "clock": ("tocsin.commands.processes:clock", "Run a clock process."),
    "migrate": ("tocsin.commands.processes:migrate", "Bring the database up to date."),
    "settings": ("tocsin.commands.settings:settings", "Show every setting, its value and its meaning."),
    "account": ("tocsin.commands.accounts:account", "Add accounts, and hand them over."),
    "user": ("tocsin.commands.accounts:user", "Add users to an account."),
    "test-message": (
        "tocsin.commands.test_message:test_message",
        "Send a test message to somebody's contacts.",
    ),
    "token": ("tocsin.commands.accounts:token", "Create, list and revoke API tokens."),
    "oncall": (
        "tocsin.commands.oncall:oncall",
        "Tell who is on call, and whom each escalation policy would tell.",
    ),
    "check": ("tocsin.commands.check:check", "Find gaps and conflicts of schedules, and who cannot be told."),
    "simulate": (
        "tocsin.commands.simulate:simulate",
        "Tell who would be told of an alert at any moment, and why.",
    ),
    "why": ("tocsin.commands.why:why", "Tell why an alert told somebody, or did not."),
    "dead-letters": (
        "tocsin.commands.dead_letters:dead_letters",
        "See what was set aside with its error; take it up again, or drop it.",
    ),
}


class Commands(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, meaning) for name, (_, meaning) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tocsin", message="%(version)s")
def tocsin() -> None:
    """Self-hosted incident management and on-call."""


def main() -> None:
    """Run a command. What an operator can mend is one line on standard error, never a traceback.

    Exit codes: 1 when something could not be done, 2 when the command or a setting cannot be used. Those
    that only look have more of them (tocsin/commands/read_only.py).
    """
    if any("\udc80" <= char <= "\udcff" for arg in sys.argv for char in arg):
        _exit_with_error("what stands on the command line is not UTF-8", 2)
    try:
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


# Errors by their module, which is loaded wherever they can come from.
USAGE_ERRORS = (("runtime.settings", "BadSetting"), ("models.store.postgresql", "BadUrl"))
KNOWN_ERRORS = (
    ("builtins", "OSError"),
    ("peewee", "OperationalError"),
    ("models.store.migrate", "SchemaOutdated"),
    ("models.store.migrate", "SchemaUnknown"),
    ("tocsin.server.embedded_redis", "NoServer"),
    ("tocsin.server.supervisor", "AlreadyUp"),
)


def _load_errors(errors: tuple[tuple[str, str], ...]) -> tuple[type[Exception], ...]:
    return tuple(getattr(sys.modules[name], error) for name, error in errors if name in sys.modules)


def _exit_with_error(error: Any, code: int) -> None:
    first = str(error).strip().splitlines() or [type(error).__name__]
    click.echo(f"tocsin: {first[0]}", err=True)
    sys.exit(code)
