"""Give the pages as much time as a busy machine needs."""

from playwright.sync_api import expect

expect.set_options(timeout=30_000)
