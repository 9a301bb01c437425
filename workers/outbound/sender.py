"""Send deliveries to outbound integrations, in threads of their own.

A request follows the Standard Webhooks specification. Besides, `X-Signature` is the hex digest of the body
(contract section 6).
"""

import hashlib
import hmac
import threading
from collections import Counter

import dramatiq
import msgspec
import structlog

from models.domain.channels import OUTBOUND_CHANNEL
from models.domain.enums import OutboundStatus
from models.domain.reasons import Reason, make_reason
from models.store.store import STORE_ERRORS, connection, store
from runtime import metrics
from runtime.settings import Settings
from workers.broker import broker
from workers.delivery import dead_workers, deliver
from workers.delivery.transport.channel import SendError, TemporaryError, UnusableAddress
from workers.delivery.transport.signatures import build_headers
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient, looking_up_for
from workers.outbound import outbox
from workers.outbound.body import load_incident
from workers.outbound.outbox import Attempt, Claimed
from workers.outbound.outgoing_rules import find_obstacle
from workers.pause import pause_check

log = structlog.get_logger()

# The longest time of an attempt (contract section 4.8).
DEADLINE_S = 3.0
# A slow target keeps one thread busy, because it gets one request at a time.
THREADS = 4
# Threads of a process that send for one account, and to targets whose last attempt failed. The others serve
# other accounts and targets.
MAX_OF_ACCOUNT = THREADS // 2
MAX_OF_FAILING = THREADS // 2
# A lost wake-up delays a delivery for this long.
INTERVAL_S = 5.0

_client = UserUrlClient("outbound", UserHosts(), DEADLINE_S)


def configure(settings: Settings) -> None:
    """Use these settings; once, when a process starts."""
    global _client
    _client = UserUrlClient("outbound", UserHosts(settings.webhook_networks), DEADLINE_S)


class _InFlight:
    """The deliveries that threads of this process send now, by thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_thread: dict[int, Claimed] = {}

    def claim(self) -> Claimed | None:
        """Claim a delivery, of an account and a target that do not use too many threads already."""
        # No other thread may claim between the count and the claim.
        with self._lock:
            claims = list(self._by_thread.values())
            accounts = Counter(each.account for each in claims)
            full = [account for account, count in accounts.items() if count >= MAX_OF_ACCOUNT]
            failing = sum(each.failures > 0 for each in claims)
            with store().write_transaction():
                may_fail = failing < MAX_OF_FAILING
                claimed = outbox.claim(store().now(), full, with_failing=may_fail, by=dead_workers.own.number)
            if claimed is not None:
                self._by_thread[threading.get_ident()] = claimed
            return claimed

    def end(self) -> None:
        """End the delivery of this thread, if it has one."""
        with self._lock:
            self._by_thread.pop(threading.get_ident(), None)


_in_flight = _InFlight()


def send_next() -> bool:
    """Send one delivery and record the attempt. Return whether there was one. Needs no connection."""
    try:
        return _send_next()
    finally:
        _in_flight.end()


def _send_next() -> bool:
    with connection():
        if not outbox.is_due(store().now()):
            return False
        claimed = _in_flight.claim()
        if claimed is None:
            return False
        incident = load_incident(claimed.incident)
        why_not = find_obstacle(claimed.incident, claimed.integration, incident)
    # No connection is held during the request.
    attempt = _attempt(claimed, incident, why_not)
    with connection(), store().write_transaction():
        state = outbox.record(claimed, attempt, store().now())
    metrics.count_outbound("retry" if state is OutboundStatus.PENDING else state.name.lower())
    log.info(
        "outbound delivery attempted",
        delivery=claimed.unique_id,
        state=state.name.lower(),
        outcome=str(attempt.outcome),
    )
    return True


def _attempt(claimed: Claimed, incident: dict[str, object] | None, why_not: Reason | None) -> Attempt:
    """Send a delivery, unless something forbids it."""
    if why_not is not None:
        return Attempt(OutboundStatus.FILTERED, why_not)
    body = msgspec.json.encode({"payload": {"event_type": claimed.event, "incident": incident}})
    at = store().now()
    headers = build_headers(claimed.secret, claimed.unique_id, at, body)
    headers["X-Signature"] = hmac.new(claimed.secret.encode(), body, hashlib.sha256).hexdigest()
    try:
        with looking_up_for(claimed.account):
            return Attempt(OutboundStatus.SENT, _client.submit(claimed.url, body, at, headers))
    except UnusableAddress as error:
        # A receiver that is being replaced may answer 404 for a while; 410 says that it is gone.
        is_final = error.reason.parameters.get("code") != 404
        return Attempt(OutboundStatus.FAILED if is_final else OutboundStatus.PENDING, error.reason)
    except SendError as error:
        blames_target = isinstance(error, TemporaryError)
        return Attempt(OutboundStatus.PENDING, error.reason, blames_target, error.retry_after)
    except Exception as error:
        log.exception("outbound delivery failed", delivery=claimed.unique_id)
        why = make_reason("internal_error", error=type(error).__name__)
        return Attempt(OutboundStatus.PENDING, why, blames_target=True)


class Sender:
    """The threads of a worker process that send deliveries."""

    def __init__(self) -> None:
        self._stopping = False
        self._wake_ups = 0
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(number == 0,), name="outbound", daemon=True)
            for number in range(THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake_up(self) -> None:
        with self._changed:
            self._wake_ups += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Begin no further attempt."""
        self._stopping = True
        self.wake_up()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self, is_first: bool) -> None:
        """Send what is due at each wake-up. The first thread also looks from time to time."""
        seen = 0
        while not self._stopping:
            seen = self._await_wake_up(seen, INTERVAL_S if is_first else None)
            self._send_all(is_first)

    def _await_wake_up(self, seen: int, timeout_s: float | None) -> int:
        """Wait until there were more than `seen` wake-ups. Return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._wake_ups != seen, timeout_s)
            return self._wake_ups

    def _send_all(self, is_first: bool) -> None:
        try:
            found = False
            while not self._stopping and not pause_check.is_paused() and send_next():
                if is_first and not found:
                    found = True
                    self.wake_up()
        except STORE_ERRORS as error:
            pause_check.forget()
            log.warning("the database cannot be used", job="outbound", error=type(error).__name__)
        except Exception:
            log.exception("outbound deliveries failed")


_sender: Sender | None = None


def start() -> Sender:
    """Start the threads of this process."""
    global _sender
    _sender = Sender()
    _sender.start()
    return _sender


def wake_up() -> None:
    """Let the threads of this process look for deliveries."""
    if _sender is not None:
        _sender.wake_up()


_declare = dramatiq.actor(broker=broker, queue_name="deliver.outbound", actor_name="deliver.outbound")
deliver.ACTORS[OUTBOUND_CHANNEL] = _declare(wake_up)
deliver.WAKE_UPS[OUTBOUND_CHANNEL] = wake_up
