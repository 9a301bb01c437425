"""The page of dependencies lists what is installed, and each installed file is pinned by its hash."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.support.offenders import list_offenders

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED, INDIRECT, DEVELOPMENT = ("Required by Tocsin", "Required by these packages", "Only for the")

# Installed on other platforms or versions of Python only.
CONDITIONAL = {"async-timeout", "typing-extensions"}
# What is installed of these packages names no licence. Their source code does.
WITHOUT_LICENCE = {"pagerduty"}


def list_described(heading: str) -> dict[str, str]:
    """Return the packages of a section of the page, with their licences."""
    text = (ROOT / "docs" / "dependencies.md").read_text()
    (section,) = (each for each in text.split("\n## ") if each.startswith(heading))
    rows = re.findall(r"^\| ([a-z0-9-]+) \| .+ \| .+ \| (.+) \|$", section, re.MULTILINE)
    return {name: licence for name, licence in rows if name != "package"}


def list_declared(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0].lower() for each in requirements}


def read_lock(name: str) -> dict[str, str]:
    """Return the pinned requirements of a lock file, each with its lines."""
    entries = re.split(r"\n(?=[a-z])", (ROOT / name).read_text().strip())
    return {entry.partition("==")[0]: entry for entry in entries}


RUN, BUILD, DEV = (
    read_lock(f"{name}.lock") for name in ("requirements", "requirements-build", "requirements-dev")
)


def test_the_page_lists_the_packages_of_the_project_and_of_its_lock():
    declared = list_declared(PROJECT["project"]["dependencies"])

    assert list_described(REQUIRED).keys() == declared
    assert list_described(INDIRECT).keys() == RUN.keys() - declared
    development = list_declared(PROJECT["project"]["optional-dependencies"]["dev"])
    assert list_described(DEVELOPMENT).keys() == development


ALL = list_described(REQUIRED) | list_described(INDIRECT) | list_described(DEVELOPMENT)


def test_the_licence_is_that_of_the_installed_package():
    def check(case):
        package, licence = case
        try:
            found = distribution(package)
        except PackageNotFoundError:
            assert package in CONDITIONAL
            return

        expression = found.metadata.get("License-Expression")
        if expression is not None:
            assert licence == expression
        else:
            # Older packages name only the kind of licence, in words.
            words = read_licence_words(found).upper()
            assert (words == "") == (package in WITHOUT_LICENCE)
            assert not words or re.match("[A-Z]+", licence.upper())[0] in words

    assert list_offenders(check, ALL.items()) == []


def read_licence_words(found: Distribution) -> str:
    classifiers = found.metadata.get_all("Classifier", [])
    words = [found.metadata.get("License", ""), *(each for each in classifiers if each.startswith("License"))]
    # Neither of them in peewee. The text of the MIT licence does not contain its name.
    files = [file.read_text() for file in found.files or [] if file.name == "LICENSE"]
    return " ".join([*words, *("MIT" for text in files if "Permission is hereby granted, free of" in text)])


@pytest.mark.parametrize("lock", [RUN, BUILD, DEV], ids=["run", "build", "dev"])
def test_everything_is_pinned_by_its_hash(lock):
    assert [name for name, entry in lock.items() if "==" not in entry or "--hash=sha256:" not in entry] == []


def test_the_lock_of_the_build_has_what_builds_and_the_versions_of_the_tests():
    requires = list_declared(PROJECT["build-system"]["requires"])

    assert BUILD.keys() == requires == list_declared(PROJECT["dependency-groups"]["build"])
    assert {name: DEV[name] for name in BUILD} == BUILD


def test_no_package_for_tests_is_installed_in_production():
    development = list_declared(PROJECT["project"]["optional-dependencies"]["dev"])

    assert {*development, "freezegun"} & RUN.keys() == set()


def test_make_installs_nothing_that_is_not_pinned():
    text = (ROOT / "Makefile").read_text()
    installs = [line for line in text.splitlines() if re.search(r"pip install|\$\((PIP|LOCKED)\)", line)]
    pinned = ("LOCKED = $(PIP) --no-deps --require-hashes --no-build-isolation --use-pep517", "PIP = ")
    ours = "\t@$(PIP) --no-deps --no-build-isolation -e ."

    assert [
        line for line in installs if line != ours and not line.startswith((*pinned, "\t@$(LOCKED) -r "))
    ] == []
    assert len(installs) == 6


@pytest.mark.processes
def test_the_clock_needs_no_freezegun():
    """It is missing in production: the lock leaves it out, although rq-scheduler requires it."""
    code = "import sys; sys.modules['freezegun'] = None; import schedules.clock_process, rq_scheduler.utils"

    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")
