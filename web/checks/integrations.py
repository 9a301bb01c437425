"""Find integrations whose alerts reach nobody, and integrations that went silent."""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta

from models.domain.enums import AlertType, NotificationStatus
from models.reports import alert_answer, trace_ids
from models.reports.integrations import source_health
from models.store.prepared import in_list
from models.tables.accounts import Account
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.sources.table import OWN_SOURCES
from schedules.oncall.shifts import format_local
from web.checks.finding import TRUNCATED, Finding

SINCE = timedelta(days=1)
# The newest alerts of an integration that are examined.
MAX_ALERTS = 2_000
# Alerts that one query reads: the newest incident of an integration has usually notified somebody.
PAGE = 100
# The other levels need not reach anybody: info never opens an incident, the others end something.
FIRING = (AlertType.WARNING, AlertType.ERROR, AlertType.CRITICAL)


def find_unheard_integrations(
    account: Account, now: datetime, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find integrations whose alerts of the last day all reached nobody: no notification, and nobody
    acknowledged. `go_on` is called before each integration, and may raise."""
    query = Integration.select(Integration, Service, Team).join(Service).join(Team)
    for integration in query.where(Team.account == account).order_by(Integration.id):
        go_on()
        count, last = _count_unheard(integration, now - SINCE)
        if last is not None:
            alerts = "the only alert" if count == 1 else f"all {count:,} alerts"
            what = (
                f"{alerts} of the last day to integration {integration.name} of service"
                f" {integration.service.name} reached nobody. The reason of the last one:"
                f" {_describe_causes(last, account)}"
            )
            yield Finding("unheard", integration.team.name, f"integration {integration.name}", what)


def _describe_causes(event: Event, account: Account) -> str:
    """Return why an alert reached nobody, in the words of `tocsin why`.

    If it joined an incident, this is about the alert that opened the incident.
    """
    if event.incident is None:
        found = trace_ids.find_alert(event.unique_id, [account])
    else:
        found = trace_ids.find_incident(event.incident.incident_number, account)
    return "; ".join(alert_answer.list_causes(trace_ids.build_trace_of(found))) if found else "it was deleted"


def _count_unheard(integration: Integration, since: datetime) -> tuple[int, Event | None]:
    """Return the number of alerts since this time and the newest one; (0, None) if one reached somebody."""
    count, last, before = 0, None, None
    while count < MAX_ALERTS:
        page = _list_page(integration, before)
        new = [event for event in page if event.creation_date >= since]
        firing = [event for event in new if event.alert_type in FIRING]
        if _notified_somebody({event.incident_id for event in firing} - {None}):
            return 0, None
        count, last = count + len(firing), last or next(iter(firing), None)
        if len(new) < PAGE:
            break
        before = page[-1].id
    return count, last


def _list_page(integration: Integration, before: int | None) -> list[Event]:
    columns = (Event.id, Event.incident, Event.alert_type, Event.creation_date, Event.unique_id)
    query = Event.select(*columns).where(Event.integration == integration.id)
    if before is not None:
        query = query.where(Event.id < before)
    return list(query.order_by(Event.id.desc()).limit(PAGE))


def _notified_somebody(incidents: Collection[int]) -> bool:
    if not incidents:
        return False
    # A pending notification is about to be sent.
    sent = Notification.state.in_([NotificationStatus.PENDING, NotificationStatus.SENT])
    notified = Notification.select().where(in_list(Notification.incident, incidents), sent)
    taken = Incident.select().where(
        in_list(Incident.id, incidents), Incident.acknowledged_date.is_null(False)
    )
    return bool(notified.exists() or taken.exists())


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
