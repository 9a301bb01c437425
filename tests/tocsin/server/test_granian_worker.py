"""The parts of granian that are not public fit one version."""

from importlib.metadata import version

import pytest

FITS = "2.8.7"


def test_the_installed_granian_is_the_one_that_the_worker_fits():
    found = version("granian")

    if found != FITS:
        pytest.fail(
            f"granian {found} is installed, but tocsin/server/granian_worker.py fits only {FITS}:"
            " docs/decisions/0023-granian-runs-in-the-web-process.md tells how to change the version.",
            pytrace=False,
        )
