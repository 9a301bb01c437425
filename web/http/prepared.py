"""Answers that are the same for everybody until the next start: compressed once, sent if they are new."""

import gzip
import hashlib
from dataclasses import dataclass

from flask import Response, request


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    mimetype: str
    compressed: bytes
    etag: str


def prepare(mimetype: str, body: bytes) -> PreparedAnswer:
    """Compress an answer. Its ETag depends only on its body."""
    return PreparedAnswer(mimetype, gzip.compress(body, mtime=0), hashlib.sha256(body).hexdigest()[:32])


def respond(prepared: PreparedAnswer) -> Response:
    """Send the answer as the client accepts it, or 304 if the client has it already.

    The ETag is weak, because the compressed and the plain body have the same one.
    """
    is_compressed = request.accept_encodings["gzip"] > 0
    body = prepared.compressed if is_compressed else gzip.decompress(prepared.compressed)
    response = Response(body, mimetype=prepared.mimetype)
    if is_compressed:
        response.content_encoding = "gzip"
    response.vary.add("Accept-Encoding")
    # The client keeps the answer and asks each time whether it is still the same.
    response.headers["Cache-Control"] = "no-cache"
    response.set_etag(prepared.etag, weak=True)
    response.make_conditional(request)
    return response
