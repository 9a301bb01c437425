"""The table of commands: help in sections, similar names, completion."""

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tocsin.cli import COMMANDS, SECTIONS, Commands, tocsin


def invoke(*words):
    return CliRunner().invoke(tocsin, words)


def test_help_shows_the_commands_in_sections():
    text = invoke("--help").output

    places = [text.index(f"{title}:") for title in SECTIONS]
    assert places == sorted(places)
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


@pytest.mark.parametrize(
    ("word", "similar"), [("incident", "'incidents'"), ("resove", "'resolve'"), ("snoze", "'snooze'")]
)
def test_an_unknown_command_is_compared_with_the_known_ones(word, similar):
    refused = invoke(word)

    assert refused.exit_code == 2
    assert "Did you mean" in refused.output
    assert similar in refused.output


def test_the_shell_completes_commands_without_loading_them():
    complete = ShellComplete(tocsin, {}, "tocsin", "_TOCSIN_COMPLETE")

    assert [item.value for item in complete.get_completions([], "in")] == ["incidents", "integration", "init"]


def test_the_shell_completes_tools():
    complete = ShellComplete(tocsin, {}, "tocsin", "_TOCSIN_COMPLETE")

    assert [item.value for item in complete.get_completions(["send", "--as"], "graf")] == ["grafana"]


def list_all(command, name=""):
    """Yield each command without commands below it, with its words."""
    if isinstance(command, click.Group):
        for word in command.list_commands(click.Context(command)):
            yield from list_all(command.get_command(click.Context(command), word), f"{name} {word}".strip())
    else:
        yield name, command


# They run until they are stopped, or ask questions.
WITHOUT_JSON = {"up", "web", "worker", "clock", "listener", "init"}


def test_every_command_that_prints_a_result_can_print_json():
    without = [
        name
        for name, command in list_all(Commands())
        if name not in WITHOUT_JSON and all(option.name != "as_json" for option in command.params)
    ]

    assert without == []
