"""Programs that a test needs. If one is missing, the test is skipped, or fails in CI."""

import os

import pytest


def skip_or_fail(reason: str) -> None:
    """Skip this test because a program is missing. Fail it if REQUIRE_PARTS is set, as in CI."""
    if os.environ.get("REQUIRE_PARTS"):
        pytest.fail(reason)
    pytest.skip(reason)
