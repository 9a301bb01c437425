"""`tocsin simulate`: show who would be notified of an alert, how, when and why, if nobody reacted to it."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import IO, Any
from zoneinfo import ZoneInfo

import click
import orjson
import peewee

from models.domain.reasons import format_duration
from models.reports.delivery_problems import list_delivery_problems
from models.store.prepared import in_list
from models.store.store import store
from models.tables.accounts import User
from models.tables.services import Integration
from pipeline.simulation.engine import MAX_SIMULATED_EVENTS
from pipeline.simulation.simulate import MAX_DURATION
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody
from tocsin.commands import names
from tocsin.commands.account.oncall import NOBODY
from tocsin.commands.alerts.why import format_rule, format_stages
from tocsin.commands.kinds import KindType
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import format_table, get_width, shorten, to_json, to_printable
from tocsin.commands.read_only import PROBLEMS_FOUND, TRUNCATED, BadArguments, open_read_only
from tocsin.commands.times import DurationType, ZoneType, parse_time, write_duration
from web.operations import run_simulation

JsonDict = dict[str, Any]

HEADINGS = ("AT", "AFTER", "WHAT", "WHO", "BY", "WHY")
# Characters of a reason that are shown; a reason may name many people.
MAX_REASON = 160


@click.command()
@click.option("--service", "service_name", metavar="NAME", help="Name or unique_id of the service.")
@click.option(
    "--integration",
    "integration_name",
    metavar="NAME",
    help="Integration of the service; needed if the service has more than one.",
)
@click.option(
    "--at", "at_text", metavar="WHEN", help="Time of the alert, in --zone if it has no offset; default: now."
)
@click.option(
    "--for",
    "duration",
    metavar="DURATION",
    type=DurationType(MAX_DURATION),
    default="2h",
    show_default=True,
    help="Time in which nobody reacts: 90s, 45m, 2h, 1d.",
)
@click.option("--message", metavar="TEXT", help="Message of the alert.")
@click.option("--alert-type", metavar="LEVEL", help="Level of the alert, with --message; default: critical.")
@click.option("--entity-id", metavar="ID", help="Entity of the alert, with --message; default: a new entity.")
@click.option(
    "--payload",
    type=click.File("rb"),
    help="File with a body instead of a --message; - is standard input.",
)
@click.option(
    "--as",
    "--source",
    "source",
    metavar="TOOL",
    type=KindType(),
    help="Monitoring tool that sends the --payload, as of `tocsin send`; default: that of the integration.",
)
@click.option("--with-open", is_flag=True, help="Include the incidents that are open now.")
@click.option(
    "--expect",
    "expected",
    metavar="WHO",
    multiple=True,
    help="E-mail address or username of a person who must be notified; may be repeated.",
)
@click.option("--zone", type=ZoneType(), default="UTC", show_default=True, help="Time zone of all times.")
@account_option
@as_json_option
def simulate(
    *,
    service_name: str | None,
    integration_name: str | None,
    at_text: str | None,
    duration: timedelta,
    message: str | None,
    alert_type: str | None,
    entity_id: str | None,
    payload: IO[bytes] | None,
    source: str | None,
    with_open: bool,
    expected: Sequence[str],
    zone: ZoneInfo,
    account_id: str | None,
    as_json: bool,
) -> None:
    """Show who would be notified of an alert, how, when and why, if nobody reacted. Nothing is written.

    Global routers are not used: the alert is sent with the key of the integration.

    Exit code 1: a person of --expect would not be notified. 2: an argument is invalid. 3: the database cannot
    be read. 4: the simulation was cut off, and a person of --expect may or may not be notified.
    """
    _require_one_form(message, payload, alert_type, entity_id, source)
    with open_read_only() as settings:
        values = {"message": message, "alert_type": alert_type or "critical", "entity_id": entity_id}
        body = payload.read() if payload else orjson.dumps(values)
        form = source if payload else generic.EXTENSION
        integration = _find_integration(service_name, integration_name, account_id, form)
        expected_users = _find_users(expected, integration)
        now = store().now()
        at = parse_time(at_text or None, zone) or now
        if with_open and (at := run_simulation.adjust_to_now(at, now)) < now:
            raise BadArguments("--with-open needs a time that is not in the past")
        try:
            form = form or run_simulation.get_source(integration)
            result = run_simulation.run_simulation(
                run_simulation.SimulationRequest(integration, form, body, at, duration, with_open)
            )
        except BadBody as error:
            raise BadArguments(f"Tocsin would refuse the alert: {error}") from None
        missed = _list_missed(expected_users, result)
        result["not_notified"], result["not_known"] = ([], missed) if result["is_truncated"] else (missed, [])
        result["warnings"] = list_delivery_problems(settings, integration.service.team.account, now)
    if as_json:
        click.echo(to_json(result))
    else:
        for text in format_lines(result, zone):
            click.echo(to_printable(text))
    for warning in result["warnings"]:
        click.echo(warning, err=True)
    for person in missed:
        unknown = "the simulation was cut off: it is not known whether {} would be notified"
        missing = "{} would not be notified"
        click.echo((unknown if result["is_truncated"] else missing).format(person), err=True)
    if missed:
        sys.exit(TRUNCATED if result["is_truncated"] else PROBLEMS_FOUND)


def _require_one_form(
    message: str | None,
    payload: IO[bytes] | None,
    alert_type: str | None,
    entity_id: str | None,
    source: str | None,
) -> None:
    """Raise BadArguments for options that contradict each other, so that no option is silently ignored."""
    if (message is None) == (payload is None):
        raise BadArguments("give either a --message or a --payload")
    if message is not None and source not in (None, generic.EXTENSION):
        raise BadArguments("--as requires --payload; a --message has the generic form")
    if payload is not None and (alert_type is not None or entity_id is not None):
        raise BadArguments("--alert-type and --entity-id require --message; a --payload has its own")


def _find_integration(
    service: str | None, integration: str | None, account_id: str | None, source: str | None
) -> Integration:
    """Return the integration with this name, or the only one of the service that takes this source."""
    if service is None and integration is None:
        raise BadArguments("give a --service or an --integration")
    if service is None:
        return names.find(names.INTEGRATION, str(integration), account_id)
    row = names.find(names.SERVICE, service, account_id)
    if integration is not None:
        among = names.INTEGRATION.select(account_id).where(Integration.service == row)
        return names.find(names.INTEGRATION, integration, account_id, among)
    found = run_simulation.find_integrations(row, source)
    if not found:
        raise BadArguments(f"no integration of {service} takes such an alert")
    if len(found) > 1:
        known = ", ".join(f"{each.name} ({each.unique_id})" for each in found)
        raise BadArguments(f"there is more than one integration; choose one with --integration: {known}")
    return found[0]


def _find_users(expected: Sequence[str], integration: Integration) -> dict[str, User]:
    """Return the users with these e-mail addresses or usernames in the account of the integration."""
    addresses = {word: word.strip().lower() for word in expected}
    users = User.select().where(
        User.account == integration.service.team.account_id,
        User.removed_at.is_null(),
        in_list(peewee.fn.LOWER(User.email), addresses.values()) | in_list(User.username, addresses.values()),
    )
    known = {name: user for user in users for name in (user.email.lower(), user.username)}
    for word, name in addresses.items():
        if name not in known:
            raise BadArguments(f"no user {word} in the account")
    return {word: known[name] for word, name in addresses.items()}


def _list_missed(expected_users: dict[str, User], result: JsonDict) -> list[str]:
    notified = {person["username"] for person in result["notified"]}
    return [word for word, user in expected_users.items() if user.username not in notified]


def format_lines(result: JsonDict, zone: ZoneInfo) -> Iterator[str]:
    """Yield the result as lines of text, with times in a time zone."""
    yield (
        f"an alert to {result['integration']['name']} of {result['service']['name']}"
        f" at {_format_time(result['at'], zone)},"
        f" and nobody reacts until {_format_time(result['until'], zone)}"
    )
    for alert in result["alerts"]:
        yield ""
        yield from _format_alert(alert)
    yield ""
    rows = [_format_row(event, zone) for event in result["simulated_events"] if _is_shown(event)]
    yield from format_table(rows, HEADINGS, get_width())
    yield ""
    if result["is_truncated"]:
        yield f"cut off: more than {MAX_SIMULATED_EVENTS:,} simulated events, or the time limit was reached"
    notified = ", ".join(
        f"{shorten(person['person'])} after {write_duration(person['after'])}"
        for person in result["notified"]
    )
    yield f"notified: {notified or NOBODY}"
    if not result["is_truncated"]:
        yield from _format_end(result, zone)


def _format_end(result: JsonDict, zone: ZoneInfo) -> Iterator[str]:
    """Yield after which time nobody else is notified, as far as the simulation knows it."""
    last = [event["after"] for event in result["simulated_events"] if event["kind"] == "notified"]
    end = f"after {format_duration(round(max(last)))} nobody else is notified" if last else ""
    if not result["continues_at"]:
        if end:
            yield end
        return
    more = f"more would happen from {_format_time(result['continues_at'], zone)} on"
    yield f"{end} until {_format_time(result['until'], zone)}, but {more}" if end else more


def _is_shown(event: JsonDict) -> bool:
    """Return whether an event says something new. The log says what a step of the policy does."""
    return (event["kind"], event["what"]) != ("timer", "escalate")


def _format_alert(alert: JsonDict) -> Iterator[str]:
    yield f"alert {alert['alert_type']}: {alert['message']}  [{alert['entity_id']}]"
    yield from format_stages(alert)
    for rule in alert["rules"]:
        yield from format_rule(rule)


def _format_row(event: JsonDict, zone: ZoneInfo) -> tuple[str, ...]:
    by = f"{event['channel']}: {shorten(event['contact'])}" if event["channel"] else ""
    what = event["kind"] if event["kind"] in ("notified", "opened") else event["what"].replace("_", " ")
    who, why = shorten(event["person"] or ""), shorten(event["reason"], MAX_REASON)
    return _format_time(event["at"], zone), write_duration(event["after"]), what, who, by, why


def _format_time(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
