"""`tocsin simulate`: who would be told of an alert, by what, when and why, if nobody reacted to it."""

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
import orjson
import peewee

from models.store.base import store
from models.store.prepared import in_list
from models.tables.accounts import Account, User
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.simulation.engine import MAX_SIMULATED_EVENTS
from pipeline.simulation.simulate import MAX_DURATION
from pipeline.sources import SOURCES, generic
from pipeline.sources.body import BadBody
from schedules.oncall import shifts
from schedules.oncall.local_time import from_local, get_zone
from tocsin.commands.accounts import as_json_option
from tocsin.commands.oncall import NOBODY
from tocsin.commands.output import format_table, shorten, to_json, to_printable
from tocsin.commands.read_only import PROBLEMS_FOUND, TRUNCATED, BadRequest, open_read_only
from tocsin.commands.why import format_rule
from web.operations import run_simulation

JsonDict = dict[str, Any]

# Of longer reasons, which may name very many people, the beginning.
MAX_REASON = 160

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


class DurationType(click.ParamType):
    """A length of time as 90s, 45m, 2h, 1d, or several of these in a row."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        tokens = _DURATION.findall(value.strip())
        if not tokens or "".join(map("".join, tokens)) != value.strip():
            self.fail(f"{value} is no length of time: say 90s, 45m, 2h30m or 1d")
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in tokens)
        if seconds > MAX_DURATION.total_seconds():
            self.fail(f"{value} is too long: at most {MAX_DURATION.days}d")
        return timedelta(seconds=seconds)


class ZoneType(click.ParamType):
    name = "zone"

    def convert(self, value: Any, param: Any, ctx: Any) -> ZoneInfo:
        if isinstance(value, ZoneInfo):
            return value
        try:
            return get_zone(value)
        except ZoneInfoNotFoundError:
            self.fail(f"no time zone has the name {value!r}")


@click.command()
@click.option("--service", "service_name", metavar="NAME", help="A service by its name or unique_id.")
@click.option(
    "--integration", "integration_name", metavar="NAME", help="One of it; needed where it has several."
)
@click.option(
    "--at", "at_text", metavar="WHEN", help="When it comes, in --zone unless it says; default: now."
)
@click.option(
    "--for",
    "duration",
    metavar="DURATION",
    type=DurationType(),
    default="2h",
    show_default=True,
    help="For how long nobody reacts: 90s, 45m, 2h, 1d.",
)
@click.option("--message", metavar="TEXT", help="The alert's message.")
@click.option("--alert-type", metavar="LEVEL", help="Of a --message; default: critical.")
@click.option("--entity-id", metavar="ID", help="What a --message is about; default: something of its own.")
@click.option("--payload", type=click.File("rb"), help="A body instead, as its tool sends it; - reads it.")
@click.option(
    "--source",
    type=click.Choice(sorted(SOURCES)),
    help="Which tool sends the --payload; default: the integration's.",
)
@click.option("--with-open", is_flag=True, help="What is open now is open then; default: nothing is.")
@click.option(
    "--expect",
    "expected",
    metavar="WHO",
    multiple=True,
    help="Somebody, by e-mail or username, who must be told; may be said again.",
)
@click.option("--zone", type=ZoneType(), default="UTC", show_default=True, help="The time zone of moments.")
@click.option("--account", "account_id", help="Identifier of the account, if there are several.")
@as_json_option
def simulate(
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
    """Tell who would be told of an alert, by what, when and why, if nobody reacted. Nothing is written. No
    router is asked: it is as if the alert were sent by the integration's own key.

    Exit code 1 when somebody who is expected would not be told, 2 when what is asked cannot be used, 3 when
    the database cannot be read, 4 when so much would happen that it is not known who is told.
    """
    _require_one_form(message, payload, alert_type, entity_id, source)
    with open_read_only() as settings:
        values = {"message": message, "alert_type": alert_type or "critical", "entity_id": entity_id}
        body = payload.read() if payload else orjson.dumps(values)
        form = source if payload else generic.EXTENSION
        integration = _find_integration(service_name, integration_name, account_id, form)
        expected_users = _find_users(expected, integration)
        now = store().now()
        at = _parse_time(at_text, zone) if at_text and at_text.strip() != "now" else now
        if with_open and (at := run_simulation.adjust_to_now(at, now)) < now:
            raise BadRequest("what is open now was not open then: ask without --with-open")
        try:
            form = form or run_simulation.get_source(integration)
            result = run_simulation.run_simulation(
                run_simulation.SimulationRequest(integration, form, body, at, duration, with_open)
            )
        except BadBody as error:
            raise BadRequest(f"the alert would be refused: {error}") from None
    missed = _list_missed(expected_users, result)
    result["not_notified"], result["not_known"] = ([], missed) if result["is_truncated"] else (missed, [])
    result["warnings"] = run_simulation.list_warnings(settings)
    if as_json:
        click.echo(to_json(result))
    else:
        for text in format_lines(result, zone):
            click.echo(to_printable(text))
    for warning in result["warnings"]:
        click.echo(warning, err=True)
    for person in missed:
        unsure = "it is not known whether {} would be told: cut off"
        click.echo((unsure if result["is_truncated"] else "{} would not be told").format(person), err=True)
    if missed:
        sys.exit(TRUNCATED if result["is_truncated"] else PROBLEMS_FOUND)


def _require_one_form(
    message: str | None,
    payload: IO[bytes] | None,
    alert_type: str | None,
    entity_id: str | None,
    source: str | None,
) -> None:
    """Nothing that is said is left out silently."""
    if (message is None) == (payload is None):
        raise BadRequest("give either a --message or a --payload")
    if message is not None and source not in (None, generic.EXTENSION):
        raise BadRequest("--source says which tool sends a --payload; a --message has the generic form")
    if payload is not None and (alert_type is not None or entity_id is not None):
        raise BadRequest("--alert-type and --entity-id go with a --message; a --payload has its own")


def _parse_time(text: str, zone: ZoneInfo) -> datetime:
    """RFC 3339, or a date and time by the clock of the zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
        at = from_local(moment, zone) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{text} is no moment: say 2026-12-24T18:00:00+01:00, or 2026-12-24 18:00 by the clock of --zone"
        ) from None
    if not shifts.EARLIEST <= at < shifts.LATEST:
        raise BadRequest(f"{text} is too far away")
    return at


