"""The alerts of an incident: contract section 3.9."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import peewee
from flask import Response
from marshmallow import fields

from models.domain.enums import AlertType, IntegrationType
from models.store.prepared import in_list
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.services import DeletedIntegration, Integration, Service
from models.tables.teams import Team
from web.http import access, client_profile, paging
from web.http.auth import viewer
from web.http.fields import (
    Boolean,
    Choice,
    List,
    Moment,
    OptionalNumber,
    Reference,
    Schema,
    Text,
    explain,
    name_numbers,
)
from web.incidents import attachments

_LEVELS = ", ".join(f"{number} = {name}" for number, name in name_numbers(AlertType).items())


class IntegrationObject(Schema):
    """The integration of an alert."""

    name = Text(dump_only=True)
    creation_date = Moment(dump_only=True)
    summary = Text(dump_only=True)
    unique_id = Text(dump_only=True)
    service = Reference(dump_only=True)
    team = Reference(dump_only=True)
    integration_key = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The key in the addresses of alerts; null if you may not read the integration."),
    )
    is_enabled = Boolean(dump_only=True, metadata=explain("false: requests with the key get 404."))
    integration_type = Choice(IntegrationType, dump_only=True, metadata=explain("The direction."))


class AlertSchema(Schema):
    """An alert, as answers show it."""

    integration_object = fields.Nested(
        IntegrationObject,
        attribute="known_integration",
        dump_only=True,
        allow_none=True,
        metadata=explain(
            "The integration that got the alert, also after its deletion; null: no rule of a router"
            " chose one."
        ),
    )
    summary = Text(dump_only=True)
    incident = OptionalNumber(
        attribute="incident.incident_number",
        dump_only=True,
        dump_default=None,
        metadata=explain("The number of the alert's incident; null: none."),
    )
    creation_date = Moment(dump_only=True, metadata=explain("When Tocsin accepted the alert."))
    message = Text(dump_only=True, metadata=explain("What happened, in one line."))
    integration = Reference(
        attribute="known_integration",
        dump_only=True,
        metadata=explain("The unique_id of the integration; null: no rule of a router chose one."),
    )
    suppressed = Boolean(
        dump_only=True, metadata=explain("true: the alert opens no incident and notifies nobody.")
    )
    entity_id = Text(dump_only=True)
    alert_type = Text(dump_only=True, metadata=explain(f"The level as a digit: {_LEVELS}."))
    unique_id = Text(dump_only=True)
    urls = List(fields.Dict(), dump_only=True, metadata=explain("Links: `link_url` and `link_text`."))
    images = List(
        fields.Dict(), dump_only=True, metadata=explain("Images: `image_src`, `image_url` and `image_text`.")
    )
    notes = List(fields.Dict(), dump_only=True, metadata=explain("Notes: `note_title` and `note_text`."))


ALERT = AlertSchema()

# Columns of an alert in an answer. The others can take half a megabyte for each alert.
SHOWN = (
    Event.id,
    Event.unique_id,
    Event.integration,
    Event.deleted_integration,
    Event.incident,
    Event.creation_date,
    Event.message,
    Event.summary,
    Event.alert_type,
    Event.entity_id,
    Event.suppressed,
)
# Alerts whose stored texts a statement reads: those of the largest page.
CHUNK_SIZE = 100


class StoredAttachments(msgspec.Struct):
    """The attachments in Event.alert. The payload in the same text is skipped."""

    urls: list[dict[str, str]] = []
    images: list[dict[str, str]] = []
    notes: list[dict[str, str]] = []


_decode = msgspec.json.Decoder(StoredAttachments).decode


def index(incident: str) -> dict[str, object] | Response:
    """List the alerts of an incident, oldest first."""
    row = access.access_incident(viewer(), incident)
    found = Event.select(Event.id).where(Event.incident == row).tuples()
    if client_profile.current().has_paged_lists:
        return paging.build_page(
            found.order_by(Event.id), paging.read_page(), load_alerts, count=found.count()
        )
    return paging.build_array(found.order_by(Event.id), load_alerts, latest=found.order_by(Event.id.desc()))


def load_alerts(page: list[tuple[int]]) -> list[dict[str, object]]:
    """Load the alerts with these row numbers in this order, in the form of answers."""
    numbers = [number for (number,) in page]
    rows = {event.id: event for event in _select_alerts().where(in_list(Event.id, numbers))}
    events = [rows[number] for number in numbers if number in rows]
    _hide_keys(events)
    stored = _load_attachments(list(rows))
    for event in events:
        found = stored.get(event.id, StoredAttachments())
        parts = attachments.build_attachments(event.unique_id, found.urls, found.images, found.notes)
        for kind, items in parts.items():
            setattr(event, kind, items)
    dumped: list[dict[str, object]] = ALERT.dump(events, many=True)
    return dumped


def _load_attachments(numbers: Sequence[int]) -> dict[int, StoredAttachments]:
    """Load the attachments of these alerts by row number, a few at a time: their payloads can be large."""
    found: dict[int, StoredAttachments] = {}
    for start in range(0, len(numbers), CHUNK_SIZE):
        chunk = in_list(Event.id, numbers[start : start + CHUNK_SIZE])
        texts = Event.select(Event.id, Event.alert.cast("TEXT").alias("stored")).where(chunk)
        for number, text in texts.tuples().iterator():
            found[number] = _decode(text)
    return found


def _hide_keys(events: Collection[Event]) -> None:
    """Remove the integration keys that the viewer may not read: with a key the viewer could send alerts."""
    open_teams = set(access.select_permitted_teams(viewer(), "integration_read").scalars())
    for event in events:
        integration: Any = event.known_integration
        if integration is not None and integration.team.id not in open_teams:
            integration.integration_key = None


def _select_alerts() -> "peewee.ModelSelect[Event]":
    """Select alerts with all rows and columns that their answers need."""
    theirs = Team.alias()
    shown = (*SHOWN, Integration, Service, Team, DeletedIntegration, theirs, Incident.id)
    return (
        Event.select(*shown, Incident.incident_number)
        .join(Integration, peewee.JOIN.LEFT_OUTER)
        .join(Service, peewee.JOIN.LEFT_OUTER)
        .join(Team, peewee.JOIN.LEFT_OUTER)
        .join_from(Event, DeletedIntegration, peewee.JOIN.LEFT_OUTER)
        .join(theirs, peewee.JOIN.LEFT_OUTER, on=DeletedIntegration.team == theirs.id)
        .join_from(Event, Incident, peewee.JOIN.LEFT_OUTER)
    )
