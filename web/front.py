"""The accepting path before Flask, for alerts that need nothing of it: measured, half of what they cost.

Takes what goes right and leaves the rest to the application, with the body put back: one place answers
errors, whoever found them.
"""

import io
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from pipeline.sources import SOURCES, Source
from pipeline.sources.body import BadBody
from web import accept, access, wire
from web.errors import ApiError, NotFound, Unavailable

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Where the application finds why an alert was refused that came this far.
REFUSED = "tocsin.refused"


class Front:
    """A WSGI application around another one. `commits` is the group commit that both share."""

    def __init__(self, application: Application, commits: accept.GroupCommit) -> None:
        self._application = application
        self._commits = commits

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        offer = _offer(environ)
        if offer is None:
            return self._application(environ, start)
        refused = self._refused(offer)
        if refused is not None:
            environ[REFUSED] = refused
            return self._application(environ, start)
        body = accepted(offer.trace_id)
        start("200 OK", [("Content-Type", wire.JSON), ("Content-Length", str(len(body)))])
        return (body,)

    def _refused(self, offer: accept.Offer) -> type[ApiError] | None:
        try:
            self._commits.take(offer)
        except accept.NotKeptError:
            return Unavailable
        return NotFound if offer.entrance is None else None


def accepted(trace_id: str) -> bytes:
    """The answer to alerts that are kept: contract section 3.9."""
    return b'{"message":"success","trace_id":"%s"}' % trace_id.encode()


def _offer(environ: dict[str, Any]) -> accept.Offer | None:
    """The alerts of this request, if it is one of a known form that can be read without a doubt."""
    place = _place(environ["PATH_INFO"]) if environ["REQUEST_METHOD"] == "POST" else None
    if place is None or not wire.surely_json(environ.get("HTTP_ACCEPT", "")):
        return None
    account, source, key = place
    body = _body(environ, source.max_bytes)
    if body is None:
        return None
    try:
        alerts = len(source.parse(body))
    except BadBody:
        return None
    return accept.Offer(key, account, source.extension, body, alerts, str(uuid.uuid4()))


def _place(path: str) -> tuple[str | None, Source, str] | None:
    """Account, source and key of the two forms of a webhook's address (contract X36)."""
    match path.split("/"):
        case ["", "integration", account, extension, key, ""]:
            named: str | None = account
        case ["", "api", "integration", extension, key, ""]:
            named = None
        case _:
            return None
    source = SOURCES.get(extension)
    return (named, source, key) if source is not None and access.is_uuid(key) else None


def _body(environ: dict[str, Any], most: int) -> bytes | None:
    """The whole body, put back for whoever comes next; None when its length is not said, or not kept to."""
    said = environ.get("CONTENT_LENGTH") or ""
    if not (said.isascii() and said.isdecimal()) or not 0 < int(said) <= most:
        return None
    body: bytes = environ["wsgi.input"].read(int(said))
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(said) else None
