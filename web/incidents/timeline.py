"""The timeline of an incident as the interface shows it (under /api/tocsin/)."""

from datetime import datetime

from marshmallow import fields

from models.reports import incident_timeline
from web.http import access, paging
from web.http.auth import viewer
from web.http.fields import List, Moment, Number, Schema, Text


class ActorSchema(Schema):
    """The actor of an entry: `kind` is alert, timer, user, link or command; only a person has the names."""

    kind = Text(dump_only=True)
    name = Text(dump_only=True, allow_none=True)
    username = Text(dump_only=True, allow_none=True)


class DeliveryAttemptSchema(Schema):
    """A delivery attempt; `outcome` is sent, retry or refused."""

    at = Moment(dump_only=True)
    outcome = Text(dump_only=True)
    detail = Text(dump_only=True)
    milliseconds = Number(dump_only=True)


class NotificationSchema(Schema):
    """A notification and its outcome. It has the name of the contact but not the private address."""

    kind = Text(dump_only=True)
    person = Text(dump_only=True)
    username = Text(dump_only=True)
    channel = Text(dump_only=True)
    contact = Text(dump_only=True)
    state = Text(dump_only=True)
    outcome = Text(dump_only=True, allow_none=True)
    not_before = Moment(dump_only=True)
    done_at = Moment(dump_only=True, allow_none=True)
    next_attempt_at = Moment(dump_only=True, allow_none=True)
    attempts = List(fields.Nested(DeliveryAttemptSchema), dump_only=True)


class TimelineEntrySchema(Schema):
    """An entry of the timeline. `kind` is log (a change of the incident), note (of a rule), notification
    (sent or not) or stakeholder (a mail, sent or not). `what` is a short name of the event, and `reason` says
    why it happened. `alert` is the unique_id of the alert that caused it, and `trace_id` that of its
    receipt while the alert is stored."""

    at = Moment(dump_only=True)
    kind = Text(dump_only=True)
    what = Text(dump_only=True)
    reason = Text(dump_only=True)
    actor = fields.Nested(ActorSchema, dump_only=True, allow_none=True)
    alert = Text(dump_only=True, allow_none=True)
    trace_id = Text(dump_only=True, allow_none=True)
    notification = fields.Nested(NotificationSchema, dump_only=True, allow_none=True)


class TimelineSchema(Schema):
    """A page of the timeline, oldest first."""

    count = Number(dump_only=True)
    next = Text(dump_only=True, allow_none=True)
    previous = Text(dump_only=True, allow_none=True)
    results = List(fields.Nested(TimelineEntrySchema), dump_only=True)


TIMELINE = TimelineSchema()


def index(incident: str) -> dict[str, object]:
    """List everything that happened to an incident, oldest first, page by page."""
    row = access.access_incident(viewer(), incident)
    keys = incident_timeline.select_entries(row)

    def show(page: list[tuple[int, int, datetime]]) -> list[dict[str, object]]:
        return incident_timeline.load_entries((kind, number) for kind, number, _ in page)

    return paging.build_page(keys, paging.read_page(), show, count=keys.count())
