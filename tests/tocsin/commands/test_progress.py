"""A terminal shows how far a long command has come; scripts see nothing of it."""

import sys

import pytest

from tocsin.commands import progress


@pytest.fixture
def on_terminal(monkeypatch):
    """Return a function that lets standard error be a terminal, as it is in the test."""
    return lambda: monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_scripts_see_nothing(capsys):
    with progress.show_bytes("backup", 100) as on_bytes:
        on_bytes(100)
    progress.show_step("0002_next")

    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_on_standard_error(capsys, on_terminal):
    on_terminal()
    with progress.show_bytes("restore", 100) as on_bytes:
        on_bytes(50)
        on_bytes(50)

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "restore" in shown.err
    assert "100%" in shown.err


def test_without_a_total_a_terminal_shows_the_bytes_so_far(capsys, on_terminal):
    on_terminal()
    with progress.show_bytes("backup") as on_bytes:
        on_bytes(3_000_000)

    assert "backup  3 MB" in capsys.readouterr().err


def test_a_terminal_shows_each_migration_before_it_begins(capsys, on_terminal):
    on_terminal()
    progress.show_step("0002_next")

    assert capsys.readouterr().err == "applying 0002_next ...\n"
