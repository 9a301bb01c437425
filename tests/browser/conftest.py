"""Chromium for all tests of pages, with as much time as a busy machine needs."""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.support.requirements import skip_or_fail

# The headless shell of Chromium shows no notifications.
PROGRAM = "chromium"

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def chromium():
    """A browser. Without the program, the test is skipped, or fails in CI."""
    path = shutil.which(PROGRAM)
    if path is None:
        skip_or_fail(f"{PROGRAM} is not installed")
    with sync_playwright() as playwright:
        # root may not use the sandbox of Chromium.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
