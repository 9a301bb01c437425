"""Figures about the notifications of a person (under /api/tocsin/)."""

from datetime import datetime, timedelta

from flask import request
from marshmallow import fields

from models.reports.figures.notifications_by_channel import count_by_channel
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.errors import reject
from web.http.fields import List, Moment, Number, QueryMoment, Schema, Text, explain

DEFAULT_PERIOD = timedelta(days=30)
MAX_PERIOD = timedelta(days=366)
CONCURRENCY = ConcurrencyLimit(2, "notification figures", ends_with_client=False)


class FiguresQuerySchema(Schema):
    start = QueryMoment(
        data_key="from", metadata=explain("A date, or a time as in RFC 3339; default: 30 days before `to`.")
    )
    end = QueryMoment(data_key="to", metadata=explain("The same, at most 366 days later; default: now."))


class ChannelFiguresSchema(Schema):
    """The notifications of a person through a channel."""

    channel = Text(dump_only=True, metadata=explain("The name of the channel, for example `email`."))
    created = Number(dump_only=True, metadata=explain("Notifications that were due in the period."))
    attempted = Number(dump_only=True, metadata=explain("Those that Tocsin tried to send."))
    accepted = Number(dump_only=True, metadata=explain("Those that the provider or relay accepted."))
    delivered = Number(
        dump_only=True, metadata=explain("Those that the provider reported as delivered. Not all report it.")
    )
    acknowledged = Number(
        dump_only=True, metadata=explain("Those that were sent and whose incident the person acknowledged.")
    )
    failed = Number(dump_only=True, metadata=explain("Those that were given up."))
    cancelled = Number(
        dump_only=True, metadata=explain("Those that were not needed any more before they were sent.")
    )


class NotificationFiguresSchema(Schema):
    """The notifications of a person in a period, by channel, without drills."""

    start = Moment(dump_only=True, data_key="from", metadata=explain("The start of the period."))
    end = Moment(dump_only=True, data_key="to", metadata=explain("The end of the period."))
    channels = List(
        fields.Nested(ChannelFiguresSchema),
        dump_only=True,
        metadata=explain("The figures of each channel that was used."),
    )


QUERY = FiguresQuerySchema()
FIGURES = NotificationFiguresSchema()


def show(username: str) -> dict[str, object]:
    """Get figures about the notifications of a person. They are counted by channel, without drills."""
    user = access.access_user(viewer(), username)
    query = serialization.load(QUERY, request.args.to_dict())
    end: datetime = query.get("end") or now()
    start: datetime = query.get("start") or end - DEFAULT_PERIOD
    if end <= start:
        reject("to", "Must be later than from.")
    if end - start > MAX_PERIOD:
        reject("to", f"The period may have at most {MAX_PERIOD.days} days.")
    with CONCURRENCY.acquire(viewer().account):
        return {"start": start, "end": end, "channels": count_by_channel(user, start, end)}
