"""The schemas of an incident: contract section 3.7. Related rows are loaded once for a whole list."""

from collections.abc import Callable, Iterable
from typing import Any

import peewee
from marshmallow import fields, missing

from models.domain.enums import IncidentStatus, Urgency
from models.store.base import Table
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentTag
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, Priority, Sla, Tag, Team
from pipeline.sources.reading.cleaning import MESSAGE_LIMIT, SUMMARY_LIMIT, clean_line, clean_text
from web.http import client_profile
from web.http.fields import (
    LONG_TEXT,
    Boolean,
    Choice,
    InputMoment,
    List,
    Moment,
    Number,
    OptionalNumber,
    RawData,
    Reference,
    Schema,
    Text,
    Username,
    explain,
)
from web.http.paging import PageSchema
from web.services.services import SERVICE_COLUMNS, ServiceSchema, apply_maintenance, join_references


class Title(fields.String):
    """A line of text. Characters that cannot be shown or sent are removed and not rejected, as in alerts."""

    default_error_messages = {"blank": "This may not be blank."}

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        text = clean_line(super()._deserialize(value, attr, data, **kwargs), MESSAGE_LIMIT)
        if not text:
            raise self.make_error("blank")
        return text


class Reason(Text):
    """The reason of an operation: an optional line of text that is cleaned like a title."""

    def __init__(self, **options: Any) -> None:
        super().__init__(validate=None, **options)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        return clean_line(super()._deserialize(value, attr, data, **kwargs), MESSAGE_LIMIT)


class Summary(Text):
    """A text with one or more lines that is cleaned like a title."""

    def __init__(self, **options: Any) -> None:
        super().__init__(limit=LONG_TEXT, validate=None, **options)

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        return clean_text(super()._deserialize(value, attr, data, **kwargs), SUMMARY_LIMIT)


class ServiceObject(ServiceSchema):
    team_name = Text(attribute="team.name", dump_only=True, metadata=explain("The name of the team."))


