"""What the application and its server agree on, beside WSGI (PEP 3333). The server is in tocsin/server."""

from collections.abc import Callable
from typing import Protocol
from wsgiref.types import WSGIEnvironment

# Requests to these paths are alerts. Tools send them with headers that look like those of a browser.
ALERT_PATHS = (
    "/api/events/",
    "/api/integration/",
    "/integration/",
    # The event APIs of other services (web/event_apis).
    "/api/v2/alerts",
    "/generic/",
    "/integrations/",
    "/v2/",
)
# Of these paths, requests to the following ones ask for something, which needs the store.
QUESTION_PATHS = ("/v2/alerts/requests/",)
# So do requests of Opsgenie's Alert API with another method than POST and PUT, and those with these ends.
OPSGENIE_PATH, OPSGENIE_CHANGES = "/v2/alerts", ("/tags", "/priority", "/snooze")
# Requests to these paths are callbacks of providers. Anybody can send one; its signature is in or beside the
# body, so the body is received before the sender is known. That of a provider is much smaller.
CALLBACK_PATHS = ("/callbacks/",)
CALLBACK_BYTES = 64 * 1024

# Keys in the environment. The monotonic time at which the request was complete:
ARRIVED_AT = "tocsin.arrived_at"
# A function that returns a function that says whether the client has left (web/http/concurrency_limit.py):
CLIENT_CHECK = "tocsin.client_check"
# The address of the other end of the connection, if TOCSIN_TRUSTED_PROXIES is set: REMOTE_ADDR may be what a
# proxy reports.
PEER = "tocsin.peer"

Headers = list[tuple[str, str]]


def needs_store(path: str, method: str) -> bool:
    """Return whether a request to one of ALERT_PATHS needs the store, not only to be stored."""
    if path.startswith(QUESTION_PATHS):
        return True
    is_change = path.rstrip("/").endswith(OPSGENIE_CHANGES)
    return path.startswith(OPSGENIE_PATH) and (is_change or method not in ("POST", "PUT"))


class BodyNeeded(BaseException):
    """The application has checked all it can without the body, and wants to read it.

    No error: nothing in the application may catch it. The server then receives the body and calls the
    application again, so that nobody without a valid token, session or key can send a large body.
    """


class UnreceivedBody:
    """The input of a request whose large body is not received yet."""

    def read(self, size: int = -1, /) -> bytes:
        raise BodyNeeded

    readline = read


def require_body(environ: WSGIEnvironment) -> None:
    """Raise BodyNeeded if the large body is not received yet. Call it before what must happen only once."""
    if isinstance(environ["wsgi.input"], UnreceivedBody):
        raise BodyNeeded


class Reply(Protocol):
    """What answers a request later, from any thread: one of these methods, once."""

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send this answer."""

    def hand_over(self) -> None:
        """Let the application answer, in a thread of its own."""


# Takes a request over, without waiting for anything, and returns True; False: the application must answer.
Accept = Callable[[WSGIEnvironment, Reply], bool]
# Returns headers and body of a refusal with this status and text; None: the client gets JSON.
BuildRefusal = Callable[[WSGIEnvironment, int, str], tuple[Headers, bytes] | None]


def accept_nothing(environ: WSGIEnvironment, reply: Reply) -> bool:
    return False


def refuse_in_json(environ: WSGIEnvironment, status: int, detail: str) -> None:
    return None
