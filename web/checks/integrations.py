"""Find integrations whose alerts reach nobody or cannot be read, and integrations that went silent."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from models.reports import alert_answer, trace_ids
from models.reports.integrations import source_health
from models.reports.integrations.unheard_alerts import SINCE, find_unheard
from models.tables.accounts import Account
from models.tables.events import Event
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources.own import OWN_SOURCES
from schedules.oncall.shifts import format_local
from web.checks.finding import TRUNCATED, Finding


def find_unheard_integrations(
    account: Account, now: datetime, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find integrations whose alerts of the last day all reached nobody: no notification, and nobody
    acknowledged. `go_on` is called before each integration, and may raise.

    The finding is minor if the sender itself gave all of them the level info.
    """
    for integration in _list_integrations(account, go_on):
        found = find_unheard(integration, now)
        if found is None:
            continue
        alerts = "the only alert" if found.count == 1 else f"all {found.count:,} alerts"
        advice = f". {found.advice}".removesuffix(".") if found.advice is not None else ""
        what = (
            f"{alerts} of the last day to integration {integration.name} of service"
            f" {integration.service.name} reached nobody. The reason of the last one:"
            f" {_describe_causes(found.last, account)}{advice}"
        )
        about = f"integration {integration.name}"
        yield Finding("unheard", integration.team.name, about, what, minor=found.is_usual)


def find_unread_integrations(
    account: Account, now: datetime, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find integrations that got bodies in the last day that did not have the form of their tool.

    `go_on` is called before each integration, and may raise.
    """
    for integration in _list_integrations(account, go_on):
        found = source_health.count_unread(integration, now - SINCE)
        if found.newest is None:
            continue
        alerts = "an alert" if found.count == 1 else f"{found.count:,} alerts"
        what = (
            f"{alerts} of the last day to integration {integration.name} of service"
            f" {integration.service.name} had a form that Tocsin does not know, so it guessed the title and"
            f" what names the problem, and nothing resolves it: compare `tocsin why {found.newest.trace_id}`"
            " with the page of the tool in docs/sources.md, or use an integration of the application JSON"
            " with a mapping"
        )
        yield Finding("unread", integration.team.name, f"integration {integration.name}", what)


def _list_integrations(account: Account, go_on: Callable[[], object]) -> Iterator[Integration]:
    query = Integration.select(Integration, Service, Team).join(Service).join(Team)
    for integration in query.where(Team.account == account).order_by(Integration.id):
        go_on()
        yield integration


def _describe_causes(event: Event, account: Account) -> str:
    """Return why an alert reached nobody, in the words of `tocsin why`.

    If it joined an incident, this is about the alert that opened the incident.
    """
    if event.incident is None:
        found = trace_ids.find_alert(event.unique_id, [account])
    else:
        found = trace_ids.find_incident(event.incident.incident_number, account)
    return "; ".join(alert_answer.list_causes(trace_ids.build_trace_of(found))) if found else "it was deleted"


def find_silent_integrations(
    account: Account, now: datetime, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find integrations that got alerts regularly, and get none for much longer than usual.

    The findings are minor: most tools send alerts only if there is a problem. `go_on` is called before each
    integration, and may raise.
    """
    teams = Team.select(Team.id).where(Team.account == account)
    found = source_health.list_silent(teams, OWN_SOURCES, now, go_on)
    for source in found.sources:
        integration, silence = source.integration, source.silence
        what = (
            f"integration {integration.name} of service {integration.service.name} went silent: its last"
            f" alert came on {format_local('UTC', silence.last_at)}, and before, the longest time without"
            f" alerts was at most {_format_hours(silence.usual_gap)}. Look whether its tool still sends"
        )
        about = f"integration {integration.name}"
        yield Finding("silent", integration.team.name, about, what, minor=True, start=silence.last_at)
    if not found.is_complete:
        what = (
            f"only the {source_health.MAX_CANDIDATES} integrations with the latest alerts were examined for"
            " silence"
        )
        yield Finding(TRUNCATED, "", "integrations", what, minor=True)


def _format_hours(length: timedelta) -> str:
    hours = max(1, round(length / timedelta(hours=1)))
    return f"{hours} hour{'s' * (hours != 1)}"
