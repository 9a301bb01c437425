"""The alerts that Tocsin writes itself when a source stops to send alerts again that may still fire."""

from typing import Any

import msgspec

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import RequestBody

# The source of such receipts. No URL leads to it.
EXPIRED = "expired"

MESSAGE = "The source does not send the alert any more"

_DECODER = msgspec.json.Decoder(list[Any])


def build_body(entities: list[str]) -> bytes:
    """Return a body that says that the alerts of these entities (entity_id) were not sent again in time."""
    return msgspec.json.encode(entities)


def parse(body: RequestBody) -> list[ParsedAlert]:
    return [
        ParsedAlert(
            message=MESSAGE,
            alert_type=AlertType.RESOLVED,
            entity_id=str(entity_id),
            is_own=True,
            is_expiry=True,
        )
        for entity_id in body.decode(_DECODER)
    ]
