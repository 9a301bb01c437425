"""Report on the sources of integrations: last alert, rates, bodies that were not understood, silence.

Each question reads a bounded number of rows, by an index, however many alerts are stored.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush

import peewee

from models.domain.enums import IntegrationType, ServiceStatus, WorkState
from models.domain.reasons import Reason
from models.domain.source_silence import MIN_SILENCE, REGULAR_TIME, Silence, find_silence
from models.reports.integrations.unheard_alerts import Unheard, find_unheard
from models.store.prepared import Prepared, bind, contains_any, in_bound
from models.store.store import store
from models.tables.events import Event, Receipt, list_reasons
from models.tables.services import Integration, Service
from models.tables.teams import Team

# Counts end here.
MAX_COUNTED = 10_000
# The newest alerts whose reasons are read.
MAX_EXAMINED = 1_000
# Between two times that are read to find the usual gap: a gap is measured longer by at most this.
SAMPLE_GAP = timedelta(hours=3)
# Alerts of routers: the newest that are read for the same, and how many times between alerts are halved.
MAX_READ = 64
MAX_HALVED = 32
# Integrations whose earlier alerts are read for one list.
MAX_CANDIDATES = 200

PERIODS: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}

# Reasons of the stage `normalize`: the body was not what the tool sends, or not from the tool.
_UNREAD = frozenset({"other_form", "alert_unreadable", "title_guessed"})
_REFUSED_PREFIX = "signature_"

# A literal and not a parameter: otherwise SQLite does not use the partial indexes.
_DEAD_LETTER = peewee.SQL(str(int(WorkState.DEAD_LETTER)))


@dataclass(frozen=True, slots=True)
class Sighting:
    """An alert or a receipt that an answer names. `reason`: why it is named."""

    trace_id: str
    received_at: datetime
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class LastAlert:
    """The newest stored alert of an integration, with the reason of its last stage."""

    trace_id: str
    received_at: datetime
    alert_type: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Count:
    """How many times something happened, with its newest case. `is_complete`: false if there may be more."""

    count: int = 0
    is_complete: bool = True
    newest: Sighting | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests with the key of an integration, and its stored alerts, in a period that ends now."""

    period: str
    requests: int
    alerts: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class UnheardCount:
    """The alerts of the last day, if all of them reached nobody, and what to change then."""

    count: Count
    advice: Reason | None


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """`last_request_at` is that of the newest request with the key; None: none is stored."""

    last_request_at: datetime | None
    last_alert: LastAlert | None
    rates: Sequence[Rate]
    dead_letters: Count
    unread: Count
    refused: Count
    unheard: UnheardCount
    silence: Silence | None


@dataclass(frozen=True, slots=True)
class SilentSource:
    integration: Integration
    silence: Silence


@dataclass(frozen=True, slots=True)
class SilentSources:
    """`is_complete`: false if more integrations than MAX_CANDIDATES had to be examined."""

    sources: Sequence[SilentSource] = field(default_factory=tuple)
    is_complete: bool = True


def load_health(integration: Integration, own_sources: Iterable[str], now: datetime) -> SourceHealth:
    """Load the health of an integration. Requests of `own_sources` are written by Tocsin itself."""
    row = integration.id
    last_request_at = (
        _select_requests(row, own_sources).order_by(Receipt.received_at.desc()).limit(1).scalar()
    )
    unread, refused = _count_by_reason(row)
    return SourceHealth(
        last_request_at,
        _find_last_alert(row),
        _load_rates(row, own_sources, now),
        _count_dead_letters(row),
        unread,
        refused,
        _describe_unheard(find_unheard(integration, now)),
        find_silence(_list_moments(row, last_request_at, list(own_sources)), now),
    )


