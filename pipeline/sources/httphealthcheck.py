"""Jobs and checks whose level is the last part of the webhook URL; a body is optional.

All alerts of an integration are about one entity, unless they have an entity_id: so `resolved` resolves what
`critical` opened.
"""

import msgspec

from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.generic import NO_MESSAGE, decode_object, parse_any, parse_level

EXTENSION = "httphealthcheck"
ENTITY = "httphealthcheck"


def build_body(level: str, body: bytes) -> bytes:
    """Return the body to store for a request with its level in the URL. Raises BadBody.

    A body that is no JSON object, for example the output of a job, is left out.
    """
    parse_level(level)
    try:
        sent = decode_object(RequestBody(body))
    except BadBody:
        sent = {}
    return msgspec.json.encode({**sent, "alert_type": level})


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the one alert of a JSON object, in the generic form. Raises BadBody."""
    alert = parse_any(body)
    level = alert.alert_type.name.lower()
    message = f"HTTP healthcheck: {level}" if alert.message == NO_MESSAGE else alert.message
    return [replace(alert, message=message, entity_id=alert.entity_id or ENTITY)]
