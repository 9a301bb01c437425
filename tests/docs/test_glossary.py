"""The words that docs/glossary.md retires stand nowhere else, as the column `check` of its table says."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.support.documents.files import ROOT, list_files

GLOSSARY = ROOT / "docs" / "glossary.md"
TEXT_FILES = (".py", ".md", ".html", ".toml", ".svg", ".yaml", "Makefile", "Procfile", "run")


def list_texts() -> list[Path]:
    """Return the text files of the project, without the glossary itself."""
    return [path for path in list_files(*TEXT_FILES) if path not in (GLOSSARY, Path(__file__))]


def list_avoided(check: str) -> list[str]:
    """Return the avoided words of the table's rows with this check, in lower case with underscores."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \| (\w+) \|$", GLOSSARY.read_text(), re.MULTILINE)
    return [to_words(word.strip()) for words, kind in rows if kind == check for word in words.split(",")]


def list_exempt() -> set[str]:
    """Return the identifiers that the glossary's list of exempt names holds."""
    _, _, section = GLOSSARY.read_text().partition("### Exempt names")
    return set(re.findall(r"`(\w+)`", section.partition("\n## ")[0]))


def to_words(identifier: str) -> str:
    """Return an identifier as its words in lower case, joined by underscores."""
    parted = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3_\2\4", identifier)
    return parted.lower().strip("_")


# Names of the contract and of the field that contain a word of the table.
COMPOUNDS = re.compile(r"dead_letters?|post_incident")


def contains_any(identifier: str, avoided: list[str]) -> bool:
    words = f"_{COMPOUNDS.sub('', to_words(identifier))}_"
    return any(f"_{word}_" in words for word in avoided)


@cache
def list_identifiers() -> list[tuple[str, str]]:
    """Return each identifier that a Python file defines, with the file's path; file names too."""
    found = [(path.stem, str(path.relative_to(ROOT))) for path in list_texts()]
    for path in list_texts():
        if path.suffix == ".py":
            names = set(list_definitions(ast.parse(path.read_text())))
            found += [(name, str(path.relative_to(ROOT))) for name in names]
    return found


def list_definitions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def list_words_found(text: str) -> set[str]:
    """Return the words of a text and of its identifiers in lower case, and each pair of neighbours."""
    words = [part for word in re.findall(r"[A-Za-z_]\w*", text) for part in to_words(word).split("_")]
    return {*words, *(f"{first}_{second}" for first, second in pairwise(words))}


def test_a_retired_word_stands_nowhere():
    avoided = set(list_avoided("all"))

    found = {
        f"{path.relative_to(ROOT)}: {', '.join(sorted(words))}"
        for path in list_texts()
        if (words := list_words_found(without_library_names(path.read_text())) & avoided)
    }

    assert found == set()


# What libraries define and we only call, and the level of syslog that tools send.
LIBRARY_NAMES = re.compile(r"\b(ast|os)\.walk\b|\bwalk_packages\b|\.tell\(\)|\"notice\"")


def without_library_names(text: str) -> str:
    return LIBRARY_NAMES.sub("", text)


def test_no_identifier_holds_a_retired_name():
    avoided, exempt = [*list_avoided("names"), *list_avoided("all")], list_exempt()

    found = {
        f"{path}: {identifier}"
        for identifier, path in list_identifiers()
        if identifier not in exempt and contains_any(identifier, avoided)
    }

    assert found == set()
