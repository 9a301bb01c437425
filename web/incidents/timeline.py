"""The history of an incident, as the interface shows it (under /api/tocsin/)."""

from typing import Any

from marshmallow import fields

from models.reports import incident_timeline
from web.http import access, paging
from web.http.auth import viewer
from web.http.fields import List, Moment, Number, Schema, Text


class ActorSchema(Schema):
    """Who did it: `kind` is alert, timer, user or link; the names are those of a person."""

    kind = Text(dump_only=True)
    name = Text(dump_only=True, allow_none=True)
    username = Text(dump_only=True, allow_none=True)


class DeliveryAttemptSchema(Schema):
    """One try to send: sent, retry or refused."""

    at = Moment(dump_only=True)
    outcome = Text(dump_only=True)
    detail = Text(dump_only=True)
    milliseconds = Number(dump_only=True)


class NotificationSchema(Schema):
    """Who was to be told, and what became of it. A contact is named; its value is nobody else's."""

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
    """Something that happened. `kind` is log (somebody, or something, moved the incident), note (a rule's)
    or notice (somebody was told, or was not); `what` is a word for it, `reason` says why. `alert` is the
    unique_id of the alert behind it."""

    at = Moment(dump_only=True)
    kind = Text(dump_only=True)
    what = Text(dump_only=True)
    reason = Text(dump_only=True)
    actor = fields.Nested(ActorSchema, dump_only=True, allow_none=True)
    alert = Text(dump_only=True, allow_none=True)
    notification = fields.Nested(NotificationSchema, dump_only=True, allow_none=True)


class TimelineSchema(Schema):
    """A page of it, oldest first."""

    count = Number(dump_only=True)
    next = Text(dump_only=True, allow_none=True)
    previous = Text(dump_only=True, allow_none=True)
    results = List(fields.Nested(TimelineEntrySchema), dump_only=True)


TIMELINE = TimelineSchema()


def index(incident: str) -> dict[str, Any]:
    """Tell all that happened to an incident, oldest first, page by page."""
    row = access.access_incident(viewer(), incident)
    keys = incident_timeline.select_entries(row)

    def show(page: list[Any]) -> list[Any]:
        return incident_timeline.load_entries((kind, number) for kind, number, _ in page)

    return paging.build_page(keys, paging.read_page(), show, count=keys.count())
