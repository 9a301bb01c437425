"""The findings of `tocsin check` about the account, for its owner and admins."""

from datetime import timedelta
from time import monotonic

from flask import Response, current_app

from models.reports.delivery_problems import list_delivery_problems
from web.checks.finding import Finding
from web.checks.findings import Progress, run_checks
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit, start_client_check
from web.http.errors import Throttled
from web.pages.console.page import render

DAYS = 30
# A larger account is checked by the command, which takes as long as it needs.
MAX_SECONDS = 10.0
# Findings of each of the two lists.
MAX_SHOWN = 300
# One for each process and account: a check takes a thread and a processor for up to MAX_SECONDS.
CONCURRENCY = ConcurrencyLimit(1, "check")


class _TooLong(Exception):
    """The check takes more time than a page may take, or nobody reads its result."""


def show() -> Response:
    """Check the account, and show what was found."""
    try:
        with CONCURRENCY.acquire(viewer().account):
            found = _check()
    except Throttled:
        why = "Somebody runs the check now. Load this page again in some seconds."
        return _render([], why, 429)
    except _TooLong:
        why = (
            f"The check takes longer than {MAX_SECONDS:.0f} seconds, so it was stopped. On the host of"
            " Tocsin, tocsin check has no such limit."
        )
        return _render([], why, 503)
    return _render(found, "")


def _check() -> list[Finding]:
    start = now().replace(second=0, microsecond=0)
    until, is_gone = monotonic() + MAX_SECONDS, start_client_check()

    def go_on() -> None:
        if monotonic() > until or is_gone():
            raise _TooLong

    account = viewer().account
    problems = list_delivery_problems(current_app.config["SETTINGS"], account, now())
    return run_checks(account, start, start + timedelta(days=DAYS), problems, Progress(go_on=go_on))


def _render(found: list[Finding], why_not: str, code: int = 200) -> Response:
    lists = {minor: [finding for finding in found if finding.minor is minor] for minor in (False, True)}
    counts = {minor: sum(finding.total for finding in each) for minor, each in lists.items()}
    return render(
        "check.html",
        code,
        why_not=why_not,
        problems=lists[False][:MAX_SHOWN],
        minor=lists[True][:MAX_SHOWN],
        problem_count=counts[False],
        minor_count=counts[True],
        max_shown=MAX_SHOWN,
        days=DAYS,
    )
