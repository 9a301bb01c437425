"""Fixtures for the tests with schemathesis."""

import pytest
from schemathesis.transport import wsgi

from tests.support.contract.samples import samples
from tests.web.conftest import app, ask
from web.ingest import alert_results

__all__ = ["app", "ask", "samples"]

# Options of sockets. The checks pass them also to an application in the same process, which has none.
SOCKET_OPTIONS = ("max_redirects", "verify", "cert", "proxies")


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    """No worker runs, so that each request with `Prefer: wait` would take as long as it may."""
    monkeypatch.setattr(alert_results, "MAX_SECONDS", 0)


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch):
    send = wsgi.WSGITransport.send

    def send_without(self, case, *, session=None, **options):
        for name in SOCKET_OPTIONS:
            options.pop(name, None)
        return send(self, case, session=session, **options)

    monkeypatch.setattr(wsgi.WSGITransport, "send", send_without)
