"""Accept plain alerts without Flask. Flask would double the cost of such a request (measured).

All other requests, and requests with an error, go to the Flask application with the body restored. So only
the application answers errors.
"""

import io
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog

from models.domain.identity import is_uuid
from models.store.ids import make_trace_id
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import SOURCES, Source
from web.http import client_profile, response_headers, serialization
from web.http.errors import ApiError, Busy, NotFound, Unavailable
from web.ingest import event_operation, group_commit
from web.ingest.large_bodies import LargeBodies, TooManyError
from web.server_interface import ARRIVED_AT, Headers, Reply

log = structlog.get_logger()

# The key in the WSGI environment under which the application finds the error of the fast path.
REFUSED = "tocsin.refused"

# A larger body is parsed in a thread of its own. To parse this much takes some hundredths of a second.
MAX_ACCEPT_BYTES = 64 * 1024

_STATUS_LINES = {200: "200 OK", 201: "201 CREATED"}
_HEADERS = [("Content-Type", serialization.JSON), *response_headers.HEADERS.items()]


@dataclass(frozen=True, slots=True)
class _Request:
    """The alerts of a request, and how its answer is built after the commit."""

    submission: group_commit.Submission
    status: int
    build_answer: Callable[[group_commit.Submission], bytes]


class FastPath:
    """WSGI middleware. The application and the fast path share `commits` and `large_bodies`."""

    def __init__(
        self, application: WSGIApplication, commits: group_commit.GroupCommit, large_bodies: LargeBodies
    ) -> None:
        self._application = application
        self._commits = commits
        self._large_bodies = large_bodies

    def accept(self, environ: WSGIEnvironment, reply: Reply) -> bool:
        """Take over a plain alert of a known key. False: it needs __call__, in a thread of its own.

        The server calls this in one of its few threads. It waits for nothing, unless no thread commits at the
        moment: then this one does, for all requests.
        """
        address = self._find_address(environ)
        if address is None or not self._commits.has_accepted(address.key, address.account):
            return False
        if not _is_shorter(environ.get("CONTENT_LENGTH", ""), MAX_ACCEPT_BYTES):
            return False
        try:
            request = self._read_request(address, environ, get_arrival(environ))
        except ApiError as error:
            environ[REFUSED] = error
            return False
        except Exception as error:  # the application answers it like every error of its own
            log.error("an alert could not be read", error=type(error).__name__)
            return False
        if request is None:
            return False
        self._commits.submit_later(request.submission, partial(_answer, environ, request, reply))
        return True

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if REFUSED in environ:
            return self._application(environ, start_response)
        try:
            request = self._read_known(environ)
            if request is not None:
                self._commit(request.submission)
        except ApiError as error:
            environ[REFUSED] = error
            return self._application(environ, start_response)
        if request is None:
            return self._application(environ, start_response)
        body = request.build_answer(request.submission)
        start_response(_STATUS_LINES[request.status], _build_headers(body))
        return (body,)

    def _commit(self, submission: group_commit.Submission) -> None:
        try:
            self._commits.submit(submission)
        except group_commit.NotStoredError:
            raise Unavailable from None
        if submission.target is None:
            raise NotFound

    def _read_known(self, environ: WSGIEnvironment) -> _Request | None:
        """Return this request's alerts, or None if the application must handle the request.

        The key is looked up first; this may read the store.
        """
        address = self._find_address(environ)
        if address is None:
            return None
        arrived_at = get_arrival(environ)
        try:
            if not self._commits.accepts_key(address.key, address.account, arrived_at):
                raise NotFound
        except group_commit.NotStoredError:
            raise Unavailable from None
        return self._read_request(address, environ, arrived_at)

    @staticmethod
    def _find_address(environ: WSGIEnvironment) -> "_Address | None":
        """Return the address of a plain alert, or None if the application must handle the request."""
        address = _match_path(environ["PATH_INFO"]) if environ["REQUEST_METHOD"] == "POST" else None
        # A request with preferences can ask to wait until the alert is processed.
        if address is None or "HTTP_PREFER" in environ or not _accepts_json(environ.get("HTTP_ACCEPT", "")):
            return None
        return address

    def _read_request(
        self, address: "_Address", environ: WSGIEnvironment, arrived_at: float
    ) -> _Request | None:
        raw = _read_body(environ, address.source.max_bytes)
        if raw is None:
            return None
        try:
            account = self._commits.get_account(address.key)
            with self._large_bodies.take_turn(len(raw), account, group_commit.get_remaining_s(arrived_at)):
                if address.by_key_alone:
                    authorization = environ.get("HTTP_AUTHORIZATION", "")
                    return _parse_event(address, raw, arrived_at, authorization)
                return _count_alerts(address, raw, _pick_headers(address.source, environ), arrived_at)
        except BadBody:
            return None
        except TooManyError:
            raise Busy from None


