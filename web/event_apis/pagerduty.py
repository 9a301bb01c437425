"""PagerDuty's Events API, version 2 and version 1. The key of the integration is in the body."""

from contextlib import suppress

import msgspec
from flask import Response

from models.domain.identity import make_entity_id
from pipeline.sources import pagerduty
from pipeline.sources.table import SOURCES
from web.event_apis.body_fields import Scalar, list_candidates, read_fields
from web.event_apis.keys import clean_key
from web.event_apis.responses import build_answer, list_reasons, with_errors
from web.http.errors import ApiError, BadRequest, NotFound
from web.ingest import events


class _Names(msgspec.Struct):
    """The fields that lead to the integration and that name the problem."""

    routing_key: Scalar = msgspec.UNSET
    service_key: Scalar = msgspec.UNSET
    event_action: Scalar = msgspec.UNSET
    event_type: Scalar = msgspec.UNSET
    dedup_key: Scalar = msgspec.UNSET
    incident_key: Scalar = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_Names)


def describe_error(error: ApiError) -> tuple[int, object]:
    """Build the answer to an event that is not accepted. An unknown key is a wrong value of the event."""
    if not isinstance(error, BadRequest | NotFound):
        return error.status, {"status": "error", "message": error.detail, "errors": list_reasons(error)}
    return 400, {
        "status": "invalid event",
        "message": "Event object is invalid",
        "errors": list_reasons(error),
    }


@with_errors(describe_error)
def enqueue() -> Response:
    """Accept an event of version 2."""
    return _accept("routing_key", "dedup_key", 202)


@with_errors(describe_error)
def create_event() -> Response:
    """Accept an event of version 1."""
    return _accept("service_key", "incident_key", 200)


def _find_key(raw: bytes, key_field: str) -> str:
    """Return the key of a body. NotFound if it is unknown: the rest of the body is then not read."""
    names = (key_field, *pagerduty.KEYS)
    for key in map(clean_key, list_candidates(raw, _DECODER, names)):
        with suppress(NotFound):
            events.require_key(key)
            return key
    raise NotFound


def _accept(key_field: str, name: str, status: int) -> Response:
    """Accept an event and answer with its deduplication key, which Tocsin makes if the sender gave none."""
    raw = events.read_body(SOURCES[pagerduty.EXTENSION])
    key = _find_key(raw, key_field)
    data = read_fields(raw, _DECODER, key)
    submission = events.ingest(pagerduty.EXTENSION, key, raw=raw)
    given = pagerduty.get_key(data)
    return build_answer(
        {
            "status": "success",
            "message": "Event processed",
            name: given or make_entity_id(submission.trace_id, 0),
        },
        status,
    )
