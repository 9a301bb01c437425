"""The decisions: each is in the index once, and what cites one by its number finds it."""

import re
from collections import Counter
from pathlib import Path

from tests.support.documents.files import ROOT, list_files

FOLDER = ROOT / "docs" / "decisions"
# "decision 0094" and "docs/decisions/0094-references...", also across lines; in decisions themselves,
# "(0029)". A file name may be broken at a hyphen.
CITATION = re.compile(r"\bdecisions?[/ ](\d{4})\b(-[\w-]+\.md)?")
SHORT_CITATION = re.compile(r"\((\d{4})\)")


def list_decisions() -> dict[str, Path]:
    """Return the decisions by their number."""
    return {path.name[:4]: path for path in sorted(FOLDER.glob("[0-9]*.md"))}


def test_every_decision_is_in_the_index_once():
    links = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (FOLDER / "README.md").read_text())

    assert Counter(links) == Counter(path.name for path in list_decisions().values())


def test_the_index_has_the_titles_of_the_decisions():
    index = (FOLDER / "README.md").read_text()
    titles = {path.name: path.read_text().partition("\n")[0] for path in list_decisions().values()}

    assert [name for name, title in titles.items() if not title.startswith(f"# {name[:4]}: ")] == []
    assert [name for name, title in titles.items() if f"- [{title[2:]}]({name})" not in index] == []


def test_every_citation_of_a_decision_finds_it():
    decisions = list_decisions()
    missing = []
    for path in list_files(".py", ".md", ".toml", "Makefile", "run"):
        name = path.relative_to(ROOT).as_posix()
        text = re.sub(r"-\n\s*#?\s*", "-", path.read_text())
        text = re.sub(r"\s*\n\s*#?\s*", " ", text)
        cited = CITATION.findall(text)
        if name.startswith("docs/decisions/"):
            cited += [(number, "") for number in SHORT_CITATION.findall(text)]
        missing += [
            f"{name}: {number}{rest}"
            for number, rest in cited
            if number not in decisions or (rest and decisions[number].name != number + rest)
        ]

    assert len(decisions) > 50
    assert missing == []
