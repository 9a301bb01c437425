"""The REST endpoint of VictorOps. The key of the integration is in the path; the routing key is not used."""

import msgspec
from flask import Response

from models.domain.identity import make_entity_id
from pipeline.sources import victorops
from pipeline.sources.reading.cleaning import clean_entity_id
from pipeline.sources.reading.values import get_text
from pipeline.sources.table import SOURCES
from web.event_apis.body_fields import Scalar, read_fields
from web.event_apis.keys import clean_key
from web.event_apis.responses import build_answer, list_reasons, with_errors
from web.http.errors import ApiError
from web.ingest import events


class _Names(msgspec.Struct):
    """The field that names the problem."""

    entity_id: Scalar = msgspec.UNSET


_DECODER = msgspec.json.Decoder(_Names)


def describe_error(error: ApiError) -> tuple[int, object]:
    return error.status, {"result": "failure", "message": " ".join(list_reasons(error))}


@with_errors(describe_error)
def alert(integration_key: str, routing_key: str = "") -> Response:
    """Accept an alert."""
    key = clean_key(integration_key)
    events.require_key(key)
    raw = events.read_body(SOURCES[victorops.EXTENSION])
    given = clean_entity_id(get_text(read_fields(raw, _DECODER, key), "entity_id"))
    submission = events.ingest(victorops.EXTENSION, key, raw=raw)
    entity_id = given or make_entity_id(submission.trace_id, 0)
    return build_answer({"result": "success", "entity_id": entity_id}, 200)