def _answer(
    environ: WSGIEnvironment, request: _Request, reply: Reply, submission: group_commit.Submission
) -> None:
    """Answer after the commit. The application answers errors, in another thread than that which commits."""
    if submission.error is None and submission.target is not None:
        try:
            body = request.build_answer(submission)
        except Exception as error:  # the request must be answered; its sender sends the alert again
            log.error("an answer could not be built", error=type(error).__name__)
        else:
            reply.send(request.status, _build_headers(body), body)
            return
    is_unknown = submission.error is None and submission.target is None
    environ[REFUSED] = NotFound() if is_unknown else Unavailable()
    reply.hand_over()


def get_arrival(environ: WSGIEnvironment) -> float:
    """Return the monotonic time at which the request was complete, or now if the server does not know it."""
    arrived_at: float = environ.get(ARRIVED_AT, time.monotonic())
    return arrived_at


def _pick_headers(source: Source, environ: WSGIEnvironment) -> dict[str, str] | None:
    """Return the headers that the source reads; None if there are none."""
    return source.pick_headers(partial(_find_header, environ)) if source.headers else None


def _find_header(environ: WSGIEnvironment, name: str) -> str | None:
    key = name.upper().replace("-", "_")
    value: str | None = environ.get(key if key == "CONTENT_TYPE" else f"HTTP_{key}")
    return value


def _count_alerts(
    address: "_Address", raw: bytes, headers: dict[str, str] | None, arrived_at: float
) -> _Request:
    body = RequestBody(raw, headers)
    alerts, assumed = address.source.count(body), event_operation.describe_assumed(body)
    submission = group_commit.Submission(
        address.key,
        address.account,
        address.source.extension,
        raw,
        alerts,
        make_trace_id(),
        headers,
        arrived_at=arrived_at,
    )
    return _Request(submission, 200, lambda done: build_answer(done.trace_id, assumed))


def _parse_event(address: "_Address", raw: bytes, arrived_at: float, authorization: str) -> _Request:
    body = event_operation.EventBody(RequestBody(raw))
    if body.problem is not None:
        raise body.problem
    submission = group_commit.Submission(
        address.key,
        None,
        address.source.extension,
        raw,
        1,
        make_trace_id(),
        is_ping=body.is_ping,
        arrived_at=arrived_at,
    )
    shows_payload = client_profile.get_profile(authorization).shows_payload

    def build_event(done: group_commit.Submission) -> bytes:
        return serialization.dump_json(event_operation.build_event(done, body, shows_payload=shows_payload))

    return _Request(submission, 201, build_event)


def _build_headers(body: bytes) -> Headers:
    return [*_HEADERS, ("Content-Length", str(len(body)))]


def build_answer(trace_id: str, assumed: Sequence[str] = ()) -> bytes:
    """Build the answer to committed alerts: contract section 3.9."""
    if assumed:
        answer = {"message": "success", "trace_id": trace_id, "assumed": assumed}
        return serialization.dump_json(answer)
    return b'{"message":"success","trace_id":"%s"}' % trace_id.encode()


def _accepts_json(accept: str) -> bool:
    """Return whether this Accept header clearly prefers JSON. The application decides the other cases."""
    return not (";" in accept or "text/*" in accept or "xml" in accept.lower())


class _Address(NamedTuple):
    """What the path of a request says. `by_key_alone`: only the key, so that its source is not known yet."""

    account: str | None
    source: Source
    key: str
    by_key_alone: bool = False


def _match_path(path: str) -> _Address | None:
    """Return the address of a webhook in one of its forms (contract X36), or of the event operation."""
    match path.split("/"):
        case ["", "integration", account, extension, key, ""] if extension in SOURCES:
            found = _Address(account, SOURCES[extension], key)
        case ["", "api", "integration", extension, key, ""] if extension in SOURCES:
            found = _Address(None, SOURCES[extension], key)
        case ["", "api", "events", key, ""]:
            found = _Address(None, SOURCES[generic.EXTENSION], key, by_key_alone=True)
        case _:
            return None
    return found if is_uuid(key) else None


def _read_body(environ: WSGIEnvironment, max_bytes: int) -> bytes | None:
    """Read the whole body and restore it for the application.

    None if the Content-Length is missing, invalid or too large, or if the body is shorter.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if not _is_shorter(length, max_bytes):
        return None
    body: bytes = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) == int(length) else None


def _is_shorter(length: str, max_bytes: int) -> bool:
    """Return whether this Content-Length is valid, and at most `max_bytes`."""
    return length.isascii() and length.isdecimal() and 0 < int(length) <= max_bytes
