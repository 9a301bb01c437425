"""Read some fields of a body without the others, before its key is known too."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.values import get_text
from web.http.errors import BadRequest
from web.ingest import events

T = TypeVar("T", bound=msgspec.Struct)

# The types of a field that is read. The body has another type in no request of a client.
Scalar = str | int | float | bool | None | msgspec.UnsetType


# A body that is read as a whole although its key is unknown, so that the answer says what is wrong with it.
EXPLAINED_BYTES = 16 * 1024
# Keys of an unusual body that are tried.
MAX_CANDIDATES = 4


def read_fields(raw: bytes, decoder: "msgspec.json.Decoder[T]", key: str) -> Mapping[str, object]:
    """Return the fields that the decoder names, and of unusual bodies all fields. BadRequest: it is no JSON.

    An unusual body is read in the turn of the account of this key, which is known.
    """
    found = _read_named(raw, decoder)
    if found is not None:
        return found
    with events.take_turn(len(raw), key):
        return _read_all(raw)


def list_candidates(raw: bytes, decoder: "msgspec.json.Decoder[T]", names: Sequence[str]) -> list[str]:
    """Return the texts that may be the key of a body: fields with these names, the likeliest first.

    Never reads a large body as a whole: one of 512 KiB, with an unknown key, took up to 220 ms.
    """
    data = _read_named(raw, decoder)
    if data is None and len(raw) <= EXPLAINED_BYTES:
        data = _read_all(raw)
    if data is not None:
        return [get_text(data, *names)]
    pattern = rf'"(?:{"|".join(names)})"\s*:\s*"([^"\\]{{1,64}})"'.encode()
    found = (match[1].decode("ascii", "replace") for match in re.finditer(pattern, raw))
    return list(islice(found, MAX_CANDIDATES))


def _read_named(raw: bytes, decoder: "msgspec.json.Decoder[T]") -> Mapping[str, object] | None:
    """Return the fields that the decoder names; None for an unusual body.

    The other fields are skipped without being built: 512 KiB take 2 ms.
    """
    try:
        found: Mapping[str, object] = msgspec.to_builtins(decoder.decode(raw))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found


def _read_all(raw: bytes) -> Mapping[str, object]:
    try:
        data = RequestBody(raw).decode_json()
    except BadBody as problem:
        raise BadRequest(problem.errors) from None
    return data if isinstance(data, dict) else {}
