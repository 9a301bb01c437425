"""The timeline of an incident as the interface shows it (under /api/tocsin/)."""

from datetime import datetime

from marshmallow import fields

from models.reports import incident_timeline
from web.http import access, paging
from web.http.auth import viewer
from web.http.fields import List, Moment, Number, Schema, Text, explain


class ActorSchema(Schema):
    """The actor of an entry."""

    kind = Text(
        dump_only=True,
        metadata=explain("Who made the change: `alert`, `timer`, `user`, `link` or `command`."),
    )
    name = Text(
        dump_only=True, allow_none=True, metadata=explain("The full name of the person; null: not a person.")
    )
    username = Text(
        dump_only=True, allow_none=True, metadata=explain("The username of the person; null: not a person.")
    )


class DeliveryAttemptSchema(Schema):
    """A delivery attempt."""

    at = Moment(dump_only=True, metadata=explain("When the attempt began."))
    outcome = Text(dump_only=True)
    detail = Text(dump_only=True)
    milliseconds = Number(dump_only=True)
    provider = Text(
        dump_only=True, allow_none=True, metadata=explain("The provider that answered; null: no provider.")
    )
    provider_state = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("What the provider reported later: `sent`, `delivered` or `failed`; null: nothing."),
    )
    reported_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When the provider reported it; null: it did not.")
    )


class NotificationSchema(Schema):
    """A notification and its outcome. It does not have the private address."""

    kind = Text(
        dump_only=True,
        metadata=explain("Why the person is notified, for example `escalation`, `responder` or `recovery`."),
    )
    person = Text(dump_only=True, metadata=explain("The full name of the person."))
    username = Text(dump_only=True)
    channel = Text(dump_only=True, metadata=explain("The channel, for example `email`."))
    contact = Text(dump_only=True, metadata=explain("The name of the contact, not its address."))
    state = Text(dump_only=True, metadata=explain("`pending`, `sent`, `cancelled` or `failed`."))
    outcome = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("Why the notification has this state, as a sentence; null: nothing to say."),
    )
    not_before = Moment(dump_only=True, metadata=explain("The notification is not sent before this time."))
    done_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When it was sent, cancelled or given up; null while it is pending."),
    )
    next_attempt_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When the next attempt is due; null: none follows.")
    )
    attempts = List(
        fields.Nested(DeliveryAttemptSchema),
        dump_only=True,
        metadata=explain("The delivery attempts, the first one first."),
    )
    provider = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The provider of the last attempt; null: none, or the channel has one relay only."),
    )
    delivered_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When the provider reported that the message arrived; null: it did not report it."),
    )
    acknowledged_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When this person acknowledged the incident; null: this person did not."),
    )


class TimelineEntrySchema(Schema):
    """An entry of the timeline."""

    at = Moment(dump_only=True, metadata=explain("When it happened."))
    kind = Text(
        dump_only=True,
        metadata=explain(
            "`log` (a change), `note` (of an alert rule), `notification` or `stakeholder` (a mail)."
        ),
    )
    what = Text(dump_only=True, metadata=explain("A short name of what happened."))
    reason = Text(dump_only=True, metadata=explain("Why it happened, as a sentence."))
    actor = fields.Nested(
        ActorSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("Who made the change; null: the entry is not a change."),
    )
    alert = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The unique_id of the alert that caused it; null: none."),
    )
    trace_id = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The trace_id of that alert, while it is stored; null: none."),
    )
    notification = fields.Nested(
        NotificationSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The notification, for entries of this kind; else null."),
    )


class TimelineSchema(Schema):
    """A page of the timeline, oldest first."""

    count = Number(dump_only=True, metadata=explain("The number of entries on all pages."))
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
