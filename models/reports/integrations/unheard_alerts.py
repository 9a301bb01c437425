"""Find out whether the newest alerts of an integration all reached nobody, and what to change then."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.enums import AlertType, NotificationStatus
from models.domain.reasons import Reason, make_reason
from models.store.prepared import in_list
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.services import Integration

# Older alerts do not count.
SINCE = timedelta(days=1)
# The newest alerts of an integration that are examined.
MAX_ALERTS = 2_000
# Alerts that one query reads: the newest incident of an integration has usually notified somebody.
PAGE = 100
# The other levels need not reach anybody: they acknowledge or end something.
COUNTED = (AlertType.INFO, AlertType.WARNING, AlertType.ERROR, AlertType.CRITICAL)

# The reasons of an alert whose level opens no incident.
_OPENS_NOTHING = frozenset({"opens_never", "level_opens_nothing"})
# The value of create_incidents_for that covers a level; info is never covered.
_COVERING = {AlertType.CRITICAL: 1, AlertType.ERROR: 2, AlertType.WARNING: 3}


@dataclass(frozen=True, slots=True)
class Unheard:
    """The alerts of an integration that all reached nobody.

    `last` is the newest of them. `advice` says what to change, and where; None: the causes say it.
    `is_usual`: the sender gave all of them the level info, which notifies nobody.
    """

    count: int
    is_complete: bool
    last: Event
    advice: Reason | None
    is_usual: bool


def find_unheard(integration: Integration, now: datetime) -> Unheard | None:
    """Return the alerts of the last day if none of them notified anybody, and nobody acknowledged.

    None: an alert reached somebody, or there was none.
    """
    count, is_usual, last, before = 0, True, None, None
    while count < MAX_ALERTS:
        page = _list_page(integration, before)
        new = [event for event in page if event.creation_date >= now - SINCE]
        counted = [event for event in new if _is_counted(event)]
        if _notified_somebody({event.incident_id for event in counted} - {None}):
            return None
        count, last = count + len(counted), last or next(iter(counted), None)
        is_usual = is_usual and all(map(_is_declared_info, counted))
        if len(new) < PAGE:
            break
        before = page[-1].id
    if last is None:
        return None
    return Unheard(count, count < MAX_ALERTS, last, _advise(integration, last), is_usual)


def _list_page(integration: Integration, before: int | None) -> list[Event]:
    columns = (Event.id, Event.incident, Event.alert_type, Event.creation_date, Event.unique_id)
    query = Event.select(*columns, Event.suppressed, Event.reasons, Event.error, Receipt.trace_id).join(
        Receipt
    )
    query = query.where(Event.integration == integration.id)
    if before is not None:
        query = query.where(Event.id < before)
    return list(query.order_by(Event.id.desc()).limit(PAGE))


def _is_counted(event: Event) -> bool:
    """Return whether an alert should reach somebody: a note of a tool, such as about a downtime, need not."""
    return event.alert_type in COUNTED and not (event.alert_type == AlertType.INFO and event.suppressed)


def _is_declared_info(event: Event) -> bool:
    return event.alert_type == AlertType.INFO and "level_not_sent" not in _list_codes(event)


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


def _advise(integration: Integration, event: Event) -> Reason | None:
    """Return what to change so that alerts like this one notify people; None: its reason says it."""
    codes, level = set(_list_codes(event)), AlertType(event.alert_type)
    name = integration.unique_id
    if "signature_required" in codes:
        return make_reason("advise_signature", integration=name)
    if not codes & _OPENS_NOTHING:
        return None
    if "level_not_sent" in codes:
        return make_reason("advise_default_level", integration=name)
    if "level_declared" in codes:
        return make_reason("advise_declared_level", integration=name, level=level.name.lower())
    if level not in _COVERING:
        return make_reason("advise_info", integration=name)
    return make_reason("advise_levels", integration=name, value=_COVERING[level])


def _list_codes(event: Event) -> list[str]:
    return [code for _, reason in list_reasons(event) for code in _list_all_codes(reason)]


def _list_all_codes(reason: Reason) -> Iterable[str]:
    yield reason.code
    for each in reason.more:
        yield from _list_all_codes(each)
