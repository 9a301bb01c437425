"""Format results as aligned tables or as JSON, with a description of the machine."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.budgets import Verdict, list_verdicts
from bench.idle import Idle, QuietKey
from bench.run import Figures
from bench.suite import Results

# Heading, field, format.
COLUMNS = (
    ("target", "target", "{}"),
    ("run", "name", "{}"),
    ("operation", "way", "{}"),
    ("services", "services", "{}"),
    ("alerts", "alerts", "{:,}"),
    ("entities", "entities", "{:,}"),
    ("batch", "batch", "{}"),
    ("conns", "connections", "{}"),
    ("accept/s", "accept_rate", "{:,.0f}"),
    ("p50 ms", "p50_ms", "{:.1f}"),
    ("p99 ms", "p99_ms", "{:.1f}"),
    ("max ms", "max_ms", "{:.0f}"),
    ("full/s", "full_rate", "{:,.0f}"),
    ("notifications", "notifications", "{:,}"),
    ("messages", "messages", "{:,}"),
    ("notify p50 ms", "notification_p50_ms", "{:,.0f}"),
    ("notify p99 ms", "notification_p99_ms", "{:,.0f}"),
    ("CPU ms/alert", "cpu_ms", "{:.2f}"),
    ("peak MiB", "peak_mib", "{:.0f}"),
    ("elsewhere %", "other_load", "{:.0f}"),
    ("refused", "refused", "{}"),
    ("unknown", "unknown", "{}"),
)
# Columns with text; the others have numbers and are aligned to the right.
TEXT_COLUMNS = frozenset(
    {
        "target",
        "run",
        "operation",
        "what",
        "verdict",
        "budget",
        "attack",
        "answers by status",
        "process",
        "goal",
    }
)

LEGEND = """\
accept: 2xx answers per second while alerts are sent.
full: alerts per second from the first request until the end of all work. Then each alert is stored and
counted once under its entity, and a sink has received one message about it. Alerta sends no messages.
CPU: user and system time per alert of all processes of the target, with its Redis and the backends of its
database, read from /proc. Not included: the sender, the sink, PostgreSQL's processes for all databases.
Processes are read once a second. Backends that live for a shorter time are missed: Alerta's CPU is too low.
peak: memory (PSS) of the same processes.
elsewhere: share of all cores that other processes used. A ratio is reliable only if both are low."""


def format_runs(runs: Sequence[Figures]) -> str:
    rows = [[form.format(getattr(run, name)) for _, name, form in COLUMNS] for run in runs]
    return align([heading for heading, _, _ in COLUMNS], rows)


def format_report(results: Results, machine: Mapping[str, Any]) -> str:
    sections = [
        format_runs(results.runs),
        *(f"{name}: not measured: {why}" for name, why in results.unavailable.items()),
        *map(_format_quiet_key, results.quiet),
        *map(_format_idle, results.idle),
        _format_verdicts(list_verdicts(results)),
        LEGEND,
        f"{results.server or 'no PostgreSQL'}, {format_machine(machine)}",
    ]
    return "\n\n".join(sections)


def _format_quiet_key(one: QuietKey) -> str:
    return (
        f"{one.target}, {one.alerts} alerts of a quiet key while {one.pending_at_start:,} to "
        f"{one.pending_at_end:,} of another were pending: accept p99 {one.accept_p99_ms:.0f} ms, "
        f"notify p50 {one.notification_p50_ms:.0f} ms, p99 {one.notification_p99_ms:.0f} ms"
    )


def _format_idle(one: Idle) -> str:
    return f"{one.target}, idle for {one.seconds:.0f} s: {one.cpu_share:.1f} % of a core, {one.mib:.0f} MiB"


def _format_verdicts(found: Iterable[Verdict]) -> str:
    rows = [[one.what, one.format_measured(), one.budget, one.format_floor(), one.verdict] for one in found]
    return align(["what", "measured", "budget", "floor", "verdict"], rows)


def align(heading: list[str], rows: list[list[str]]) -> str:
    """Format a table. Columns with numbers are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if name in TEXT_COLUMNS else cell.rjust(width)
            for name, cell, width in zip(heading, row, widths, strict=True)
        ).rstrip()
        for row in [heading, *rows]
    )


def build_json(results: Results, machine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "machine": dict(machine),
        "server": results.server,
        "runs": [asdict(run) for run in results.runs],
        "quiet_key": [asdict(one) for one in results.quiet],
        "idle": [asdict(one) for one in results.idle],
        "not_measured": results.unavailable,
        "budgets": [asdict(one) for one in list_verdicts(results)],
    }


def describe_machine() -> dict[str, Any]:
    """Describe the machine. Call this before the load begins."""
    return {
        "cores": os.cpu_count(),
        "processor": _read_processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def format_machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in machine.items())


def _read_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")
