"""Accept plain alerts without Flask. Flask would double the cost of such a request (measured).

All other requests, and requests with an error, go to the Flask application with the body restored. So only
the application answers errors.
"""

import io
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from models.domain.identity import is_uuid
from pipeline.sources import SOURCES, Source
from pipeline.sources.body import BadBody, RequestBody
from web.http import response_headers, serialization
from web.http.errors import ApiError, Busy, NotFound, Unavailable
from web.ingest import group_commit
from web.ingest.large_bodies import LargeBodies, TooManyError

# The key in the WSGI environment under which the application finds the error of the fast path.
REFUSED = "tocsin.refused"
# The key with a function that lets another thread answer, if the server supports it. It returns the function
# that another thread calls with the answer's status, headers and body. The application then returns nothing.
ANSWER_LATER = "tocsin.answer_later"
# The key with the monotonic time at which the request was complete, if the server supports it.
ARRIVED_AT = "tocsin.arrived_at"


Headers = list[tuple[str, str]]
AnswerFunction = Callable[[int, Headers, bytes], None]

_HEADERS = [("Content-Type", serialization.JSON), *response_headers.HEADERS.items()]


class FastPath:
    """WSGI middleware. The application and the fast path share `commits` and `large_bodies`."""

    def __init__(
        self, application: WSGIApplication, commits: group_commit.GroupCommit, large_bodies: LargeBodies
    ) -> None:
        self._application = application
        self._commits = commits
        self._large_bodies = large_bodies

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            submission = self._build_submission(environ)
            if submission is not None and ANSWER_LATER in environ:
                answer = environ[ANSWER_LATER]()
                self._commits.submit_later(submission, partial(self._answer_later, environ, answer))
                return ()
            if submission is not None:
                self._commit(submission)
        except ApiError as error:
            environ[REFUSED] = error
            return self._application(environ, start_response)
        if submission is None:
            return self._application(environ, start_response)
        body = build_answer(submission.trace_id)
        start_response("200 OK", _build_headers(body))
        return (body,)

    def _answer_later(
        self, environ: WSGIEnvironment, answer: AnswerFunction, submission: group_commit.Submission
    ) -> None:
        if submission.error is None and submission.target is not None:
            body = build_answer(submission.trace_id)
            answer(200, _build_headers(body), body)
            return
        environ[REFUSED] = Unavailable() if submission.error is not None else NotFound()
        answer(*_call(self._application, environ))

    def _commit(self, submission: group_commit.Submission) -> None:
        try:
            self._commits.submit(submission)
        except group_commit.NotStoredError:
            raise Unavailable from None
        if submission.target is None:
            raise NotFound

    def _build_submission(self, environ: WSGIEnvironment) -> group_commit.Submission | None:
        """Return this request's alerts, or None if the application must handle the request."""
        address = _match_path(environ["PATH_INFO"]) if environ["REQUEST_METHOD"] == "POST" else None
        # A request with preferences can ask to wait until the alert is processed.
        if address is None or "HTTP_PREFER" in environ or not _accepts_json(environ.get("HTTP_ACCEPT", "")):
            return None
        account, source, key = address
        arrived_at = get_arrival(environ)
        try:
            if not self._commits.accepts_key(key, account, arrived_at):
                raise NotFound
        except group_commit.NotStoredError:
            raise Unavailable from None
        body = _read_body(environ, source.max_bytes)
        if body is None:
            return None
        try:
            with self._large_bodies.take_turn(len(body), group_commit.get_remaining_s(arrived_at)):
                alerts = source.count(RequestBody(body))
        except BadBody:
            return None
        except TooManyError:
            raise Busy from None
        return group_commit.Submission(
            key, account, source.extension, body, alerts, str(uuid.uuid4()), arrived_at=arrived_at
        )


def get_arrival(environ: WSGIEnvironment) -> float:
    """Return the monotonic time at which the request was complete, or now if the server does not know it."""
    arrived_at: float = environ.get(ARRIVED_AT, time.monotonic())
    return arrived_at


def _call(application: WSGIApplication, environ: WSGIEnvironment) -> tuple[int, Headers, bytes]:
    """Return the application's answer as status, headers and body."""
    found: list[tuple[int, Headers]] = []

    def start_response(status: str, headers: Headers, exc_info: object = None) -> Callable[[bytes], object]:
        found.append((int(status[:3]), headers))
        return lambda _: None

    result = application(environ, start_response)
    body = b"".join(result)
    if hasattr(result, "close"):
        result.close()
    return *found[-1], body


def _build_headers(body: bytes) -> Headers:
    return [*_HEADERS, ("Content-Length", str(len(body)))]


def build_answer(trace_id: str) -> bytes:
    """Build the answer to committed alerts: contract section 3.9."""
    return b'{"message":"success","trace_id":"%s"}' % trace_id.encode()


def _accepts_json(accept: str) -> bool:
    """Return whether this Accept header clearly prefers JSON. The application decides the other cases."""
    return not (";" in accept or "text/*" in accept or "xml" in accept.lower())


def _match_path(path: str) -> tuple[str | None, Source, str] | None:
    """Return account, source and key of a webhook's address in one of its two forms (contract X36)."""
    match path.split("/"):
        case ["", "integration", account, extension, key, ""]:
            account_id: str | None = account
        case ["", "api", "integration", extension, key, ""]:
            account_id = None
        case _:
            return None
    source = SOURCES.get(extension)
    return (account_id, source, key) if source is not None and is_uuid(key) else None


def _read_body(environ: WSGIEnvironment, max_bytes: int) -> bytes | None:
    """Read the whole body and restore it for the application.

    None if the Content-Length is missing, invalid or too large, or if the body is shorter.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdecimal()) or not 0 < int(length) <= max_bytes:
        return None
    body: bytes = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(length) else None
