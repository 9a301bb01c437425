"""Fetch from Amazon SNS what a signed message needs: the certificate, and the confirmation of a subscription.

The transaction of a lane needs it but must not wait for a network. It ends with the exception AnswerMissing,
without a trace; the worker asks Amazon while no lock is held, and repeats the transaction. What Amazon
answered is remembered in the process.

Anybody who knows the address of an integration can name certificates that do not exist. So requests, and
what came of them, belong to an account, and no account pushes out what another one needs. A certificate that
has verified a message is remembered apart, for all. A receipt that would need too many requests stays
pending and is left out until its account may ask again; the other receipts of the lane do not wait for it.

Requests go only to addresses that pipeline/sources/native/cloud/sns.py allows, through the filter of
workers/delivery/transport/user_hosts.py. If Amazon does not answer, the receipt becomes a dead letter, which
an incident reports and which can be replayed: the alert may be real.
"""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import SplitResult

import structlog

from models.domain.reasons import Reason, make_reason
from models.domain.user_urls import BadUrl
from models.domain.values import replace
from models.tables.events import Receipt
from pipeline.sources.native.cloud import sns
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
# Certificates with which a message was verified. Amazon has a few in each of its regions.
MAX_VERIFIED = 200
# Other answers for one account, more than it can ask for in a minute.
MAX_KNOWN = 20
# Requests for one account in a minute.
MAX_PER_MINUTE = 10
# Requests at the same time in a process, one for each account, so that other work has threads.
MAX_AT_ONCE = 2
# How soon a receipt is tried again that found another request in progress.
BUSY_S = 1.0
# Receipts of one account that wait because it has asked too often. The last one waits for half an hour.
MAX_PUT_OFF = 300
# Questions before a transaction. The receipts of a batch that needs more are processed one by one.
MAX_QUESTIONS = 10
# Attempts to confirm a subscription.
CONFIRM_ATTEMPTS = 2


class AnswerMissing(Exception):
    """Amazon must be asked first, outside a transaction."""

    def __init__(self, account: int, url: str, *, is_confirmation: bool = False) -> None:
        super().__init__("an answer of Amazon is missing")
        self.account = account
        self.url = url
        self.is_confirmation = is_confirmation


class PutOff(Exception):
    """Amazon may not be asked now. The receipt stays pending and is left out for a while: list_put_off()."""


class CertificateUnavailable(Exception):
    """The certificate cannot be had. `reason` is what the dead letter says."""

    def __init__(self, reason: Reason | None = None) -> None:
        super().__init__("a certificate of Amazon is unavailable")
        self.reason = reason or make_reason("certificate_unavailable")


@dataclass(frozen=True, slots=True)
class _Answer:
    """`body`: None if Amazon did not answer, empty if it refused."""

    body: bytes | None
    until: float


@dataclass(frozen=True, slots=True)
class _PutOffReceipt:
    """A receipt that needs the answer of an address, and is tried again after `until`."""

    service: int
    url: str
    until: float


@dataclass(slots=True)
class _Account:
    """The requests for one account, what Amazon answered, and the receipts that wait, by row number."""

    requested_at: list[float] = field(default_factory=list)
    known: dict[str, _Answer] = field(default_factory=dict)
    put_off: dict[int, _PutOffReceipt] = field(default_factory=dict)
    is_asking: bool = False

    def remove_old(self, now: float) -> bool:
        """Forget what is over. Return whether nothing is left."""
        self.requested_at = [at for at in self.requested_at if at > now - 60.0]
        self.known = {url: answer for url, answer in self.known.items() if answer.until > now}
        # Receipts that were not tried again were deleted meanwhile, or another process had them.
        self.put_off = {
            receipt: one for receipt, one in self.put_off.items() if one.until > now - KEEP_FAILURE_S
        }
        return not (self.requested_at or self.known or self.put_off or self.is_asking)

    def find_turn(self, receipt: int, now: float) -> float:
        """Return when a receipt may ask: `now`, or later. Those that were accepted before it come first."""
        earlier = sum(row < receipt for row in self.put_off)
        if len(self.requested_at) < MAX_PER_MINUTE and (receipt in self.put_off or not earlier):
            return now
        minutes = 1 + earlier // MAX_PER_MINUTE
        return min(self.requested_at, default=now) + 60.0 * minutes

    def remember(self, url: str, answer: _Answer) -> None:
        while len(self.known) >= MAX_KNOWN:
            # The oldest.
            del self.known[next(iter(self.known))]
        self.known[url] = answer


class AmazonClient(UserUrlClient):
    """Requests addresses of Amazon SNS, and reads short answers."""

    max_bytes = 64 * 1024

    def _parse_url(self, url: str) -> SplitResult:
        if not sns.is_of_amazon(url):
            raise BadUrl("be an address of Amazon SNS")
        return super()._parse_url(url)


_client = AmazonClient(sns.NAME, UserHosts(), DEADLINE_S)
# The certificates that have verified a message, by address.
_verified: dict[str, _Answer] = {}
_accounts: dict[int, _Account] = {}
_lock = threading.Lock()


def configure(settings: Settings) -> None:
    global _client
    _client = AmazonClient(sns.NAME, UserHosts(settings.webhook_networks), DEADLINE_S)


def clear() -> None:
    """Forget all answers."""
    with _lock:
        _verified.clear()
        _accounts.clear()