def _find_integration(
    service: str | None, integration: str | None, account_id: str | None, source: str | None
) -> Integration:
    """The integration that is named or, by its service and the source, meant: the only one."""
    if service is None and integration is None:
        raise BadRequest("name a --service or an --integration")
    query = Integration.select(Integration, Service, Team).join(Service).join(Team).join(Account)
    if account_id is not None:
        query = query.where(Account.account_identifier == account_id)
    if service is not None:
        query = query.where((Service.name == service) | (Service.unique_id == service))
    if integration is not None:
        query = query.where((Integration.name == integration) | (Integration.unique_id == integration))
    found = list(query.order_by(Integration.id))
    if integration is None:
        _require_one_service(str(service), account_id)
        candidates = {
            row.id
            for service_row in {row.service for row in found}
            for row in run_simulation.find_integrations(service_row, source)
        }
        found = [row for row in found if row.id in candidates]
    if not found:
        where = f"{service} has no integration" if service else "no integration"
        raise BadRequest(f"{where} {integration}" if integration else f"nothing takes alerts of {service}")
    if len(found) > 1:
        names = ", ".join(f"{row.service.name}/{row.name} ({row.unique_id})" for row in found)
        raise BadRequest(f"there are several, say which --integration: {names}")
    only: Integration = found[0]
    return only


def _require_one_service(service: str, account_id: str | None) -> None:
    """Or say which there are: a name may stand for services of several accounts."""
    query = Service.select(Service, Team, Account).join(Team).join(Account)
    query = query.where((Service.name == service) | (Service.unique_id == service))
    accounts = {row.team.account.account_identifier: row.team.account.name for row in query}
    if account_id is not None and account_id not in accounts:
        raise BadRequest(f"no service {service} in an account {account_id}")
    if not accounts:
        raise BadRequest(f"no service {service}")
    if account_id is None and len(accounts) > 1:
        known = ", ".join(f"{identifier} ({name})" for identifier, name in accounts.items())
        raise BadRequest(f"several accounts have a service {service}, say which --account: {known}")


def _find_users(expected: Sequence[str], integration: Integration) -> dict[str, User]:
    """Those of the integration's account whom these words name."""
    names = {word: word.strip().lower() for word in expected}
    users = User.select().where(
        User.account == integration.service.team.account_id,
        User.removed_at.is_null(),
        in_list(peewee.fn.LOWER(User.email), names.values()) | in_list(User.username, names.values()),
    )
    known = {name: user for user in users for name in (user.email.lower(), user.username)}
    for word, name in names.items():
        if name not in known:
            raise BadRequest(f"nobody in the account is {word}")
    return {word: known[name] for word, name in names.items()}


def _list_missed(expected_users: dict[str, User], result: JsonDict) -> list[str]:
    notified = {person["username"] for person in result["notified"]}
    return [word for word, user in expected_users.items() if user.username not in notified]


def format_lines(result: JsonDict, zone: ZoneInfo) -> Iterator[str]:
    """What would happen as lines of text, the moments by the clock of a zone."""
    yield (
        f"an alert to {result['integration']['name']} of {result['service']['name']}"
        f" at {_format_time(result['at'], zone)},"
        f" and nobody reacts until {_format_time(result['until'], zone)}"
    )
    for alert in result["alerts"]:
        yield ""
        yield from _format_alert(alert)
    yield ""
    rows = [_format_row(event, zone) for event in result["simulated_events"]]
    yield from format_table([("AT", "AFTER", "WHAT", "WHO", "BY", "WHY"), *rows])
    yield ""
    if result["is_truncated"]:
        yield f"cut off: there is more than {MAX_SIMULATED_EVENTS:,} happenings, or than there was time for"
    elif result["continues_at"]:
        yield f"more would happen from {_format_time(result['continues_at'], zone)} on"
    names = ", ".join(
        f"{shorten(person['person'])} after {_format_duration(person['after'])}"
        for person in result["notified"]
    )
    yield f"told: {names or NOBODY}"


def _format_alert(alert: JsonDict) -> Iterator[str]:
    yield f"alert {alert['alert_type']}: {alert['message']}  [{alert['entity_id']}]"
    for step in alert["stages"]:
        yield f"  {step['stage']:<10} {step['reason']}"
    for rule in alert["rules"]:
        yield from format_rule(rule)


def _format_row(event: JsonDict, zone: ZoneInfo) -> tuple[str, ...]:
    by = f"{event['channel']}: {shorten(event['contact'])}" if event["channel"] else ""
    what = event["kind"] if event["kind"] in ("notified", "opened") else event["what"].replace("_", " ")
    who, why = shorten(event["person"] or ""), shorten(event["reason"], MAX_REASON)
    return _format_time(event["at"], zone), _format_duration(event["after"]), what, who, by, why


def _format_time(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def _format_duration(seconds: float) -> str:
    """A length of time as --for takes it."""
    rest, text = round(seconds), ""
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
