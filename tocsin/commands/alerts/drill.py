"""`tocsin drill`: page through the real pipeline, and report who acknowledged, and how fast."""

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

import click

from models.reports.alert_trace import name_channel
from models.reports.drill_report import DrillReport, build_drill_report
from models.store.store import store
from models.tables.accounts import Account
from models.tables.incidents import Drill
from runtime.redis_socket import get_url
from tocsin.commands import names
from tocsin.commands.names import find_account
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import to_json, to_printable
from tocsin.commands.read_only import PROBLEMS_FOUND, BadArguments
from tocsin.commands.writing import build_author, open_for_writing
from web.operations import drills
from workers import queue

POLL_S = 2.0


@click.command()
@click.option(
    "--policy",
    "policy_name",
    metavar="NAME",
    required=True,
    help="Name, TEAM/NAME or unique_id of the policy.",
)
@click.option(
    "--service",
    "service_name",
    metavar="NAME",
    help="Name or unique_id of the service of the incident; default: a service of the policy or its team.",
)
@click.option("--detach", is_flag=True, help="Only start the drill.")
@account_option
@as_json_option
def drill(
    policy_name: str, service_name: str | None, detach: bool, account_id: str | None, as_json: bool
) -> None:
    """Notify the people of a policy of an incident that is a drill, and report who acknowledges.

    The drill uses the real pipeline, so a worker and a clock process must run. It ends when somebody
    acknowledges, 15 minutes after the last notification, or after an hour. Statistics leave it out. Interrupt
    the command to stop the display only: the drill goes on.

    Exit code: 0 if somebody acknowledged, 1 if not.
    """
    with open_for_writing() as settings:
        with queue.connected(settings.redis_url or get_url(settings.home)):
            started = _start(find_account(account_id), policy_name, service_name)
        report = build_drill_report(started)
        if not as_json:
            click.echo(to_printable(f"drill started: incident #{report.incident_number}"))
        if not detach:
            report = follow(started.id, (lambda _: None) if as_json else _print_text)
    if as_json:
        click.echo(to_json(asdict(report)))
    elif not detach:
        _print_report(report)
    if not detach and not any(person.acknowledged_at for person in report.people):
        raise click.exceptions.Exit(PROBLEMS_FOUND)


def _start(account: Account, policy_name: str, service_name: str | None) -> Drill:
    account_id = account.account_identifier
    policy = names.find(names.POLICY, policy_name, account_id, drills.select_policies(account))
    services = list(drills.find_services(policy))
    if service_name is not None:
        services = [names.find(names.SERVICE, service_name, account_id, services)]
    if not services:
        raise BadArguments("the team of the policy has no service: a drill needs one")
    with store().write_transaction():
        started = drills.start(policy, services[0], build_author(), store().now())
    if started is None:
        raise click.ClickException(f"the account has {drills.MAX_OPEN} drills that have not ended")
    return started


def follow(
    drill_row: int, show: Callable[[str], None], pause: Callable[[float], None] = time.sleep
) -> DrillReport:
    """Show what happens in a drill until it ends. Return its report."""
    seen: set[str] = set()
    while True:
        current: Drill = Drill.get_by_id(drill_row)
        report = build_drill_report(current)
        for at, text in _list_events(report):
            if text not in seen:
                seen.add(text)
                show(f"{at:%H:%M:%S}  {text}")
        if current.done_at is not None:
            return report
        pause(POLL_S)


def _list_events(report: DrillReport) -> list[tuple[datetime, str]]:
    """Return what happened so far, with its times, in order."""
    sent = [
        (notification["done_at"], str(notification["sentence"]))
        for person in report.people
        for notification in person.notifications
    ]
    acknowledged = [(person.acknowledged_at, f"{person.person} acknowledged") for person in report.people]
    return sorted((at, text) for at, text in [*sent, *acknowledged] if isinstance(at, datetime))


def _print_text(text: str) -> None:
    click.echo(to_printable(text))


def _print_report(report: DrillReport) -> None:
    click.echo()
    for person in report.people:
        seconds = person.seconds_to_acknowledge
        end = "did not acknowledge" if seconds is None else f"acknowledged after {seconds:.0f} s"
        sent = {str(each["channel"]) for each in person.notifications if each["state"] == "sent"}
        by = ", ".join(sorted(map(name_channel, sent))) or "nothing was sent"
        click.echo(to_printable(f"{person.person} ({by}): {end}"))
    if not report.people:
        click.echo("nobody was notified")
    click.echo(to_printable(report.outcome or ""))