def list_put_off(service_row: int) -> Collection[int]:
    """Return the pending receipts of a service that are left out now, by row number."""
    if not _accounts:
        return ()
    now = time.monotonic()
    with _lock:
        return [
            receipt
            for account in _accounts.values()
            for receipt, one in account.put_off.items()
            if one.service == service_row and one.until > now
        ]


def complete(source: str, body: RequestBody, receipt: int) -> RequestBody:
    """Return the body of a receipt, by row number, with what its source needs from Amazon.

    Raises AnswerMissing if Amazon must be asked, PutOff if it may not be asked now, and
    CertificateUnavailable if it was asked and did not answer.
    """
    if not body.setup.topics or STORED_SOURCES[source].verify is not sns.verify:
        return body
    url = sns.find_certificate_url(body)
    if url is None:
        return body
    certificate = _find_verified(url)
    if certificate is None:
        certificate = _get(url, receipt)
        if certificate is None:
            raise CertificateUnavailable
    body.setup = replace(body.setup, certificate=certificate)
    subscribe_url = sns.find_confirmation_url(body)
    if sns.verify(body) is None:
        _remember_verified(url, certificate)
        if subscribe_url is not None:
            remark = make_reason("subscription_not_confirmed")
            if _get(subscribe_url, receipt, is_confirmation=True):
                remark = make_reason("subscription_confirmed")
            body.setup = replace(body.setup, remark=remark)
    return body


def _find_verified(url: str) -> bytes | None:
    found = _verified.get(url)
    return found.body if found is not None and found.until > time.monotonic() else None


def _remember_verified(url: str, certificate: bytes) -> None:
    """Remember a certificate of Amazon for all accounts, and let the receipts that wait for it be tried."""
    if _find_verified(url) is not None:
        return
    now = time.monotonic()
    with _lock:
        for old in [each for each, answer in _verified.items() if answer.until <= now]:
            del _verified[old]
        while len(_verified) >= MAX_VERIFIED:
            # The oldest.
            del _verified[next(iter(_verified))]
        _verified[url] = _Answer(certificate, now + KEEP_S)
        for account in _accounts.values():
            _end_put_off(account, url)


def _end_put_off(account: _Account, url: str) -> None:
    for receipt in [row for row, one in account.put_off.items() if one.url == url]:
        del account.put_off[receipt]


def _get(url: str, receipt: int, *, is_confirmation: bool = False) -> bytes | None:
    """Return what Amazon answered to the account of a receipt. Raises AnswerMissing and others."""
    columns = Receipt.select(Receipt.account, Receipt.service)
    row, service_row = columns.where(Receipt.id == receipt).tuples().get()
    now = time.monotonic()
    with _lock:
        for old in [each for each, account in _accounts.items() if account.remove_old(now)]:
            del _accounts[old]
        account = _accounts.setdefault(row, _Account())
        found = account.known.get(url)
        if found is not None:
            account.put_off.pop(receipt, None)
            return found.body
        turn = account.find_turn(receipt, now)
        if turn <= now and not _may_ask(account):
            turn = now + BUSY_S
        if turn <= now:
            raise AnswerMissing(row, url, is_confirmation=is_confirmation)
        if receipt not in account.put_off and len(account.put_off) >= MAX_PUT_OFF:
            raise CertificateUnavailable(make_reason("too_many_certificates"))
        account.put_off[receipt] = _PutOffReceipt(service_row, url, turn)
    raise PutOff


def _may_ask(account: _Account) -> bool:
    """Return whether a request for an account may begin."""
    return not account.is_asking and sum(other.is_asking for other in _accounts.values()) < MAX_AT_ONCE


def ask(missing: AnswerMissing) -> None:
    """Ask Amazon, and remember the answer. Needs no transaction and takes at most some seconds.

    Do nothing if another thread asks now, or if the account has asked too often: the repeated transaction
    finds that out.
    """
    with _asking(missing) as may_ask:
        if not may_ask:
            return
        body = None
        for _ in range(CONFIRM_ATTEMPTS if missing.is_confirmation else 1):
            body = _request(missing.account, missing.url)
            if body is not None:
                break
        _remember(missing, body)


@contextmanager
def _asking(missing: AnswerMissing) -> Iterator[bool]:
    """Mark an account as asking; yield whether it may ask."""
    with _lock:
        account = _accounts.setdefault(missing.account, _Account())
        may_ask = (
            missing.url not in account.known
            and len(account.requested_at) < MAX_PER_MINUTE
            and _may_ask(account)
        )
        account.is_asking = account.is_asking or may_ask
    try:
        yield may_ask
    finally:
        if may_ask:
            with _lock:
                account.is_asking = False


def _request(account: int, url: str) -> bytes | None:
    """Return the body of the answer; empty: Amazon refused; None: there is no answer."""
    with _lock:
        _accounts[account].requested_at.append(time.monotonic())
    try:
        reply = _client.request("GET", url)
    except SendError as error:
        log.warning("Amazon did not answer", error=str(error.reason))
        return None
    if reply.is_success:
        return reply.body
    log.warning("Amazon refused a request", status=reply.status)
    return b"" if 400 <= reply.status < 500 and reply.status not in (408, 429) else None


def _remember(missing: AnswerMissing, body: bytes | None) -> None:
    until = time.monotonic() + (KEEP_S if body else KEEP_FAILURE_S)
    with _lock:
        account = _accounts[missing.account]
        account.remember(missing.url, _Answer(body, until))
        _end_put_off(account, missing.url)
