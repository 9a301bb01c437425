"""Opsgenie's Alert API: requests that create and change alerts, and the status of such a request.

The identifier of an alert is its alias, for `identifierType=alias` and for the default `id`: the status of a
request shows the alias as the identifier too.
"""

import hmac
from functools import partial

import msgspec
from flask import Response, request

from models.domain.enums import WorkState
from models.domain.identity import is_uuid
from models.reports import alert_trace
from models.tables.events import Event, Receipt
from pipeline.sources import opsgenie
from pipeline.sources.reading.values import get_text
from web.event_apis.body_fields import Scalar, read_fields
from web.event_apis.keys import read_authorization
from web.event_apis.responses import build_answer, get_seconds, list_reasons, with_errors
from web.http.errors import ApiError, BadRequest, NotAuthenticated, NotFound, reject
from web.ingest import events

IDENTIFIER_TYPES = ("id", "alias")
# The names of the actions in the status of a request, and what was done.
NAMES = {
    opsgenie.CREATE: ("Create", "Created alert"),
    "close": ("Close", "Closed alert"),
    "delete": ("Delete", "Deleted alert"),
    "acknowledge": ("Acknowledge", "Acknowledged alert"),
    "notes": ("Add Note", "Added note to alert"),
    "message": ("Update Message", "Updated message of alert"),
    "description": ("Update Description", "Updated description of alert"),
}


class _Names(msgspec.Struct):
    """The field that says what a request does."""

    action: Scalar = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_Names)


class UnknownKey(NotAuthenticated):
    """The header Authorization has no key of an integration. API tokens are not accepted here."""

    detail = "Could not authenticate: the header Authorization needs GenieKey and the key of an integration."
    headers = {"WWW-Authenticate": "GenieKey"}


def describe_error(error: ApiError) -> tuple[int, object]:
    status = 422 if isinstance(error, BadRequest) else error.status
    fields = {"errors": dict(error.fields)} if error.fields else {}
    message = error.detail if not isinstance(error, BadRequest) else " ".join(list_reasons(error))
    return status, {"message": message, **fields, "took": get_seconds(request.environ), "requestId": ""}


@with_errors(describe_error)
def create() -> Response:
    """Create an alert."""
    return _accept(None)


@with_errors(describe_error)
def change(identifier: str, action: str) -> Response:
    """Close or acknowledge an alert, add a note to it, or change its texts."""
    if action not in opsgenie.ACTIONS or action == "delete":
        raise NotFound
    if request.args.get("identifierType", "id") not in IDENTIFIER_TYPES:
        reject("identifierType", f"must be one of {', '.join(IDENTIFIER_TYPES)}")
    return _accept(partial(opsgenie.build_body, action, identifier))


def delete(identifier: str) -> Response:
    """Store a request that resolves an alert and came by DELETE. The caller checked its key."""
    return _accept(partial(opsgenie.build_body, "delete", identifier))


def _accept(rewrite: events.Rewrite | None) -> Response:
    try:
        submission = events.ingest(opsgenie.EXTENSION, read_authorization("GenieKey"), rewrite=rewrite)
    except NotFound:
        raise UnknownKey from None
    return build_acceptance(submission.trace_id)


def build_acceptance(request_id: str) -> Response:
    """Return the answer to a request that creates or changes an alert; "" as ID: it is done already."""
    answer = {
        "result": "Request will be processed",
        "took": get_seconds(request.environ),
        "requestId": request_id,
    }
    return build_answer(answer, 202)


@with_errors(describe_error)
def get_request(request_id: str) -> Response:
    """Get the status of a request. While it is not processed, `isSuccess` is false."""
    key = read_authorization("GenieKey")
    receipt = _find_receipt(request_id.lower(), key)
    action = _read_action(receipt, key)
    event = alert_trace.find_first_event(receipt, None)
    is_processed = event is not None and event.state == WorkState.DONE
    alias = event.entity_id if event is not None and is_processed and _has_effect(event, action) else ""
    name, done = NAMES[action]
    pending = "Alert does not exist" if is_processed else "Request is not processed yet"
    data = {
        "success": bool(alias),
        "action": name,
        "processedAt": receipt.received_at,
        "integrationId": _get_integration_id(event),
        "isSuccess": bool(alias),
        "status": done if alias else pending,
        "alertId": alias,
        "alias": alias,
    }
    took = get_seconds(request.environ)
    return build_answer({"data": data, "took": took, "requestId": receipt.trace_id}, 200)


def _find_receipt(trace_id: str, key: str) -> Receipt:
    """Return the receipt of a request, if it was sent with this key."""
    receipt = alert_trace.find_receipt(trace_id) if is_uuid(trace_id) and is_uuid(key) else None
    owner = receipt and (receipt.integration or receipt.router)
    if receipt is None or owner is None or receipt.source != opsgenie.EXTENSION:
        raise NotFound(detail="Request not found.")
    if not hmac.compare_digest(owner.integration_key, key) or not owner.is_enabled:
        raise NotFound(detail="Request not found.")
    return receipt


def _read_action(receipt: Receipt, key: str) -> str:
    (body,) = Receipt.select(Receipt.body).where(Receipt.id == receipt.id).tuples().get()
    return get_text(read_fields(bytes(body), _DECODER, key), "action").strip().lower() or opsgenie.CREATE


def _has_effect(event: Event, action: str) -> bool:
    """Return whether the alert of a processed request exists. Only a creation needs no open incident."""
    return action == opsgenie.CREATE or event.incident_id is not None


def _get_integration_id(event: Event | None) -> str:
    integration = event.known_integration if event is not None else None
    return integration.unique_id if integration is not None else ""
