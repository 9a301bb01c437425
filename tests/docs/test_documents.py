"""Documents name what the code has: cited sections, settings, metrics, commands, decision records."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from runtime.metrics import METRICS
from tests.support.documents.files import DOCS, ROOT, list_files
from tocsin.cli import COMMANDS

CITATION = re.compile(r"\b(contract|design)(?:,? section)? (X?\d+(?:\.\d+)?)\b")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?)[. ]", re.MULTILINE)
EXTRA_OPERATION = re.compile(r"^\| (X\d+) \|", re.MULTILINE)
# A file of one of the packages, as documents and comments name it.
FILE = re.compile(
    r"(?<![\w/.-])(?:tocsin|web|workers|pipeline|schedules|models|runtime|bench|tests)/[\w/]+\.py\b"
)
GAUGE = re.compile(r'"(tocsin_[a-z_]+)"')


@cache
def list_sections(document: str) -> frozenset[str]:
    text = (DOCS / f"{document}.md").read_text()
    return frozenset(HEADING.findall(text)) | frozenset(EXTRA_OPERATION.findall(text))


def list_citations() -> dict[tuple[str, str], str]:
    """Return each cited section, as (document, number), with a file that cites it."""
    return {
        citation: str(path.relative_to(ROOT))
        for path in list_files(".py")
        for citation in CITATION.findall(re.sub(r"\s*\n\s*#?\s*", " ", path.read_text()))
    }


def test_every_section_that_the_code_cites_exists():
    missing = {
        f"{name}: {document} {number}"
        for (document, number), name in list_citations().items()
        if number not in list_sections(document)
    }

    assert missing == set()


@pytest.mark.processes
def test_the_pages_of_settings_and_messages_are_made_from_the_code():
    command = [sys.executable, str(ROOT / ".ci" / "write_docs.py"), "--check"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=50)

    assert ended.returncode == 0, ended.stderr


def test_every_metric_is_documented():
    gauges = GAUGE.findall((ROOT / "models" / "reports" / "metrics_page.py").read_text())
    names = {metric.name for metric in METRICS} | set(gauges)
    page = (DOCS / "operators" / "monitoring.md").read_text()

    assert {name for name in names if f"`{name}" not in page} == set()


def test_every_command_is_documented():
    texts = [path.read_text() for path in (ROOT / "README.md", *DOCS.rglob("*.md"))]

    assert [name for name in COMMANDS if not any(f"tocsin {name}" in text for text in texts)] == []


def list_links() -> set[tuple[Path, str, str]]:
    """Return each link between documents: the document, the path, and the part after #."""
    return {
        (path, *link.partition("#")[::2])
        for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text())
        if "://" not in link and not link.startswith("mailto:")
    }


def test_every_link_between_documents_leads_to_a_file():
    missing = {f"{path.name}: {link}" for path, link, _ in list_links() if not (path.parent / link).exists()}

    assert missing == set()


def list_anchors(path: Path) -> set[str]:
    """Return the anchors of the headings: in lower case, without punctuation, a hyphen for each space."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_into_a_document_leads_to_a_heading():
    missing = {
        f"{path.name}: {link}#{anchor}"
        for path, link, anchor in list_links()
        if anchor and anchor not in list_anchors(path.parent / link if link else path)
    }

    assert missing == set()


def test_every_file_that_a_text_names_exists():
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in list_files(".py", ".md", ".toml", "Makefile")
        for name in FILE.findall(path.read_text())
    }

    assert {f"{path}: {name}" for path, name in named if not (ROOT / name).exists()} == set()


def test_the_map_names_what_stands_in_its_files():
    """The table "Where is ..." of the architecture: what, the file, what is in it."""
    rows = re.findall(
        r"^\|([^|]+)\|([^|]+)\|([^|]+)\|$", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    missing = [
        f"{what.strip()}: {name}"
        for what, where, content in rows
        if (paths := FILE.findall(where))
        for name in re.findall(r"`(\w+)`", content)
        if not any(name in (ROOT / path).read_text() for path in paths)
    ]

    assert missing == []
