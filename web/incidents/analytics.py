"""Numbers of incidents and mean times until their acknowledgement and resolution: contract section 3.13.

A question reads the incidents of a period by the index `incident_listed`. The period is limited, and so is
the number of incidents in it. An account asks one question of a kind at a time. Drills are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import peewee
from marshmallow import fields, validate

from models.domain.enums import IncidentStatus, Urgency
from models.reports import incident_metrics
from models.reports.drill_report import is_drill
from models.store.fields import UtcField
from models.store.prepared import in_list
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import Team
from schedules.oncall.local_time import from_local, get_zone_or_utc, to_local
from web.http import serialization
from web.http.access import Row
from web.http.auth import Viewer, now, operation, viewer
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.errors import reject
from web.http.fields import (
    SECONDS_LIMIT,
    List,
    Number,
    OptionalChoice,
    OptionalFloat,
    QueryDay,
    Schema,
    Text,
    explain,
)
from web.incidents import filters
from web.incidents.filters import id_list, without_index

# The number of days in the longest period, the first and the last one included.
MAX_DAYS = 366
# Measured on SQLite: about a second.
MAX_INCIDENTS = 500_000
# This name in `user_ids` means incidents without an assignee. Usernames have another form.
UNASSIGNED = "Unassigned"
# This value of `child_incident` leaves out incidents that are merged into others. Other values mean nothing.
EXCLUDE = "exclude"


# "" means that the comparator is not given.
COMPARATOR = validate.OneOf(["gt", "lt", ""], error="Must be gt or lt.")


class AnalyticsFilterSchema(Schema):
    """A filter for analytics. A missing or empty field sets no limit, except the dates."""

    from_date = QueryDay(
        metadata=explain("The first day, in your time zone; null: 366 days that end with `to_date`.")
    )
    to_date = QueryDay(metadata=explain("The last day, in your time zone; null: today."))
    team_ids = id_list()
    service_ids = id_list()
    user_ids = id_list("Only incidents assigned to one of these usernames; `Unassigned`: to nobody.")
    priority_ids = id_list()
    sla_ids = id_list()
    escalation_policy_ids = id_list()
    tag_ids = id_list()
    urgency = OptionalChoice(members=Urgency, metadata=explain("Only incidents of this urgency; null: all."))
    child_incident = Text(
        allow_none=True,
        metadata=explain(
            "`exclude`: without incidents that are merged into others. Other texts and null: all."
        ),
    )
    tta = OptionalFloat(
        allow_nan=False,
        validate=validate.Range(min=0, max=SECONDS_LIMIT),
        metadata=explain("Seconds until the acknowledgement, for `tta_comparator`; null: no limit."),
    )
    tta_comparator = Text(
        allow_none=True,
        validate=COMPARATOR,
        metadata=explain("`gt`: the incident took longer than `tta`; `lt`: less."),
    )
    ttr = OptionalFloat(
        allow_nan=False,
        validate=validate.Range(min=0, max=SECONDS_LIMIT),
        metadata=explain(
            "Seconds until the resolution, for `ttr_comparator`; null: no limit. Not less than `tta`."
        ),
    )
    ttr_comparator = Text(
        allow_none=True,
        validate=COMPARATOR,
        metadata=explain("`gt`: the incident took longer than `ttr`; `lt`: less."),
    )


class IncidentStatsSchema(Schema):
    """Numbers of incidents by status."""

    total_incidents = Number(dump_only=True, metadata=explain("Incidents of the period."))
    total_triggered_incidents = Number(
        dump_only=True, metadata=explain("Incidents of the period that are triggered now.")
    )
    total_acknowledged_incidents = Number(
        dump_only=True, metadata=explain("Incidents of the period that are acknowledged now.")
    )
    total_resolved_incidents = Number(
        dump_only=True, metadata=explain("Incidents of the period that are resolved now.")
    )
    user_total_incidents = Number(
        dump_only=True, metadata=explain("Incidents of the period that are assigned to you.")
    )
    user_triggered_incidents = Number(
        dump_only=True,
        metadata=explain("Incidents of the period that are assigned to you and triggered now."),
    )
    user_acknowledged_incidents = Number(
        dump_only=True,
        metadata=explain("Incidents of the period that are assigned to you and acknowledged now."),
    )
    user_resolved_incidents = Number(
        dump_only=True, metadata=explain("Incidents of the period that are assigned to you and resolved now.")
    )


class MetricsSchema(Schema):
    """Numbers of incidents, and mean times."""

    total_incidents = Number(dump_only=True, metadata=explain("Incidents of the period."))
    total_acknowledged = Number(
        dump_only=True, metadata=explain("Incidents of the period that are acknowledged or resolved.")
    )
    total_resolved = Number(dump_only=True, metadata=explain("Incidents of the period that are resolved."))
    mtta_seconds = fields.Float(
        dump_only=True, metadata=explain("Mean seconds until the acknowledgement; 0: none was acknowledged.")
    )
    mttr_seconds = fields.Float(
        dump_only=True, metadata=explain("Mean seconds until the resolution; 0: none was resolved.")
    )


class MeasuredObjectSchema(Schema):
    name = Text(dump_only=True)
    unique_id = Text(dump_only=True)


class MeasuredUserSchema(Schema):
    full_name = fields.Function(get_display_name, metadata=explain("The full name of the person."))
    username = Text(dump_only=True)


class TeamMetricsSchema(MetricsSchema):
    team = fields.Nested(MeasuredObjectSchema, dump_only=True, metadata=explain("The team."))


class ServiceMetricsSchema(TeamMetricsSchema):
    service = fields.Nested(MeasuredObjectSchema, dump_only=True, metadata=explain("The service."))


class UserMetricsSchema(MetricsSchema):
    user = fields.Nested(MeasuredUserSchema, dump_only=True, metadata=explain("The assignee."))


class TeamAnalyticsSchema(Schema):
    """The metrics of all incidents, and of each team with at least one incident."""

    all_teams = fields.Nested(MetricsSchema, dump_only=True, metadata=explain("All incidents of the period."))
    team_records = List(
        fields.Nested(TeamMetricsSchema),
        dump_only=True,
        metadata=explain("Each team with at least one incident."),
    )


class ServiceAnalyticsSchema(Schema):
    """The metrics of all incidents, and of each service with at least one incident."""

    all_services = fields.Nested(
        MetricsSchema,
        dump_only=True,
        metadata=explain("All incidents of the period, also those of deleted services."),
    )
    service_records = List(
        fields.Nested(ServiceMetricsSchema),
        dump_only=True,
        metadata=explain("Each service with at least one incident."),
    )


class UserAnalyticsSchema(Schema):
    """The metrics of all incidents, and of each user to whom at least one incident is assigned."""

    all_users = fields.Nested(
        MetricsSchema,
        dump_only=True,
        metadata=explain("All incidents of the period, also those without an assignee."),
    )
    user_records = List(
        fields.Nested(UserMetricsSchema),
        dump_only=True,
        metadata=explain("Each person with at least one incident."),
    )


FILTER = AnalyticsFilterSchema()
INCIDENT_STATS = IncidentStatsSchema()
TEAM_ANALYTICS = TeamAnalyticsSchema()
SERVICE_ANALYTICS = ServiceAnalyticsSchema()
USER_ANALYTICS = UserAnalyticsSchema()

# A limit for each kind of question, because a page that shows all of them asks them together.
STATS_CONCURRENCY, TEAM_CONCURRENCY, SERVICE_CONCURRENCY, USER_CONCURRENCY = (
    ConcurrencyLimit(2, f"analytics {kind}", ends_with_client=False)
    for kind in ("incidents", "teams", "services", "users")
)


def get_incident_stats() -> dict[str, int]:
    """Count incidents by status. The answer has those of all teams that you may see, and your own."""
    with select_incidents(serialization.read_body(), STATS_CONCURRENCY) as incidents:
        counts = incident_metrics.count_by_status(incidents, viewer().user)

    def count(owners: tuple[bool, ...], statuses: tuple[IncidentStatus, ...] = tuple(IncidentStatus)) -> int:
        return sum(counts.get((status, is_own), 0) for status in statuses for is_own in owners)

    everybody, own = (True, False), (True,)
    return {
        "total_incidents": count(everybody),
        "total_triggered_incidents": count(everybody, (IncidentStatus.TRIGGERED,)),
        "total_acknowledged_incidents": count(everybody, (IncidentStatus.ACKNOWLEDGED,)),
        "total_resolved_incidents": count(everybody, (IncidentStatus.RESOLVED,)),
        "user_total_incidents": count(own),
        "user_triggered_incidents": count(own, (IncidentStatus.TRIGGERED,)),
        "user_acknowledged_incidents": count(own, (IncidentStatus.ACKNOWLEDGED,)),
        "user_resolved_incidents": count(own, (IncidentStatus.RESOLVED,)),
    }


def get_team_analytics() -> dict[str, object]:
    """Count and measure incidents by team."""
    return measure_teams(viewer(), serialization.REQUEST_BODY)


@operation("analytics_read")
def measure_teams(who: Viewer, body: object) -> dict[str, object]:
    """Return the metrics of the incidents that match the filter of a body, by team."""
    teams = Team.select().order_by(Team.creation_date, Team.id)
    total, records = _measure(TEAM_CONCURRENCY, Incident.team, teams, lambda team: {"team": team}, body)
    return {"all_teams": total, "team_records": records}


def get_service_analytics() -> dict[str, object]:
    """Count and measure incidents by service."""
    services = Service.select(Service, Team).join(Team).order_by(Service.creation_date, Service.id)
    total, records = _measure(
        SERVICE_CONCURRENCY,
        Incident.service,
        services,
        lambda service: {"team": service.team, "service": service},
    )
    return {"all_services": total, "service_records": records}


def get_user_analytics() -> dict[str, object]:
    """Count and measure incidents by assignee."""
    users = User.select().order_by(User.joining_date, User.id)
    total, records = _measure(USER_CONCURRENCY, Incident.assigned_to, users, lambda user: {"user": user})
    return {"all_users": total, "user_records": records}


def _measure(
    limit: ConcurrencyLimit,
    column: peewee.ForeignKeyField,
    rows: "peewee.ModelSelect[Row]",
    name: Callable[[Row], dict[str, object]],
    body: object = serialization.REQUEST_BODY,
) -> tuple[dict[str, int | float], list[dict[str, object]]]:
    """Return the metrics of all incidents, and of those of each row that the column refers to.

    `name` returns the members of a record that say what the row is; `body` has the filter.
    """
    with select_incidents(serialization.load(FILTER, body), limit) as incidents:
        by_row = incident_metrics.measure(incidents, without_index(column))
        named = [row for row in by_row if row is not None]
        found = list(rows.where(in_list(rows.model.id, named)))
    records = [{**name(row), **by_row[row.id].show()} for row in found]
    return incident_metrics.add(by_row.values()).show(), records


@contextmanager
def select_incidents(
    values: Mapping[str, Any], limit: ConcurrencyLimit
) -> Iterator["peewee.ModelSelect[Incident]"]:
    """Select the incidents that match the values of the filter, inside one snapshot of the store.

    Raises BadRequest for too many incidents, Throttled if the account already asks.
    """
    start, end = _get_period(values.get("from_date"), values.get("to_date"))
    in_period = (Incident.creation_date >= start) & (Incident.creation_date < end)
    if None not in (values.get("tta"), values.get("ttr")) and values["ttr"] < values["tta"]:
        reject("ttr", "Must not be less than tta.")
    conditions = [
        *(filters.CONDITIONS[name](values.get(name)) for name in REFERENCES),
        _match_users(values.get("user_ids")),
        _match_urgency(values.get("urgency")),
        _match_children(values.get("child_incident")),
        *(
            _match_time(name, column, values.get(name), values.get(f"{name}_comparator"))
            for name, column in TIMES.items()
        ),
    ]
    with limit.acquire(viewer().account), store().read_transaction():
        of_account = Incident.select().where(Incident.account == viewer().account)
        if incident_metrics.has_more_than(of_account.where(in_period), MAX_INCIDENTS):
            reject("from_date", f"The period has more than {MAX_INCIDENTS:,} incidents: make it shorter.")
        incidents = filters.select_visible().where(in_period, ~is_drill(Incident.id))
        for condition in conditions:
            if condition is not None:
                incidents = incidents.where(condition)
        yield incidents


def _get_period(first: datetime | None, last: datetime | None) -> tuple[datetime, datetime]:
    """Return the start and the end of the days of a request, in the time zone of the viewer.

    The end is the start of the day after the last one.
    """
    zone = get_zone_or_utc(viewer().user.time_zone)
    last_day = to_local(now(), zone).date() if last is None else last.date()
    first_day = last_day - timedelta(days=MAX_DAYS - 1) if first is None else first.date()
    if last_day < first_day:
        reject("to_date", "Must not be before from_date.")
    if (last_day - first_day).days >= MAX_DAYS:
        reject("from_date", f"The period may have at most {MAX_DAYS} days, up to to_date or today.")
    midnight = datetime.min.time()
    return (
        from_local(datetime.combine(first_day, midnight), zone),
        from_local(datetime.combine(last_day + timedelta(days=1), midnight), zone),
    )


# Filters that are the same for lists of incidents.
REFERENCES = ("team_ids", "service_ids", "priority_ids", "sla_ids", "escalation_policy_ids", "tag_ids")
# The times that a filter can limit, with the columns of their ends.
TIMES: Mapping[str, UtcField] = {"tta": Incident.acknowledged_date, "ttr": Incident.resolved_date}


def _match_users(usernames: list[str] | None) -> filters.Condition:
    """Match incidents that are assigned to one of these users, or to nobody."""
    assigned: filters.Condition = filters.CONDITIONS["user_ids"](usernames)
    if assigned is None or UNASSIGNED not in (usernames or ()):
        return assigned
    return assigned | without_index(Incident.assigned_to).is_null()


def _match_urgency(value: int | None) -> filters.Condition:
    return None if value is None else Incident.urgency == value


def _match_children(value: str | None) -> filters.Condition:
    return Incident.parent.is_null() if value == EXCLUDE else None


def _match_time(name: str, end: UtcField, limit_s: float | None, comparator: str | None) -> filters.Condition:
    """Match incidents by the time from their creation. An incident that has no such time does not match."""
    if limit_s is None:
        return None
    if not comparator:
        reject(f"{name}_comparator", f"Give gt or lt with {name}.")
    seconds = store().measure_seconds(Incident.creation_date, end)
    return seconds > limit_s if comparator == "gt" else seconds < limit_s
