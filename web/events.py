"""Taking alerts, and telling how far one has come: contract sections 2.7, 3.9, 4.1 and X36.

The accepting path is the hot one: it reads the body once, typed, and touches the store only inside the
group commit.
"""

import uuid
from typing import Any

from flask import Response, current_app, g, request
from marshmallow import fields

from models import recorder
from models.enums import WorkState
from models.events import Event, Receipt
from models.loading import team_of_service
from pipeline import identity
from pipeline.alert import Parsed
from pipeline.sources import SOURCES, Source
from pipeline.sources.body import BadBody
from web import access, alerts, auth, incident_alerts, profile, wire
from web.accept import Entrance, GroupCommit, NotKeptError, Offer
from web.errors import BadRequest, NotFound, Unavailable
from web.shapes import Flag, Number, Shape, Text

_commits = GroupCommit()


# What the answers below hold, for the documentation alone: they are made without a schema.
class EventShape(incident_alerts.AlertShape):
    incident = Number(allow_none=True, dump_only=True)
    payload = fields.Dict(dump_only=True)
    incident_created = Flag(dump_only=True)


class AcceptedShape(Shape):
    message = Text(dump_only=True)
    trace_id = Text(dump_only=True)


class NamedShape(Shape):
    name = Text(dump_only=True)


class OpenedShape(Shape):
    incident_number = Number(dump_only=True)
    unique_id = Text(dump_only=True)


class StatusShape(Shape):
    """`error` is there only when the alert could not be processed."""

    status = Text(dump_only=True)
    alert = Text(allow_none=True, dump_only=True)
    integration = fields.Nested(NamedShape, allow_none=True, dump_only=True)
    incident = fields.Nested(OpenedShape, allow_none=True, dump_only=True)
    suppressed = Flag(dump_only=True)
    is_incident_created = Flag(dump_only=True)
    error = Text(dump_only=True)


EVENT = EventShape()
ACCEPTED = AcceptedShape()
STATUS = StatusShape()


def create_by_key(integration_key: str) -> Response:
    """Create an event, the deprecated way: by the integration key alone."""
    offer, parsed = _take("generic", integration_key)
    assert offer.entrance is not None
    event = _event(offer, offer.entrance, parsed[0])
    if not profile.current().shows_payload:
        del event["payload"]
    return wire.answer(event, 201)


def create(account_id: str, extension: str, integration_key: str) -> Response:
    """Create events, the current way: by account, application and integration key."""
    return _accepted(_take(extension, integration_key, account_id)[0])


def create_by_application(extension: str, integration_key: str) -> Response:
    """Take the webhook of a monitoring tool."""
    return _accepted(_take(extension, integration_key)[0])


def _accepted(offer: Offer) -> Response:
    body = b'{"message":"success","trace_id":"%s"}' % offer.trace_id.encode()
    return Response(body, 200, mimetype=wire.JSON)


def _take(extension: str, key: str, account_id: str | None = None) -> tuple[Offer, list[Parsed]]:
    """Read, check and keep this request's alerts; returns once they are committed."""
    source = SOURCES.get(extension)
    if source is None or not access.is_uuid(key):
        raise NotFound
    parsed, body = _read(source)
    offer = Offer(key, account_id, extension, body, len(parsed), str(uuid.uuid4()))
    try:
        _commits.take(offer)
    except NotKeptError:
        raise Unavailable from None
    if offer.entrance is None:
        raise NotFound
    return offer, parsed


def _read(source: Source) -> tuple[list[Parsed], bytes]:
    request.max_content_length = source.max_bytes
    body = wire.raw_bytes()
    try:
        return source.parse(body), body
    except BadBody as error:
        raise BadRequest(error.errors) from None


def _event(offer: Offer, entrance: Entrance, parsed: Parsed) -> dict[str, Any]:
    """The event as it stands right after acceptance: no incident yet, but its names are final."""
    event_id = identity.event_id(offer.trace_id, 0, entrance.integration)
    entity_id = parsed.entity_id or identity.generated_entity_id(offer.trace_id, 0)
    return {
        "integration_object": entrance.shown,
        "summary": parsed.summary,
        "incident": None,
        "creation_date": offer.received_at,
        "message": parsed.message,
        "integration": entrance.shown["unique_id"],
        "suppressed": parsed.suppressed,
        "entity_id": identity.fitting_entity_id(entity_id),
        "payload": parsed.payload,
        "alert_type": str(int(parsed.alert_type)),
        "unique_id": event_id,
        **alerts.attachments(event_id, parsed.urls, parsed.images, parsed.notes),
        "incident_created": False,
    }


def status_as_allowed(trace_id: str) -> Response:
    """Get the status of an alert: of the first one, where the trace_id stands for several.

    Needs a token, unless the operator set TOCSIN_OPEN_ALERT_STATUS; then a request without one is told
    only what gives nothing away.
    """
    anonymous = "Authorization" not in request.headers
    if anonymous and current_app.config["SETTINGS"].open_alert_status:
        told = _status(_any_receipt(trace_id))
        return wire.answer({name: told[name] for name in ("status", "suppressed", "is_incident_created")})
    g.viewer = auth.authenticate(auth.now())
    return wire.answer(_status(_visible_receipt(trace_id)))


def _status(receipt: Receipt) -> dict[str, Any]:
    event = recorder.first_event_of(receipt)
    told: dict[str, Any] = {
        "status": recorder.state_of(receipt, [event] if event else []),
        "alert": event.unique_id if event else None,
        "integration": {"name": receipt.integration.name} if receipt.integration else None,
        "incident": _incident(event),
        "suppressed": bool(event and event.suppressed),
        "is_incident_created": bool(event and event.incident_created),
    }
    if told["status"] == recorder.STATE_NAMES[WorkState.ASIDE]:
        told["error"] = receipt.error or (event and event.error) or "set aside"
    return told


def _incident(event: Event | None) -> dict[str, Any] | None:
    if event is None or event.incident is None:
        return None
    incident = event.incident
    return {"incident_number": incident.incident_number, "unique_id": incident.unique_id}


def _any_receipt(trace_id: str) -> Receipt:
    receipt = recorder.receipt_of(trace_id.lower()) if access.is_uuid(trace_id.lower()) else None
    if receipt is None:
        raise NotFound
    return receipt


def _visible_receipt(trace_id: str) -> Receipt:
    """The receipt, if the viewer's teams may see it: NotFound for another account's, Forbidden within."""
    viewer = auth.viewer()
    receipt = _any_receipt(trace_id)
    if receipt.account_id != viewer.account.id:
        raise NotFound
    if receipt.service_id is not None:
        access.require_member(viewer, team_of_service(receipt.service_id))
    elif not viewer.is_admin:
        raise NotFound
    return receipt


def story(trace_id: str) -> dict[str, Any]:
    """The road of an alert: each stage with its reason, incident, timers and deliveries."""
    return recorder.story(_visible_receipt(trace_id))
