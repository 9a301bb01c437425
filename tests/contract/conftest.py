"""Fixtures for the tests of the contract."""

import pytest

from tests.support.contract.described import described
from tests.support.contract.samples import samples
from tests.web.conftest import app, ask, browser, sign_in
from web.oncall import overrides, schedule_overview

__all__ = ["app", "ask", "browser", "described", "samples", "sign_in"]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Raise the rate limits, because these tests repeat requests. tests/web/http/test_rate_limit.py has tests
    for the limits."""
    monkeypatch.setattr(overrides.Overrides, "rate_limits", ((1000, 1.0),))


@pytest.fixture(autouse=True)
def _at_the_same_moment(monkeypatch, now):
    """Freeze the time, so that repeated requests about the present get the same answer."""
    monkeypatch.setattr(schedule_overview, "now", lambda: now)
