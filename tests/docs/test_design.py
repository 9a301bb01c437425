"""docs/design.md names the libraries that pyproject.toml declares."""

import re
import tomllib

from tests.support.documents.files import DOCS, ROOT


def test_the_libraries_of_the_design_are_those_declared():
    overview = (DOCS / "design.md").read_text().partition("| library | use |")[2].partition("\n\n")[0]
    named = [
        name
        for cell in re.findall(r"^\| ([^|-][^|]*) \|", overview, re.MULTILINE)
        for name in cell.split(", ")
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]]

    assert sorted(named) == sorted(declared)
