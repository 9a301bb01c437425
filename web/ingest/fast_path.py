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
from web.http import access, serialization
from web.http.errors import ApiError, NotFound, Unavailable
from web.ingest import group_commit

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Where the application finds why an alert was refused that came this far.
REFUSED = "tocsin.refused"


class FastPath:
    """A WSGI application around another one. `commits` is the group commit that both share."""

    def __init__(self, application: WsgiApp, commits: group_commit.GroupCommit) -> None:
        self._application = application
        self._commits = commits

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        submission = _build_submission(environ)
        if submission is None:
            return self._application(environ, start_response)
        error = self._submit(submission)
        if error is not None:
            environ[REFUSED] = error
            return self._application(environ, start_response)
        body = build_answer(submission.trace_id)
        start_response("200 OK", [("Content-Type", serialization.JSON), ("Content-Length", str(len(body)))])
        return (body,)

    def _submit(self, submission: group_commit.Submission) -> type[ApiError] | None:
        try:
            self._commits.submit(submission)
        except group_commit.NotStoredError:
            return Unavailable
        return NotFound if submission.target is None else None


def build_answer(trace_id: str) -> bytes:
    """The answer to alerts that are kept: contract section 3.9."""
    return b'{"message":"success","trace_id":"%s"}' % trace_id.encode()


def _build_submission(environ: dict[str, Any]) -> group_commit.Submission | None:
    """The alerts of this request, if it is one of a known form that can be read without a doubt."""
    parsed = _match_path(environ["PATH_INFO"]) if environ["REQUEST_METHOD"] == "POST" else None
    if parsed is None or not serialization.accepts_json(environ.get("HTTP_ACCEPT", "")):
        return None
    account, source, key = parsed
    body = _read_body(environ, source.max_bytes)
    if body is None:
        return None
    try:
        alerts = len(source.parse(body))
    except BadBody:
        return None
    return group_commit.Submission(key, account, source.extension, body, alerts, str(uuid.uuid4()))


def _match_path(path: str) -> tuple[str | None, Source, str] | None:
    """Account, source and key of the two forms of a webhook's address (contract X36)."""
    match path.split("/"):
        case ["", "integration", account, extension, key, ""]:
            account_id: str | None = account
        case ["", "api", "integration", extension, key, ""]:
            account_id = None
        case _:
            return None
    source = SOURCES.get(extension)
    return (account_id, source, key) if source is not None and access.is_uuid(key) else None


def _read_body(environ: dict[str, Any], max_bytes: int) -> bytes | None:
    """The whole body, put back for whoever comes next; None when its length is not said, or not kept to."""
    length = environ.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdecimal()) or not 0 < int(length) <= max_bytes:
        return None
    body: bytes = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(length) else None
