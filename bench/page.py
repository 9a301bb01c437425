"""Write the tables of docs/performance.md and of docs/experiments/runs.md from a file of results."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.budgets import list_verdicts
from bench.idle import QuietKey
from bench.report import COLUMNS, TEXT_COLUMNS, format_machine
from bench.results import ROOT, BadFile, Recorded
from bench.run import Figures

# The budgets of docs/performance.md, and all runs.
PAGES = (ROOT / "docs" / "performance.md", ROOT / "docs" / "experiments" / "runs.md")
QUICK = ", with a tenth of all numbers"
# Columns of the terminal that the page leaves out.
LEFT_OUT = frozenset({"entities", "batch", "max ms", "notifications", "refused", "unknown"})
NOTIFY = frozenset({"messages", "notify p50 ms", "notify p99 ms"})
SHOWN = tuple(column for column in COLUMNS if column[0] not in LEFT_OUT)


def write_page(path: Path, recorded: Recorded) -> None:
    """Replace the text between the marks of each part that a page has. Raise BadFile without any part."""
    text = path.read_text()
    found = [name for name in PARTS if all(mark in text for mark in get_marks(name))]
    if not found:
        raise BadFile(f"{path} does not contain {' and '.join(get_marks('runs'))}, or those of budgets")
    for name in found:
        begin, end = get_marks(name)
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{PARTS[name](recorded)}\n{end}{tail}"
    path.write_text(text)


def get_marks(part: str) -> tuple[str, str]:
    """Return the lines between which a part of a page is written."""
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"


def format_budgets(recorded: Recorded) -> str:
    """Return the table of budgets in Markdown, with the date, the machine and the versions."""
    return _join("\n".join(_list_budget_rows(recorded)), _describe_machine(recorded))


def format_run_table(recorded: Recorded) -> str:
    """Return the table of runs in Markdown, with the date, the machine and the versions."""
    results = recorded.results
    return _join(
        "\n".join(_list_rows(results.runs)),
        "\n".join(f"{name}: not measured: {why}." for name, why in results.unavailable.items()),
        "\n".join(map(_describe_quiet_key, results.quiet)),
        "\n".join(
            f"Idle for {one.seconds:.0f} s, {one.target}: {one.cpu_share:.1f} % of a core, {one.mib:.0f} MiB."
            for one in results.idle
        ),
        _describe_machine(recorded),
    )


PARTS: dict[str, Callable[[Recorded], str]] = {"budgets": format_budgets, "runs": format_run_table}


def _join(*sections: str) -> str:
    return "\n\n".join(filter(None, sections)) + "\n"


def _describe_machine(recorded: Recorded) -> str:
    return (
        f"Measured on {recorded.measured_at:%-d %B %Y}{QUICK if recorded.quick else ''}; "
        f"{recorded.results.server or 'no PostgreSQL'}; "
        f"{format_machine(recorded.machine)}.\n"
        f"Versions: {', '.join(f'{name} {text}' for name, text in recorded.versions.items())}."
    )


def _list_rows(runs: list[Figures]) -> Iterator[str]:
    yield _format_row(heading for heading, _, _ in SHOWN)
    yield "|" + "|".join("---" if heading in TEXT_COLUMNS else "---:" for heading, _, _ in SHOWN) + "|"
    last = ""
    for run in runs:
        cells = {heading: form.format(getattr(run, name)) for heading, name, form in SHOWN}
        if not run.messages:
            cells.update(dict.fromkeys(NOTIFY, ""), messages="none")
        cells["target"] = "" if run.target == last else run.target
        last = run.target
        yield _format_row(cells.values())


def _list_budget_rows(recorded: Recorded) -> Iterator[str]:
    yield _format_row(("what", "measured", "budget", "floor", "result"))
    yield "|---|---:|---:|---:|---|"
    for one in list_verdicts(recorded.results):
        yield _format_row((one.what, one.format_measured(), one.budget, one.format_floor(), one.verdict))


def _describe_quiet_key(one: QuietKey) -> str:
    pending = f"{one.pending_at_start:,} to {one.pending_at_end:,}"
    times = f"p50 {one.notification_p50_ms:.0f} ms and p99 {one.notification_p99_ms:.0f} ms"
    return f"{one.target}: a quiet key while {pending} alerts of another key are pending: notify {times}."


def _format_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
