"""The results of a run are stored in a file, and the tables of the page are made from it."""

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.idle import Idle, QuietKey
from bench.page import PAGES, PARTS, get_marks
from bench.results import BadFile, read_results, write_results
from bench.suite import POSTGRES, SQLITE, STORM, Results
from tests.support.bench.figures import figures

RESULTS = Results(
    [
        figures(POSTGRES, STORM, 4_321, way="generic webhook"),
        figures("Alerta", STORM, 100, messages=0),
    ],
    [QuietKey(POSTGRES, 100, 9_000, 8_000, 5.0, 70.0, 189.0)],
    [Idle(SQLITE, 20.0, 0.9, 224.0)],
    {"Alertmanager": "not installed"},
    "PostgreSQL 15.20, fsync on",
)
MACHINE = {"cores": 2, "python": "3.11.7"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, RESULTS, MACHINE)
    return path


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    parts = "\n\n".join(f"{begin}\n\nold figures\n\n{end}" for begin, end in map(get_marks, PARTS))
    path.write_text(f"# Page\n\n{parts}\n\nThe end.\n")
    return path


def report(*words):
    return CliRunner().invoke(main, ["report", *map(str, words)])


def test_a_file_has_all_figures_the_machine_and_the_versions(file):
    recorded = read_results(file)

    assert recorded.results == RESULTS
    assert recorded.machine == MACHINE
    assert {"Tocsin", "peewee", "SQLite"} <= set(recorded.versions)


def test_the_tables_of_a_page_are_made_from_a_file(file, page):
    assert report(file, "--page", page).exit_code == 0

    text = page.read_text()
    assert text.startswith(f"# Page\n\n{get_marks('budgets')[0]}\n\n| what | measured | budget |")
    assert f"{get_marks('runs')[0]}\n\n| target | run | operation |" in text
    assert text.endswith(f"\n{get_marks('runs')[1]}\n\nThe end.\n")
    assert "old figures" not in text
    assert "| Tocsin, PostgreSQL | storm | generic webhook | 1 | 1 | 1 | 1 | 1.0 | 1.0 | 4,321 | 1 |" in text
    assert "| Alerta | storm | 1 | 1 | 1 | 1 | 1 | 1.0 | 1.0 | 100 | none |  |  |" in text
    assert (
        "| full rate, storm, against Alerta | 43.21 | >= 45 x | 30 | missed, above the floor of 30 |" in text
    )
    assert "with a tenth" not in text
    assert "Alertmanager: not measured: not installed." in text
    assert "notify p50 70 ms and p99 189 ms." in text
    assert "0.9 % of a core, 224 MiB." in text
    assert "PostgreSQL 15.20, fsync on; cores: 2, python: 3.11.7." in text


def test_the_page_says_if_the_run_was_short(tmp_path, page):
    path = tmp_path / "quick.json"
    write_results(path, RESULTS, MACHINE, quick=True)
    report(path, "--page", page)

    assert ", with a tenth of all numbers; PostgreSQL" in page.read_text()


def test_a_second_report_changes_nothing(file, page):
    report(file, "--page", page)
    once = page.read_text()
    report(file, "--page", page)

    assert page.read_text() == once


@pytest.mark.parametrize("text", ["", "{}", '{"runs": [{"target": "x"}]}', "[]"])
def test_a_file_without_results_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)

    with pytest.raises(BadFile, match="no results"):
        read_results(path)


def test_a_page_without_marks_stays_as_it_is(file, page):
    page.write_text("no marks\n")
    ended = report(file, "--page", page)

    assert (ended.exit_code, page.read_text()) == (1, "no marks\n")
    assert "does not contain" in ended.output


def test_a_missing_file_is_named(tmp_path, page):
    assert "none.json cannot be read: No such file" in report(tmp_path / "none.json", "--page", page).output


def test_a_page_gets_only_the_tables_for_which_it_has_marks(file, page):
    begin, end = get_marks("budgets")
    page.write_text(f"{begin}\n{end}\n")
    report(file, "--page", page)

    assert "| what | measured | budget |" in page.read_text()
    assert "| target | run | operation |" not in page.read_text()


def test_the_pages_of_the_project_have_the_marks():
    found = [
        name for page in PAGES for name in PARTS if all(mark in page.read_text() for mark in get_marks(name))
    ]

    assert found == list(PARTS)