def list_silent(
    teams: peewee.ModelSelect,
    own_sources: Iterable[str],
    now: datetime,
    go_on: Callable[[], object] = lambda: None,
) -> SilentSources:
    """Return the integrations of these teams that went silent, the latest silence first.

    What `own_sources` sent is written by Tocsin itself, and ends no silence. `go_on` is called before the
    earlier alerts of each integration are read, and may raise.
    """
    own = list(own_sources)
    candidates = _list_candidates(teams, own, now)
    found = []
    for row, last_request_at in candidates[:MAX_CANDIDATES]:
        go_on()
        silence = find_silence(_list_moments(row, last_request_at, own), now)
        if silence is not None:
            found.append((row, silence))
    query = Integration.select(Integration, Service, Team).join(Service).join(Team)
    rows = {each.id: each for each in query.where(Integration.id.in_([row for row, _ in found]))}
    sources = [SilentSource(rows[row], silence) for row, silence in found if row in rows]
    return SilentSources(sources, len(candidates) <= MAX_CANDIDATES)


def _list_candidates(
    teams: peewee.ModelSelect, own: Sequence[str], now: datetime
) -> list[tuple[int, datetime | None]]:
    """Return integrations without alerts for MIN_SILENCE, each with its last request, the latest first.

    Heartbeats are left out, because a missing ping is reported at once. So is what takes no alerts.
    """
    by_key = Receipt.select(Receipt.received_at).where(
        Receipt.integration == Integration.id, Receipt.source.not_in(own)
    )
    # Another name: the query of the requests has the table too.
    body = Receipt.alias()
    stored = (
        Event.select(Event.creation_date)
        .join(body)
        .where(Event.integration == Integration.id, body.source.not_in(own))
    )
    query = (
        Integration.select(
            Integration.id,
            by_key.order_by(Receipt.received_at.desc()).limit(1),
            stored.order_by(Event.id.desc()).limit(1),
        )
        .join(Service)
        .where(
            Service.team.in_(teams),
            Service.status != ServiceStatus.DISABLED,
            Integration.is_enabled,
            Integration.integration_type == IntegrationType.ALERT,
            Integration.expected_at.is_null(),
        )
    )
    found = []
    for row, *times in query.tuples():
        requested_at, stored_at = (Receipt.received_at.python_value(at) for at in times)
        last = max(filter(None, (requested_at, stored_at)), default=None)
        if last is not None and now - last > MIN_SILENCE:
            found.append((last, row, requested_at))
    found.sort(key=lambda each: each[:2], reverse=True)
    return [(row, requested_at) for _, row, requested_at in found]


_NEWEST_REQUEST = Prepared(
    lambda: (
        Receipt.select(Receipt.received_at)
        .where(
            Receipt.integration == bind("integration"),
            Receipt.received_at <= bind("before"),
            ~in_bound(Receipt.source, "own"),
        )
        .order_by(Receipt.received_at.desc())
        .limit(1)
    )
)


def _prepare_alerts(
    condition: Callable[[], peewee.Expression], *, newest_first: bool, limit: int
) -> Prepared:
    """Prepare the selection of alerts of an integration that others sent, beside one of them."""
    order = Event.id.desc() if newest_first else Event.id.asc()
    return Prepared(
        lambda: (
            Event.select(Event.id, Event.creation_date)
            .join(Receipt)
            .where(Event.integration == bind("integration"), condition(), ~in_bound(Receipt.source, "own"))
            .order_by(order)
            .limit(limit)
        )
    )


_NEWEST_ALERTS = _prepare_alerts(lambda: Event.id <= bind("at"), newest_first=True, limit=MAX_READ)
_NEWEST_ALERT = _prepare_alerts(lambda: Event.id <= bind("at"), newest_first=True, limit=1)
_OLDEST_ALERT = _prepare_alerts(lambda: Event.id > bind("at"), newest_first=False, limit=1)
# Larger than the id of each alert.
_END = 2**62

# An alert: its id and its time.
_Point = tuple[int, datetime]


def _list_moments(row: int, last_request_at: datetime | None, own: Sequence[str]) -> list[datetime]:
    """Return times at which an integration got alerts, newest first.

    Of requests with its key, they are at least SAMPLE_GAP apart. Alerts of routers are sampled too, if one of
    them is newer than the last request.
    """
    moments = set(_sample_requests(row, last_request_at, own)) if last_request_at else set()
    newest = _NEWEST_ALERT.first(integration=row, at=_END, own=own)
    if newest is not None and (last_request_at is None or newest[1] > last_request_at):
        moments |= _sample_alerts(row, own)
    return sorted(moments, reverse=True)


