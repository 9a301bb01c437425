"""What the tests of the contract ask for."""

import pytest

from tests.support.contract.described import described
from tests.support.contract.samples import samples
from tests.web.conftest import app, ask
from web.oncall import overrides, schedule_overview

__all__ = ["app", "ask", "described", "samples"]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """They ask for the same again and again; tests/web/http/test_rate_limit.py has the limits."""
    monkeypatch.setattr(overrides.Overrides, "rate_limits", ((1000, 1.0),))


@pytest.fixture(autouse=True)
def _at_the_same_moment(monkeypatch, now):
    """What is answered about this moment is the same when it is asked for again."""
    monkeypatch.setattr(schedule_overview, "now", lambda: now)
