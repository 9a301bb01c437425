"""Parts that a test talks to and that may not be installed: skipped then, or a failure where they must be."""

import os

import pytest


def skip_or_fail(reason: str) -> None:
    """Skip this test for the lack of a part; fail it where REQUIRE_PARTS is set, as in CI."""
    if os.environ.get("REQUIRE_PARTS"):
        pytest.fail(reason)
    pytest.skip(reason)