def _sample_requests(row: int, last: datetime, own: Sequence[str]) -> Iterator[datetime]:
    at: datetime | None = last
    while at is not None and last - at < REGULAR_TIME:
        yield at
        found = _NEWEST_REQUEST.first(integration=row, before=at - SAMPLE_GAP, own=own)
        at = found[0] if found else None


def _sample_alerts(row: int, own: Sequence[str]) -> set[datetime]:
    """Return the times of some alerts: all of few, else of those beside the longest times without alerts.

    No index has the times of alerts, but their ids grow with them. The longest time between two known alerts
    is halved by ids MAX_HALVED times, or until none is longer than SAMPLE_GAP. The two alerts beside each
    middle have no other between them.
    """
    read: list[_Point] = _NEWEST_ALERTS.rows(integration=row, at=_END, own=own)
    moments = {at for _, at in read}
    start = read[0][1] - REGULAR_TIME
    if len(read) < MAX_READ or read[-1][1] <= start:
        return moments
    oldest = _OLDEST_ALERT.first(integration=row, at=0, own=own)
    # As a heap: the longest time first. Earlier times than `start` do not count.
    open_spans: list[tuple[timedelta, _Point, _Point]] = []

    def add(older: _Point, newer: _Point) -> None:
        length = newer[1] - max(older[1], start)
        if newer[0] - older[0] > 1 and length > SAMPLE_GAP:
            heappush(open_spans, (-length, older, newer))

    if oldest is not None:
        moments.add(oldest[1])
        add((oldest[0], oldest[1]), read[-1])
    for _ in range(MAX_HALVED):
        if not open_spans:
            break
        _, older, newer = heappop(open_spans)
        middle = (older[0] + newer[0]) // 2
        before = _NEWEST_ALERT.first(integration=row, at=middle, own=own)
        after = _OLDEST_ALERT.first(integration=row, at=middle, own=own)
        # Retention may have deleted these meanwhile.
        if before is None or after is None:
            continue
        moments |= {before[1], after[1]}
        add(older, (before[0], before[1]))
        add((after[0], after[1]), newer)
    return moments


def _select_requests(row: int, own_sources: Iterable[str]) -> "peewee.ModelSelect[Receipt]":
    return Receipt.select(Receipt.received_at).where(
        Receipt.integration == row, Receipt.source.not_in(list(own_sources))
    )


def _find_last_alert(row: int) -> LastAlert | None:
    columns = (Event.creation_date, Event.alert_type, Event.reasons, Event.error)
    query = Event.select(*columns, Receipt.trace_id).join(Receipt).where(Event.integration == row)
    event = query.order_by(Event.id.desc()).first()
    if event is None:
        return None
    return LastAlert(event.receipt.trace_id, event.creation_date, event.alert_type, _get_outcome(event))


def _get_outcome(event: Event) -> Reason | None:
    """Return what the last stage decided about an alert, or its error; None: no stage has yet."""
    reasons = list_reasons(event)
    return event.error or (reasons[-1][1] if reasons else None)


def _describe_unheard(found: Unheard | None) -> UnheardCount:
    if found is None:
        return UnheardCount(Count(), None)
    last = found.last
    newest = Sighting(last.receipt.trace_id, last.creation_date, _get_outcome(last))
    return UnheardCount(Count(found.count, found.is_complete, newest), found.advice)


def _load_rates(row: int, own_sources: Iterable[str], now: datetime) -> list[Rate]:
    alerts, is_complete = _count_alerts(row, now)
    rates = []
    for (period, length), stored in zip(PERIODS.items(), alerts, strict=True):
        requests = _select_requests(row, own_sources).where(Receipt.received_at > now - length)
        count = requests.limit(MAX_COUNTED + 1).count()
        rates.append(
            Rate(
                period,
                min(count, MAX_COUNTED),
                stored,
                count <= MAX_COUNTED and (is_complete or stored < MAX_COUNTED),
            )
        )
    return rates


