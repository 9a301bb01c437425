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

from models.accounts import Account, User
from models.base import store
from models.prepared import any_of
from models.services import Integration, Service
from models.teams import Team
from pipeline.course import MOST_HAPPENINGS
from pipeline.simulation import LONGEST
from pipeline.sources import SOURCES, generic
from pipeline.sources.body import BadBody
from schedules import coverage
from schedules.wall import moment_of, zone_of
from tocsin import simulation
from tocsin.oncall import NOBODY
from tocsin.people import as_json_option
from tocsin.reading import CUT_OFF, FOUND, Unusable, reading
from tocsin.table import as_json_text, plain, short, table
from tocsin.why import rule_lines

Told = dict[str, Any]

# Of longer reasons, which may name very many people, the beginning.
LONGEST_WHY = 160

_LENGTH = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


class LengthType(click.ParamType):
    """A length of time as 90s, 45m, 2h, 1d, or several of these in a row."""

    name = "length"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        parts = _LENGTH.findall(value.strip())
        if not parts or "".join(map("".join, parts)) != value.strip():
            self.fail(f"{value} is no length of time: say 90s, 45m, 2h30m or 1d")
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in parts)
        if seconds > LONGEST.total_seconds():
            self.fail(f"{value} is too long: at most {LONGEST.days}d")
        return timedelta(seconds=seconds)


class ZoneType(click.ParamType):
    name = "zone"

    def convert(self, value: Any, param: Any, ctx: Any) -> ZoneInfo:
        if isinstance(value, ZoneInfo):
            return value
        try:
            return zone_of(value)
        except ZoneInfoNotFoundError:
            self.fail(f"no time zone has the name {value!r}")


