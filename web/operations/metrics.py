"""Serve /metrics with the counters and the pending work, and count refused requests.

The page contains neither names of accounts nor users' data, so the request needs no token. Like /healthz, the
page is for the operator of the installation.
"""

from collections.abc import Collection

from flask import Flask, Response, request
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from models.reports import metrics_page
from runtime.metrics import count_refused


def show() -> Response:
    """Return the counters and the pending work for Prometheus."""
    return Response(metrics_page.page.get_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def count_refusals(app: Flask, paths: Collection[str]) -> None:
    """Count the requests to these paths that get an error, by status."""

    @app.after_request
    def count(response: Response) -> Response:
        if response.status_code >= 400 and request.url_rule is not None and request.url_rule.rule in paths:
            count_refused(response.status_code)
        return response