def _count_alerts(row: int, now: datetime) -> tuple[list[int], bool]:
    """Return the number of stored alerts in each period, and whether all alerts were read."""
    newest = Event.select(Event.creation_date).where(Event.integration == row)
    read = newest.order_by(Event.id.desc()).limit(MAX_COUNTED).alias("newest")
    starts = [peewee.Value(Event.creation_date.db_value(now - length)) for length in PERIODS.values()]
    sums = [
        peewee.fn.SUM(peewee.Case(None, [(read.c.creation_date > start, 1)], 0)).coerce(False)
        for start in starts
    ]
    *counts, total = peewee.Select([read], [*sums, peewee.fn.COUNT(1)]).tuples().bind(store().database).get()
    return [int(count or 0) for count in counts], total < MAX_COUNTED


def _count_dead_letters(row: int) -> Count:
    """Count the dead letters of an integration: bodies and alerts that Tocsin could not process."""
    bodies = Receipt.select(Receipt.trace_id, Receipt.received_at, Receipt.error).where(
        Receipt.integration == row, Receipt.state == _DEAD_LETTER
    )
    alerts = (
        Event.select(Receipt.trace_id, Event.creation_date, Event.error)
        .join(Receipt)
        .where(Event.integration == row, Event.state == _DEAD_LETTER)
    )
    count = bodies.limit(MAX_COUNTED + 1).count() + alerts.limit(MAX_COUNTED + 1).count()
    newest = [
        *bodies.order_by(Receipt.id.desc()).limit(1).tuples(),
        *alerts.order_by(Event.id.desc()).limit(1).tuples(),
    ]
    last = max((Sighting(*each) for each in newest), key=lambda each: each.received_at, default=None)
    return Count(min(count, MAX_COUNTED), count <= MAX_COUNTED, last)


def _count_by_reason(row: int) -> tuple[Count, Count]:
    """Count the newest alerts that did not have the form of their tool, and those that were refused."""
    ids = Event.select(Event.id).where(Event.integration == row).order_by(Event.id.desc())
    is_complete = not ids.offset(MAX_EXAMINED).limit(1).exists()
    unread: list[Sighting] = []
    refused: list[Sighting] = []
    for event in _select_marked(row, _UNREAD, _REFUSED_PREFIX):
        for found, marked in ((unread, _find_reason(event, _UNREAD)), (refused, _find_refusal(event))):
            if marked is not None:
                found.append(Sighting(event.receipt.trace_id, event.creation_date, marked))
    return _build_count(unread, is_complete), _build_count(refused, is_complete)


def _select_marked(row: int, codes: Iterable[str], *prefixes: str) -> "peewee.ModelSelect[Event]":
    """Select those of the newest alerts whose reasons have one of these codes, the newest first."""
    ids = Event.select(Event.id).where(Event.integration == row).order_by(Event.id.desc())
    marks = [*(f'"{code}"' for code in sorted(codes)), *(f'"{prefix}' for prefix in prefixes)]
    return (
        Event.select(Event.id, Event.creation_date, Event.reasons, Receipt.trace_id)
        .join(Receipt)
        .where(Event.id.in_(ids.limit(MAX_EXAMINED)), contains_any(Event.reasons, marks))
        .order_by(Event.id.desc())
    )


def _find_reason(event: Event, codes: Collection[str]) -> Reason | None:
    return next((reason for reason in _list_own_reasons(event) if reason.code in codes), None)


def _find_refusal(event: Event) -> Reason | None:
    reasons = _list_own_reasons(event)
    return next((reason for reason in reasons if reason.code.startswith(_REFUSED_PREFIX)), None)


def count_unread(integration: Integration, since: datetime) -> Count:
    """Count the alerts since this time that did not have the form of their tool, of the newest."""
    query = _select_marked(integration.id, _UNREAD).where(Event.creation_date >= since)
    found = [
        Sighting(event.receipt.trace_id, event.creation_date, reason)
        for event in query
        if (reason := _find_reason(event, _UNREAD)) is not None
    ]
    return _build_count(found, is_complete=True)


def _list_own_reasons(event: Event) -> list[Reason]:
    """Return the reasons of the first stage, without those that follow from others."""
    return [each for stage, reason in list_reasons(event)[:1] for each in (reason, *reason.more)]


def _build_count(found: Sequence[Sighting], is_complete: bool) -> Count:
    return Count(len(found), is_complete, found[0] if found else None)
