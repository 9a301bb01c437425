"""The filter for nginx in docs/operators/proxy.md keeps secrets in paths out of the logs."""

import re
from pathlib import Path

import pytest

from web.routes import PAGES, ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "operators" / "proxy.md"
SECRETS = ("<token>", "<integration_key>")


def find_filter():
    return re.compile(re.search(r"location ~ (\S+) \{", PAGE.read_text())[1])


PATHS = {each.path for each in (*ROUTES, *PAGES) if any(name in each.path for name in SECRETS)}


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_path_with_a_secret_is_not_logged(path):
    assert find_filter().match(path)


@pytest.mark.parametrize("path", ["/", "/incidents/7/", "/sign-in/", "/api/tocsin/simulate/", "/healthz"])
def test_other_paths_are_logged(path):
    assert not find_filter().match(path)
