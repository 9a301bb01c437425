"""Answers that are the same for everybody until the next start: compressed once, sent if they are new."""

import gzip
import hashlib
from dataclasses import dataclass

from flask import Response, request

# A client asks each time whether its answer is still the same.
ASK_AGAIN = "no-cache"
# A shorter body is one packet in any case.
MIN_COMPRESSED = 1024


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    mimetype: str
    content: bytes
    etag: str
    is_compressed: bool


def prepare(mimetype: str, body: bytes) -> PreparedAnswer:
    """Compress an answer if that makes it shorter. Its ETag depends only on its body."""
    compressed = gzip.compress(body, mtime=0)
    is_compressed = len(body) >= MIN_COMPRESSED and len(compressed) < len(body)
    etag = hashlib.sha256(body).hexdigest()[:32]
    return PreparedAnswer(mimetype, compressed if is_compressed else body, etag, is_compressed)


def accepts_gzip() -> bool:
    """Return whether the client of this request accepts gzip, and does not prefer a plain body."""
    accepted = request.accept_encodings
    return accepted["gzip"] > 0 and accepted["gzip"] >= accepted["identity"]


def respond(prepared: PreparedAnswer, cache: str = ASK_AGAIN) -> Response:
    """Send the answer as the client accepts it, or 304 if the client has it already.

    The ETag is weak, because the compressed and the plain body have the same one.
    """
    if not prepared.is_compressed:
        response = Response(prepared.content, mimetype=prepared.mimetype)
    elif accepts_gzip():
        response = Response(prepared.content, mimetype=prepared.mimetype)
        response.content_encoding = "gzip"
    else:
        response = Response(gzip.decompress(prepared.content), mimetype=prepared.mimetype)
    if prepared.is_compressed:
        response.vary.add("Accept-Encoding")
    response.headers["Cache-Control"] = cache
    response.set_etag(prepared.etag, weak=True)
    response.make_conditional(request)
    return response
