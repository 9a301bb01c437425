"""The files of the project, as tests of documents read them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def list_tracked(*patterns: str) -> list[str]:
    """Return the files of the project with these names, as paths from its folder."""
    files = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in files.stdout.splitlines() if (ROOT / name).exists()]