@click.command()
@click.option("--service", "service_name", metavar="NAME", help="A service by its name or unique_id.")
@click.option(
    "--integration", "integration_name", metavar="NAME", help="One of it; needed where it has several."
)
@click.option(
    "--at", "said_at", metavar="WHEN", help="When it comes, in --zone unless it says; default: now."
)
@click.option(
    "--for",
    "lasts",
    metavar="LENGTH",
    type=LengthType(),
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
    said_at: str | None,
    lasts: timedelta,
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
    with reading() as settings:
        said = {"message": message, "alert_type": alert_type or "critical", "entity_id": entity_id}
        body = payload.read() if payload else orjson.dumps(said)
        form = source if payload else generic.EXTENSION
        integration = _integration(service_name, integration_name, account_id, form)
        awaited = _awaited(expected, integration)
        now = store().now()
        at = _moment(said_at, zone) if said_at and said_at.strip() != "now" else now
        if with_open and (at := simulation.of_present_minute(at, now)) < now:
            raise Unusable("what is open now was not open then: ask without --with-open")
        try:
            form = form or simulation.source_of(integration)
            told = simulation.ask(simulation.Question(integration, form, body, at, lasts, with_open))
        except BadBody as error:
            raise Unusable(f"the alert would be refused: {error}") from None
    missed = _missed(awaited, told)
    told["not_told"], told["not_known"] = ([], missed) if told["is_cut"] else (missed, [])
    told["warnings"] = simulation.warnings(settings)
    if as_json:
        click.echo(as_json_text(told))
    else:
        for line in lines(told, zone):
            click.echo(plain(line))
    for warning in told["warnings"]:
        click.echo(warning, err=True)
    for person in missed:
        unsure = "it is not known whether {} would be told: cut off"
        click.echo((unsure if told["is_cut"] else "{} would not be told").format(person), err=True)
    if missed:
        sys.exit(CUT_OFF if told["is_cut"] else FOUND)


def _require_one_form(
    message: str | None,
    payload: IO[bytes] | None,
    alert_type: str | None,
    entity_id: str | None,
    source: str | None,
) -> None:
    """Nothing that is said is left out silently."""
    if (message is None) == (payload is None):
        raise Unusable("give either a --message or a --payload")
    if message is not None and source not in (None, generic.EXTENSION):
        raise Unusable("--source says which tool sends a --payload; a --message has the generic form")
    if payload is not None and (alert_type is not None or entity_id is not None):
        raise Unusable("--alert-type and --entity-id go with a --message; a --payload has its own")


def _moment(text: str, zone: ZoneInfo) -> datetime:
    """RFC 3339, or a date and time by the clock of the zone."""
    try:
        said = datetime.fromisoformat(text.strip())
        at = moment_of(said, zone) if said.tzinfo is None else said.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unusable(
            f"{text} is no moment: say 2026-12-24T18:00:00+01:00, or 2026-12-24 18:00 by the clock of --zone"
        ) from None
    if not coverage.EARLIEST <= at < coverage.LATEST:
        raise Unusable(f"{text} is too far away")
    return at


def _integration(
    service: str | None, integration: str | None, account_id: str | None, source: str | None
) -> Integration:
    """The integration that is named or, by its service and the source, meant: the only one."""
    if service is None and integration is None:
        raise Unusable("name a --service or an --integration")
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
        ways_in = {
            row.id for one in {row.service for row in found} for row in simulation.ways_in(one, source)
        }
        found = [row for row in found if row.id in ways_in]
    if not found:
        where = f"{service} has no integration" if service else "no integration"
        raise Unusable(f"{where} {integration}" if integration else f"nothing takes alerts of {service}")
    if len(found) > 1:
        names = ", ".join(f"{row.service.name}/{row.name} ({row.unique_id})" for row in found)
        raise Unusable(f"there are several, say which --integration: {names}")
    only: Integration = found[0]
    return only


def _require_one_service(service: str, account_id: str | None) -> None:
    """Or say which there are: a name may stand for services of several accounts."""
    query = Service.select(Service, Team, Account).join(Team).join(Account)
    query = query.where((Service.name == service) | (Service.unique_id == service))
    accounts = {row.team.account.account_identifier: row.team.account.name for row in query}
    if account_id is not None and account_id not in accounts:
        raise Unusable(f"no service {service} in an account {account_id}")
    if not accounts:
        raise Unusable(f"no service {service}")
    if account_id is None and len(accounts) > 1:
        known = ", ".join(f"{identifier} ({name})" for identifier, name in accounts.items())
        raise Unusable(f"several accounts have a service {service}, say which --account: {known}")


def _awaited(expected: Sequence[str], integration: Integration) -> dict[str, User]:
    """Those of the integration's account whom these words name."""
    names = {word: word.strip().lower() for word in expected}
    users = User.select().where(
        User.account == integration.service.team.account_id,
        User.removed_at.is_null(),
        any_of(peewee.fn.LOWER(User.email), names.values()) | any_of(User.username, names.values()),
    )
    known = {name: user for user in users for name in (user.email.lower(), user.username)}
    for word, name in names.items():
        if name not in known:
            raise Unusable(f"nobody in the account is {word}")
    return {word: known[name] for word, name in names.items()}


def _missed(awaited: dict[str, User], told: Told) -> list[str]:
    reached = {each["username"] for each in told["told"]}
    return [word for word, user in awaited.items() if user.username not in reached]


def lines(told: Told, zone: ZoneInfo) -> Iterator[str]:
    """What would happen as lines of text, the moments by the clock of a zone."""
    yield (
        f"an alert to {told['integration']['name']} of {told['service']['name']}"
        f" at {_clock(told['at'], zone)}, and nobody reacts until {_clock(told['until'], zone)}"
    )
    for alert in told["alerts"]:
        yield ""
        yield from _alert_lines(alert)
    yield ""
    rows = [_row(each, zone) for each in told["happenings"]]
    yield from table([("AT", "AFTER", "WHAT", "WHO", "BY", "WHY"), *rows])
    yield ""
    if told["is_cut"]:
        yield f"cut off: there is more than {MOST_HAPPENINGS:,} happenings, or than there was time for"
    elif told["goes_on_at"]:
        yield f"more would happen from {_clock(told['goes_on_at'], zone)} on"
    names = ", ".join(f"{short(each['person'])} after {_length(each['after'])}" for each in told["told"])
    yield f"told: {names or NOBODY}"


def _alert_lines(alert: Told) -> Iterator[str]:
    yield f"alert {alert['alert_type']}: {alert['message']}  [{alert['entity_id']}]"
    for step in alert["road"]:
        yield f"  {step['stage']:<10} {step['reason']}"
    for rule in alert["rules"]:
        yield from rule_lines(rule)


def _row(each: Told, zone: ZoneInfo) -> tuple[str, ...]:
    by = f"{each['channel']}: {short(each['contact'])}" if each["channel"] else ""
    what = each["kind"] if each["kind"] in ("told", "opened") else each["what"].replace("_", " ")
    who, why = short(each["person"] or ""), short(each["why"], LONGEST_WHY)
    return _clock(each["at"], zone), _length(each["after"]), what, who, by, why


def _clock(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def _length(seconds: float) -> str:
    """A length of time as --for takes it."""
    left, said = round(seconds), ""
    for unit, size in _SECONDS.items():
        count, left = divmod(left, size)
        said += f"{count}{unit}" if count else ""
    return said or "0s"
