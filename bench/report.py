"""Figures as an aligned table, or as JSON, with the machine that they were measured on."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.run import Figures

# Heading, field, format.
COLUMNS = (
    ("run", "name", "{}"),
    ("alerts", "alerts", "{:,}"),
    ("entities", "entities", "{:,}"),
    ("batch", "batch", "{}"),
    ("conns", "connections", "{}"),
    ("accept/s", "accept_rate", "{:,.0f}"),
    ("p50 ms", "p50_ms", "{:.1f}"),
    ("p90 ms", "p90_ms", "{:.1f}"),
    ("p99 ms", "p99_ms", "{:.1f}"),
    ("max ms", "max_ms", "{:.0f}"),
    ("full/s", "full_rate", "{:,.0f}"),
    ("all told s", "all_told_s", "{:.1f}"),
    ("notices", "notices", "{:,}"),
    ("mails", "mails", "{:,}"),
    ("notice p50 ms", "notice_p50_ms", "{:,.0f}"),
    ("notice p99 ms", "notice_p99_ms", "{:,.0f}"),
    ("CPU s/1000", "cpu_s_per_1000", "{:.2f}"),
    ("peak MiB", "peak_mib", "{:.0f}"),
    ("refused", "refused", "{}"),
    ("unknown", "unknown", "{}"),
)


def table(runs: Sequence[Figures]) -> str:
    rows = [[heading for heading, _, _ in COLUMNS]]
    rows += [[form.format(getattr(run, name)) for _, name, form in COLUMNS] for run in runs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = (
        cell.ljust(width) if place == 0 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([name, *numbers])


def as_json(runs: Sequence[Figures], machine: Mapping[str, Any]) -> dict[str, Any]:
    return {"machine": dict(machine), "runs": [asdict(run) for run in runs]}


def this_machine() -> dict[str, Any]:
    """What it is measured on; to be asked before the load begins."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def machine_line(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in machine.items())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")
