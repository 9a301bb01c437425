"""Fetch from Amazon SNS what a signed message needs: the certificate, and the confirmation of a subscription.

The transaction of a lane needs it but must not wait for a network. It ends with the exception AnswerMissing,
without a trace; the worker asks Amazon while no lock is held, and repeats the transaction. What Amazon
answered is remembered in the process.

Requests go only to addresses that pipeline/sources/native/sns.py allows, through the filter of
workers/delivery/transport/user_hosts.py. If Amazon does not answer, the receipt becomes a dead letter, which
an incident reports and which can be replayed: the alert may be real.
"""

import threading
import time
from dataclasses import dataclass
from urllib.parse import SplitResult

import structlog

from models.domain.reasons import make_reason
from models.domain.user_urls import BadUrl
from models.domain.values import replace
from pipeline.sources.native import sns
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import STORED_SOURCES
from runtime.settings import Settings
from workers.delivery.transport.channel import SendError
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient

log = structlog.get_logger()

# For one request, with the resolution of the name.
DEADLINE_S = 4.0
# How long an answer and a failure are remembered.
KEEP_S, KEEP_FAILURE_S = 86_400.0, 60.0
# Answers that a process remembers.
MAX_KNOWN = 100
# Requests of a process in a minute, so that many different addresses do not keep its threads.
MAX_PER_MINUTE = 10
# Questions before a transaction. The receipts of a batch that needs more are processed one by one.
MAX_QUESTIONS = 10
# Attempts to confirm a subscription.
CONFIRM_ATTEMPTS = 2


class AnswerMissing(Exception):
    """Amazon must be asked first, outside a transaction."""

    def __init__(self, url: str, *, is_confirmation: bool = False) -> None:
        super().__init__("an answer of Amazon is missing")
        self.url = url
        self.is_confirmation = is_confirmation


class CertificateUnavailable(Exception):
    """Amazon did not answer. `reason` is what the dead letter says."""

    def __init__(self) -> None:
        super().__init__("Amazon did not answer")
        self.reason = make_reason("certificate_unavailable")


@dataclass(frozen=True, slots=True)
class _Answer:
    """`body`: None if Amazon did not answer, empty if it refused."""

    body: bytes | None
    until: float


class AmazonClient(UserUrlClient):
    """Requests addresses of Amazon SNS, and reads short answers."""

    max_bytes = 64 * 1024

    def _parse_url(self, url: str) -> SplitResult:
        if not sns.is_of_amazon(url):
            raise BadUrl("be an address of Amazon SNS")
        return super()._parse_url(url)


_client = AmazonClient(sns.NAME, UserHosts(), DEADLINE_S)
_known: dict[str, _Answer] = {}
_requested_at: list[float] = []
_lock = threading.Lock()
# One request at a time: a second thread that needs the same answer finds it then.
_asking = threading.Lock()


def configure(settings: Settings) -> None:
    global _client
    _client = AmazonClient(sns.NAME, UserHosts(settings.webhook_networks), DEADLINE_S)


def clear() -> None:
    """Forget all answers."""
    with _lock:
        _known.clear()
        _requested_at.clear()


def complete(source: str, body: RequestBody) -> RequestBody:
    """Return a body with what its source needs from Amazon.

    Raises AnswerMissing, and CertificateUnavailable if Amazon was asked and did not answer.
    """
    if not body.setup.topics or STORED_SOURCES[source].verify is not sns.verify:
        return body
    url = sns.find_certificate_url(body)
    if url is None:
        return body
    certificate = _get(url)
    if certificate is None:
        raise CertificateUnavailable
    body.setup = replace(body.setup, certificate=certificate)
    subscribe_url = sns.find_confirmation_url(body)
    if subscribe_url is not None and sns.verify(body) is None:
        remark = make_reason("subscription_not_confirmed")
        if _get(subscribe_url, is_confirmation=True):
            remark = make_reason("subscription_confirmed")
        body.setup = replace(body.setup, remark=remark)
    return body


def _get(url: str, *, is_confirmation: bool = False) -> bytes | None:
    found = _find(url)
    if found is None:
        raise AnswerMissing(url, is_confirmation=is_confirmation)
    return found.body


def _find(url: str) -> _Answer | None:
    with _lock:
        found = _known.get(url)
    return found if found is not None and found.until > time.monotonic() else None


def ask(missing: AnswerMissing) -> None:
    """Ask Amazon, and remember the answer. Needs no transaction and takes at most some seconds."""
    with _asking:
        if _find(missing.url) is not None:
            return
        attempts = CONFIRM_ATTEMPTS if missing.is_confirmation else 1
        body = None
        for _ in range(attempts):
            body = _request(missing.url)
            if body is not None:
                break
        _remember(missing.url, body)


def _request(url: str) -> bytes | None:
    """Return the body of the answer; empty: Amazon refused; None: there is no answer."""
    if not _may_request():
        log.warning("too many requests to Amazon in a minute")
        return None
    try:
        reply = _client.request("GET", url)
    except SendError as error:
        log.warning("Amazon did not answer", error=str(error.reason))
        return None
    if reply.is_success:
        return reply.body
    log.warning("Amazon refused a request", status=reply.status)
    return b"" if 400 <= reply.status < 500 and reply.status not in (408, 429) else None


def _may_request() -> bool:
    now = time.monotonic()
    with _lock:
        _requested_at[:] = [at for at in _requested_at if at > now - 60.0]
        if len(_requested_at) >= MAX_PER_MINUTE:
            return False
        _requested_at.append(now)
        return True


def _remember(url: str, body: bytes | None) -> None:
    now = time.monotonic()
    with _lock:
        for old in [each for each, answer in _known.items() if answer.until <= now]:
            del _known[old]
        while len(_known) >= MAX_KNOWN:
            # The oldest.
            del _known[next(iter(_known))]
        _known[url] = _Answer(body, now + (KEEP_S if body else KEEP_FAILURE_S))
