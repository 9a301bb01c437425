"""`tocsin check`: find gaps, conflicts and missing contacts before an incident happens."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import click

from models.reports.delivery_problems import list_delivery_problems
from models.store.store import store
from models.tables.accounts import Account
from runtime.settings import Settings
from schedules.oncall.shifts import format_local
from tocsin.checks.locked_services import find_locked_services
from tocsin.checks.redis_server import find_server
from tocsin.checks.settings_of_processes import (
    find_bad_certificate,
    find_local_links,
    find_missing_listener,
    find_open_countries,
    find_other_settings,
    find_template_findings,
    find_untrusted_proxies,
)
from tocsin.commands.names import find_accounts
from tocsin.commands.options import accounts_option, as_json_option
from tocsin.commands.output import to_json, to_printable
from tocsin.commands.read_only import PROBLEMS_FOUND, open_read_only
from web.checks.finding import TRUNCATED, Finding
from web.checks.findings import Progress, run_checks

# Longer work prints its progress at this interval.
PROGRESS_EVERY_S = 2.0
# Minor findings that are printed of each kind: a long list of them hides the problems.
MAX_MINOR_PER_KIND = 3
# Shown instead of a team for a finding about the whole installation.
EVERYBODY = "everybody"


@click.command()
@click.option(
    "--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Number of days to check."
)
@accounts_option
@click.option(
    "--minor", "all_minor", is_flag=True, help="Print all minor findings, not only some of each kind."
)
@as_json_option
def check(days: int, account_id: str | None, all_minor: bool, as_json: bool) -> None:
    """Find times in which a policy notifies nobody, conflicts, and people without a way to notify them.

    Exit code 1: there are problems that are not minor. 2: an argument is invalid. 3: the database cannot be
    read.
    """
    with open_read_only() as settings:
        now = store().now()
        start = now.replace(second=0, microsecond=0)
        end = start + timedelta(days=days)
        progress = Progress(_Printer().report)
        found = [
            (account, finding)
            for account in find_accounts(account_id)
            for finding in run_checks(
                account, start, end, list_delivery_problems(settings, account, now), progress
            )
        ]
        _add_findings_of_settings(found, settings, now)
        server = find_server(settings)
    minor = sum(finding.total for _, finding in found if finding.minor)
    count = sum(finding.total for _, finding in found if not finding.minor)
    if as_json:
        result = {
            "start_time": start,
            "end_time": end,
            "count": count,
            "minor_count": minor,
            "is_truncated": any(finding.kind == TRUNCATED for _, finding in found),
            "problems": [_to_json(account, finding) for account, finding in found],
            "redis": asdict(server),
        }
        click.echo(to_json(result))
    else:
        for text in _format_lines(found, None if all_minor else MAX_MINOR_PER_KIND):
            click.echo(to_printable(text))
        count_text = f"{count:,} problem{'s' * (count != 1)}" if count else "no problems"
        minor_text = f" and {minor:,} minor" if minor else ""
        click.echo(f"{count_text}{minor_text} until {format_local('UTC', end)}")
        click.echo(to_printable(str(server)))
    sys.exit(PROBLEMS_FOUND if count else 0)


class _Printer:
    """Prints how far long work is, from time to time."""

    def __init__(self) -> None:
        self._report_at = time.monotonic() + PROGRESS_EVERY_S

    def report(self, text: str) -> None:
        if time.monotonic() >= self._report_at:
            click.echo(text, err=True)
            self._report_at = time.monotonic() + PROGRESS_EVERY_S


def _add_findings_of_settings(
    found: list[tuple[Account, Finding]], settings: Settings, now: datetime
) -> None:
    """Add what is found about the whole installation: problems first, minor ones last."""
    account = Account.select().order_by(Account.id).get_or_none()
    if account is not None:
        first = [
            *find_local_links(settings, now),
            *find_missing_listener(settings, now),
            *find_untrusted_proxies(now),
            *find_locked_services(now),
            *find_bad_certificate(settings),
            *find_template_findings(settings),
        ]
        found[:0] = [(account, each) for each in first]
        found += [(account, each) for each in find_open_countries(settings)]
        found += [(account, each) for each in find_other_settings(settings, now)]


def _format_lines(found: Sequence[tuple[Account, Finding]], max_minor: int | None) -> Iterator[str]:
    """Yield a line for each finding; of minor ones at most `max_minor` of each kind, or with None all.

    What to change follows the first finding of each kind.
    """
    show_account = len({account.id for account, _ in found}) > 1
    counts: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    advised: set[str] = set()
    for account, finding in found:
        is_shown = True
        if finding.minor and max_minor is not None:
            counts[finding.kind] += not finding.hidden
            hidden.update(finding.hidden)
            is_shown = not finding.hidden and counts[finding.kind] <= max_minor
        if is_shown:
            team = finding.team or EVERYBODY
            where = f"{account.name} / {team}" if show_account else team
            yield f"{'minor: ' if finding.minor else ''}{where}: {finding.what}"
            if finding.advice and finding.kind not in advised:
                advised.add(finding.kind)
                yield f"    {finding.advice}"
    for kind, count in counts.items():
        if count > (max_minor or 0):
            yield f"minor: {count - (max_minor or 0):,} more of kind {kind}; --minor lists them"
    for kind, count in hidden.items():
        yield f"minor: {count:,} more of kind {kind}, of subjects with many findings"


def _to_json(account: Account, finding: Finding) -> dict[str, object]:
    return {
        "account_id": account.account_identifier,
        "kind": finding.kind,
        "team": finding.team,
        "about": finding.about,
        "what": finding.what,
        "advice": finding.advice,
        "minor": finding.minor,
        "start_time": finding.start,
        "end_time": finding.end,
        "times": finding.times,
    }
