"""Write the tables of docs/performance.md from a file of results."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.budgets import list_verdicts
from bench.idle import QuietKey
from bench.report import COLUMNS, TEXT_COLUMNS, format_machine
from bench.results import ROOT, BadFile, Recorded
from bench.run import Figures

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
QUICK = ", with a tenth of all numbers"
# Columns of the terminal that the page leaves out.
LEFT_OUT = frozenset({"entities", "batch", "max ms", "notifications", "refused", "unknown"})
NOTIFY = frozenset({"messages", "notify p50 ms", "notify p99 ms"})
SHOWN = tuple(column for column in COLUMNS if column[0] not in LEFT_OUT)


def write_page(path: Path, recorded: Recorded) -> None:
    """Replace the text between the marks of a page. Raise BadFile without both marks."""
    text = path.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise BadFile(f"{path} does not contain {BEGIN} and {END}")
    path.write_text(f"{head}{BEGIN}\n\n{format_page(recorded)}\n{END}{tail}")


def format_page(recorded: Recorded) -> str:
    """Return the tables of runs and of budgets in Markdown, with the date, the machine and the versions."""
    results = recorded.results
    sections = [
        "\n".join(_list_rows(results.runs)),
        "\n".join(f"{name}: not measured: {why}." for name, why in results.unavailable.items()),
        "\n".join(map(_describe_quiet_key, results.quiet)),
        "\n".join(
            f"Idle for {one.seconds:.0f} s, {one.target}: {one.cpu_share:.1f} % of a core, {one.mib:.0f} MiB."
            for one in results.idle
        ),
        "\n".join(_list_budget_rows(recorded)),
        f"Measured on {recorded.measured_at:%-d %B %Y}{QUICK if recorded.quick else ''}; "
        f"{results.server or 'no PostgreSQL'}; "
        f"{format_machine(recorded.machine)}.\n"
        f"Versions: {', '.join(f'{name} {text}' for name, text in recorded.versions.items())}.",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


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
