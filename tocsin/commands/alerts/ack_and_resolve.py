"""`tocsin ack` and `resolve` change an incident in the name of the command."""

import click

from models.domain.effects import Effect
from models.domain.enums import IncidentStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import make_reason
from models.reports import trace_ids
from models.store.store import store
from models.tables.incidents import Incident
from models.write.change_incident import change_incident
from pipeline import incidents as decisions
from runtime.redis_socket import get_url
from tocsin.commands.names import find_account
from tocsin.commands.options import account_option
from tocsin.commands.output import to_printable
from tocsin.commands.read_only import BadArguments
from tocsin.commands.writing import build_author, open_for_writing
from workers import queue


@click.command("ack")
@click.argument("number", metavar="INCIDENT")
@account_option
def acknowledge(number: str, account_id: str | None) -> None:
    """Acknowledge an incident by its number: 12 or "#12"."""
    _change_status(number, account_id, IncidentStatus.ACKNOWLEDGED)


@click.command("resolve")
@click.argument("number", metavar="INCIDENT")
@account_option
def resolve(number: str, account_id: str | None) -> None:
    """Resolve an incident by its number: 12 or "#12"."""
    _change_status(number, account_id, IncidentStatus.RESOLVED)


def _change_status(reference: str, account_id: str | None, to: IncidentStatus) -> None:
    """Change the status of an incident in the name of this command. Raise if the incident cannot get it."""
    number = trace_ids.parse_number(reference)
    if number is None:
        raise BadArguments(f"{reference} is not the number of an incident: write a number such as 12")
    author = build_author()
    if to is IncidentStatus.ACKNOWLEDGED:
        why = make_reason("acknowledged_by_command", by=author.name)
    else:
        why = make_reason("resolved_by_command", by=author.name)

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        if context.incident.status is IncidentStatus.RESOLVED and to is not IncidentStatus.RESOLVED:
            raise click.ClickException(f"incident #{number} is resolved already")
        return decisions.change_status(context, to, why)

    with open_for_writing() as settings, queue.connected(settings.redis_url or get_url(settings.home)):
        account = find_account(account_id)
        row = Incident.get_or_none(Incident.account == account, Incident.incident_number == number)
        before = row and change_incident(row.id, author, decide, store().now(), queue.enqueue_deliveries)
    if before is None:
        raise click.ClickException(f"there is no incident #{number}")
    already = " already" if before.status is to else ""
    click.echo(to_printable(f"incident #{number} {row.title} is {to.name.lower()}{already}"))
