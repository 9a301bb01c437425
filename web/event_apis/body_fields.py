"""Read some fields of a body without the others, in the turn of a large body."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from pipeline.sources.reading.body import BadBody, RequestBody
from web.http.errors import BadRequest
from web.ingest import events

T = TypeVar("T", bound=msgspec.Struct)

# The types of a field that is read. The body has another type in no request of a client.
Scalar = str | int | float | bool | None | msgspec.UnsetType


def read_fields(raw: bytes, decoder: "msgspec.json.Decoder[T]") -> Mapping[str, object]:
    """Return the fields that the decoder names, and of unusual bodies all fields. BadRequest: it is no JSON.

    The other fields are skipped without being built. This costs little, also for a key that is unknown.
    """
    with events.take_turn(len(raw)):
        try:
            found: Mapping[str, object] = msgspec.to_builtins(decoder.decode(raw))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return _read_all(raw)
    return found


def _read_all(raw: bytes) -> Mapping[str, object]:
    try:
        data = RequestBody(raw).decode_json()
    except BadBody as problem:
        raise BadRequest(problem.errors) from None
    return data if isinstance(data, dict) else {}
