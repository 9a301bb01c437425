"""The files of the project, as they stand in its folder, with those that nobody has committed yet."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
# Begins with a dot, and belongs to the project.
KEPT = {".ci"}


@cache
def list_files(*endings: str) -> list[Path]:
    """Return the files with these endings, without those that .gitignore names."""
    return sorted(path for path in _find_all() if path.name.endswith(endings))


def _find_all() -> Iterator[Path]:
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line]

    def is_ignored(path: Path) -> bool:
        hidden = path.name.startswith(".") and path.name not in KEPT
        return hidden or any(path.match(name) for name in ignored)

    for name, folders, files in os.walk(ROOT):
        folder = Path(name)
        folders[:] = [each for each in folders if not is_ignored(folder / each)]
        yield from (folder / each for each in files if not is_ignored(folder / each))
