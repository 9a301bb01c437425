"""`tocsin incidents` and `alerts` list what is open and what came in."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

import click

from models.reports import recent
from models.reports.recent import RecentAlert, RecentIncident
from tocsin.commands.names import find_accounts, find_user
from tocsin.commands.options import accounts_option, as_json_option
from tocsin.commands.output import print_json_list, print_table, shorten
from tocsin.commands.read_only import BadArguments, open_read_only
from tocsin.commands.times import format_time

Row = TypeVar("Row", RecentAlert, RecentIncident)

INCIDENT_HEADINGS = (
    "INCIDENT", "OPENED (UTC)", "STATUS", "URGENCY", "SERVICE", "TITLE", "ASSIGNED TO", "REACHED", "TRACE_ID",
)  # fmt: skip
ALERT_HEADINGS = (
    "ACCEPTED (UTC)", "STATE", "LEVEL", "SERVICE", "MESSAGE", "INCIDENT", "TRACE_ID", "REASON",
)  # fmt: skip

DEFAULT_LIMIT = 50
MAX_LIMIT = 10_000

limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="List at most this many, the newest ones.",
)
notified_nobody_option = click.option(
    "--reached-nobody",
    "notified_nobody",
    is_flag=True,
    help="Only if no message about the incident was sent to a person so far.",
)


@click.command("incidents")
@limit_option
@notified_nobody_option
@click.option("--all", "with_resolved", is_flag=True, help="Also incidents that are resolved.")
@click.option("--mine", "is_mine", is_flag=True, help="Only those assigned to the user of TOCSIN_USER.")
@click.option("--user", "who", metavar="WHO", help="Only those assigned to this user.")
@accounts_option
@as_json_option
def list_incidents(
    limit: int,
    notified_nobody: bool,
    with_resolved: bool,
    is_mine: bool,
    who: str | None,
    account_id: str | None,
    as_json: bool,
) -> None:
    """List the open incidents, newest last, each with the trace_id of the alert that opened it."""
    with open_read_only() as settings:
        accounts = find_accounts(account_id)
        who = who or (settings.user if is_mine else None)
        if is_mine and not who:
            raise BadArguments("who are you? Set TOCSIN_USER to your e-mail address, or give --user")
        found = recent.list_incidents(
            accounts,
            limit + 1,
            with_resolved=with_resolved,
            notified_nobody=notified_nobody,
            assigned_to=find_user(who, account_id).id if who else None,
        )
    nothing = "no incidents" if with_resolved else "no open incidents"
    _print_list(found, limit, INCIDENT_HEADINGS, _build_incident_row, nothing, len(accounts) > 1, as_json)


@click.command("alerts")
@limit_option
@notified_nobody_option
@accounts_option
@as_json_option
def list_alerts(limit: int, notified_nobody: bool, account_id: str | None, as_json: bool) -> None:
    """List the alerts that came in, newest last, each with its trace_id and the reason of its last stage.

    With --reached-nobody, alerts that only acknowledge or resolve are left out.
    """
    with open_read_only():
        accounts = find_accounts(account_id)
        found = recent.list_alerts(accounts, limit + 1, notified_nobody=notified_nobody)
    _print_list(found, limit, ALERT_HEADINGS, _build_alert_row, "no alerts", len(accounts) > 1, as_json)


def _print_list(
    found: Sequence[Row],
    limit: int,
    headings: tuple[str, ...],
    build_row: Callable[[Row], tuple[str, ...]],
    nothing: str,
    with_account: bool,
    as_json: bool,
) -> None:
    """Print a list, newest last. `found` is newest first and has one more than `limit` if there are more."""
    shown = list(reversed(found[:limit]))
    has_more = len(found) > limit
    if as_json:
        print_json_list(map(asdict, shown), has_more=has_more)
        return
    if has_more:
        click.echo(f"the newest {limit}; older ones: --limit {min(limit * 2, MAX_LIMIT)}")
    rows = [((each.account,) if with_account else ()) + build_row(each) for each in shown]
    print_table((("ACCOUNT",) if with_account else ()) + headings, rows, nothing)


def _build_incident_row(incident: RecentIncident) -> tuple[str, ...]:
    return (
        f"#{incident.incident_number}",
        format_time(incident.creation_date),
        incident.status,
        incident.urgency,
        shorten(incident.service or "(deleted)"),
        shorten(incident.title),
        shorten(incident.assigned_to or "nobody assigned"),
        "reached nobody" if incident.notified_nobody else "",
        incident.trace_id or "(no alert)",
    )


def _build_alert_row(alert: RecentAlert) -> tuple[str, ...]:
    return (
        format_time(alert.accepted_at),
        alert.status,
        alert.alert_type or "",
        shorten(alert.service or "(no service)"),
        shorten(alert.message if alert.message is not None else "(not processed)"),
        f"#{alert.incident_number}" if alert.incident_number else "",
        alert.trace_id,
        _describe(alert),
    )


def _describe(alert: RecentAlert) -> str:
    """Return the reason of the alert; a stage can create notifications that were not sent."""
    is_unsent = alert.incident_number is not None and alert.notified_nobody
    return " ".join(filter(None, (alert.reason, "No message about it was sent so far." if is_unsent else "")))