class PolicyObject(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    team = Reference(dump_only=True)


class SlaObject(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    is_active = Boolean(dump_only=True, metadata=explain("false: nobody is notified because of this SLA."))
    acknowledge_time = OptionalNumber(
        dump_only=True,
        metadata=explain("Seconds until the incident must be acknowledged; null: no such target."),
    )
    resolve_time = OptionalNumber(
        dump_only=True, metadata=explain("Seconds until the incident must be resolved; null: no such target.")
    )
    creation_date = Moment(dump_only=True)


class PriorityObject(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    description = Text(dump_only=True)
    color = Text(dump_only=True)


class IncidentTagSchema(Schema):
    """A tag of the team on an incident; it has two names (contract 3.8)."""

    unique_id = Text(dump_only=True)
    incident = Number(attribute="incident.incident_number", dump_only=True)
    team_tag = Reference(dump_only=True, metadata=explain("The unique_id of the team's tag."))
    name = Text(attribute="team_tag.name", dump_only=True)
    color = Text(attribute="team_tag.color", dump_only=True)
    tag_id = Reference(attribute="team_tag", dump_only=True, metadata=explain("The same as `team_tag`."))
    creation_date = Moment(dump_only=True)


class PostmortemObject(Schema):
    unique_id = Text(dump_only=True)
    title = Text(dump_only=True)


class NestedPriority(fields.Nested):
    """A priority as an object, or null for a client that cannot read an object in this field."""

    def get_value(self, obj: object, attr: str, accessor: Any = None, default: object = missing) -> object:
        if client_profile.hides_priority():
            return None
        return super().get_value(obj, attr, accessor, default)


class IncidentChangeSchema(Schema):
    """The fields of an update. Status 0 changes nothing (contract 5, row 56)."""

    title = Title(metadata=explain("What is wrong, in one line. Truncated after 1,000 characters."))
    summary = Summary(
        metadata=explain("What people should know beyond the title. Truncated after 16,384 characters.")
    )
    status = Choice(IncidentStatus, names={0: "unchanged"}, metadata=explain("The new status."))
    urgency = Choice(
        Urgency, metadata=explain("Selects the notification rules by which people are notified; default: 1.")
    )
    assigned_to = Username(
        metadata=explain(
            "The username of the assignee. null: in a create somebody on call, in an update nobody."
        )
    )
    escalation_policy = Reference(
        metadata=explain(
            "The unique_id of the escalation policy. null: in a create that of the service, in an"
            " update none."
        )
    )
    sla = Reference(
        metadata=explain(
            "The unique_id of the SLA. null: in a create that of the service, in an update none."
        )
    )
    team_priority = Reference(
        metadata=explain(
            "The unique_id of the priority. null: in a create that of the service, in an update none."
        )
    )


class NewIncidentSchema(IncidentChangeSchema):
    """The fields of a new incident."""

    title = Title(
        required=True, metadata=explain("What is wrong, in one line. Truncated after 1,000 characters.")
    )
    service = Reference(
        required=True, blank=False, metadata=explain("The unique_id of the service that has the problem.")
    )
    status = Choice(
        IncidentStatus, metadata=explain("The first status; default: 1. With 2 or 3, nobody is notified.")
    )


class IncidentSchema(Schema):
    summary = Text(dump_only=True)
    incident_number = Number(dump_only=True)
    creation_date = Moment(dump_only=True)
    status = Choice(IncidentStatus, dump_only=True)
    unique_id = Text(dump_only=True)
    service_object = fields.Nested(
        ServiceObject,
        attribute="service",
        dump_only=True,
        allow_none=True,
        metadata=explain("The service; null after its deletion."),
    )
    title = Text(dump_only=True, metadata=explain("What is wrong, in one line."))
    incident_key = Text(
        dump_only=True, metadata=explain("A second id of the incident, for published clients.")
    )
    service = Reference(
        dump_only=True, metadata=explain("The unique_id of the service; null after its deletion.")
    )
    urgency = Choice(Urgency, dump_only=True)
    merged_with = Reference(
        attribute="parent",
        dump_only=True,
        metadata=explain("The unique_id of the incident into which this one was merged; null: none."),
    )
    assigned_to = Username(dump_only=True)
    escalation_policy = Reference(dump_only=True)
    escalation_policy_object = fields.Nested(
        PolicyObject,
        attribute="escalation_policy",
        dump_only=True,
        allow_none=True,
        metadata=explain("The escalation policy; null: none."),
    )
    assigned_to_name = fields.Function(
        lambda incident: _get_name(incident.assigned_to),
        metadata=explain("The full name of the assignee; empty: nobody."),
    )
    resolved_date = Moment(dump_only=True, allow_none=True)
    acknowledged_date = Moment(dump_only=True, allow_none=True)
    context_window_start = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("30 minutes before the incident was opened by an alert; null: opened by a request."),
    )
    context_window_end = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When the incident was opened by an alert; null: opened by a request."),
    )
    tags = List(
        fields.Nested(IncidentTagSchema),
        attribute="incidenttag_set",
        dump_only=True,
        metadata=explain("The tags of the incident, the oldest first."),
    )
    sla = Reference(dump_only=True)
    sla_object = fields.Nested(
        SlaObject, attribute="sla", dump_only=True, allow_none=True, metadata=explain("The SLA; null: none.")
    )
    team_priority = Reference(dump_only=True)
    team_priority_object = NestedPriority(
        PriorityObject,
        attribute="team_priority",
        dump_only=True,
        allow_none=True,
        metadata=explain("The priority; null: none."),
    )
    parent_incident = Reference(
        attribute="parent", dump_only=True, metadata=explain("The same as `merged_with`.")
    )
    is_parent_incident = Boolean(
        dump_only=True, metadata=explain("true: other incidents are merged into this one.")
    )
    snooze_time = Moment(
        attribute="snoozed_at",
        dump_only=True,
        allow_none=True,
        metadata=explain("The start of the snooze; null: not snoozed."),
    )
    snoozed_till = InputMoment(
        dump_only=True, allow_none=True, metadata=explain("The end of the snooze; null: not snoozed.")
    )
    postmortems = List(
        fields.Nested(PostmortemObject),
        dump_only=True,
        metadata=explain("The postmortems of the incident, the oldest first."),
    )
    postmortem_assignee = fields.Function(lambda incident: None, metadata=explain("Always null."))


class ListedIncidentSchema(IncidentSchema):
    """An incident in a list."""

    is_child_incident = fields.Function(
        lambda incident: incident.parent_id is not None,
        metadata=explain("true: the incident is merged into another one."),
    )


class IncidentPageSchema(PageSchema):
    """A page of a list."""

    results = List(fields.Nested(ListedIncidentSchema), dump_only=True)


class PlainPageSchema(IncidentPageSchema):
    """A page for the Go client, which declares team_priority_object a string in lists (contract 2.8, X10)."""

    results = List(fields.Nested(ListedIncidentSchema(exclude=("team_priority_object",))), dump_only=True)


def _get_name(user: User | None) -> str:
    return get_display_name(user) if user else ""


def fill(incidents: list[Incident]) -> list[Incident]:
    """Load the rows that incidents refer to: one query per table, for any number of incidents."""
    for name, load in _REFERENCES:
        ids = {getattr(incident, f"{name}_id") for incident in incidents} - {None}
        found = {row.id: row for row in load(ids)} if ids else {}
        for incident in incidents:
            setattr(incident, name, found.get(getattr(incident, f"{name}_id")))
    rows = {incident.id: incident for incident in incidents}
    _attach_tags(rows)
    _attach_postmortems(rows)
    parents = Incident.select(Incident.parent).where(
        Incident.parent.is_null(False), Incident.parent.in_(list(rows))
    )
    parent_ids = {parent for (parent,) in parents.distinct().tuples()}
    for incident in incidents:
        incident.is_parent_incident = incident.id in parent_ids
    return incidents


def _attach_tags(by_row: dict[int, Incident]) -> None:
    """Set the tags of each incident, oldest first."""
    for incident in by_row.values():
        incident.incidenttag_set = []
    tags = IncidentTag.select(IncidentTag, Tag).join(Tag).where(IncidentTag.incident.in_(list(by_row)))
    for tag in tags.order_by(IncidentTag.creation_date, IncidentTag.id):
        tag.incident = by_row[tag.incident_id]
        tag.incident.incidenttag_set.append(tag)


def _attach_postmortems(by_row: dict[int, Incident]) -> None:
    """Set the postmortems of each incident, oldest first."""
    for incident in by_row.values():
        incident.postmortems = []
    links = (
        PostmortemIncident.select(PostmortemIncident.incident, Postmortem.unique_id, Postmortem.title)
        .join(Postmortem)
        .where(PostmortemIncident.incident.in_(list(by_row)))
        .order_by(Postmortem.creation_date, Postmortem.id)
    )
    for row, unique_id, title in links.tuples():
        by_row[row].postmortems.append({"unique_id": unique_id, "title": title})


def _load_services(rows: Iterable[int]) -> list[Service]:
    found = join_references(Service.select(*SERVICE_COLUMNS, Team)).join_from(Service, Team)
    return apply_maintenance(list(found.where(Service.id.in_(rows))))


def _load_policies(rows: Iterable[int]) -> "peewee.ModelSelect[EscalationPolicy]":
    return (
        EscalationPolicy.select(EscalationPolicy.id, EscalationPolicy.unique_id, EscalationPolicy.name, Team)
        .join(Team)
        .where(EscalationPolicy.id.in_(rows))
    )


_REFERENCES: tuple[tuple[str, Callable[[Iterable[int]], Iterable[Table]]], ...] = (
    ("service", _load_services),
    ("assigned_to", lambda rows: User.select().where(User.id.in_(rows))),
    ("escalation_policy", _load_policies),
    ("sla", lambda rows: Sla.select().where(Sla.id.in_(rows))),
    ("team_priority", lambda rows: Priority.select().where(Priority.id.in_(rows))),
    ("parent", lambda rows: Incident.select(Incident.id, Incident.unique_id).where(Incident.id.in_(rows))),
)
