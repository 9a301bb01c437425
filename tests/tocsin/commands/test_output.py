"""Tables fit the terminal, and colours can be turned off."""

import click
import pytest
from click.testing import CliRunner

from tocsin.cli import Commands
from tocsin.commands import output
from tocsin.commands.output import format_table, print_table

HEADINGS = ("TEAM", "NAME", "UNIQUE_ID")
ROWS = [("Payments", "The service with a very long name", "8f0d2f3c-3a7e-4f3b-9d0a-51c1a4f4c0de")]


def test_columns_are_aligned_below_their_headings():
    first, second = format_table(ROWS, HEADINGS)

    assert [first.index(each) for each in HEADINGS] == [second.index(each) for each in ROWS[0]]


@pytest.mark.parametrize("width", [120, 60, 50, 40])
def test_a_table_fits_the_terminal(width):
    lines = format_table(ROWS, HEADINGS, width)

    assert max(map(len, lines)) <= width
    assert "Payments" in lines[1]


def test_a_column_keeps_some_characters_in_a_very_narrow_terminal():
    assert "The servi…" in format_table(ROWS, HEADINGS, 5)[1]


def test_names_cannot_control_the_terminal():
    assert "\x1b" not in format_table([("\x1b[2J",)])[0]


def test_a_heading_and_a_status_have_a_colour():
    heading, row = format_table([("triggered", "x")], ("STATUS", "NAME"), has_colour=True)

    assert click.style("STATUS   ", bold=True) in heading
    assert click.style("triggered", fg="red") in row


@pytest.mark.parametrize(("no_color", "has_colour"), [("", True), ("1", False)])
def test_no_color_turns_colours_off(no_color, has_colour):
    result = CliRunner().invoke(Commands("tocsin"), ["--help"], env={"NO_COLOR": no_color}, color=True)

    assert ("\x1b[" in result.output) is has_colour


def test_an_empty_table_says_so(capsys):
    print_table(HEADINGS, [], "no teams")

    assert capsys.readouterr().out == "no teams\n"


def test_json_has_times_in_utc_and_no_control_characters():
    assert output.to_json({"name": "\x1b"}) == '{\n  "name": "\\u001b"\n}'
