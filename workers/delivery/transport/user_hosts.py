"""Send requests to URLs that users give: only to addresses that the operator allows, before a deadline.

The name of the host is resolved once, all its addresses are checked, and the connection goes to one of them.
So a name that later resolves to another address is no way around the check. Reasons say only a class: they
must not show what is in the operator's networks.
"""

import queue
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from ipaddress import ip_address
from urllib.parse import SplitResult

from models.domain.reasons import Reason, make_reason
from models.domain.user_urls import BadUrl, is_allowed, parse_networks, parse_user_url
from workers.delivery.transport.channel import (
    DEADLINE_S,
    HostError,
    Refused,
    SendError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.http import HttpClient, HttpReply
from workers.delivery.transport.watchdog import HostAddress, Watchdog, resolve

# Names that are resolved at the same time, for all accounts and for one. The system's resolver can take
# longer than any deadline, and nothing can stop it.
MAX_LOOKUPS = 16
MAX_LOOKUPS_OF_ACCOUNT = 4


class _Asker(threading.local):
    """The account for which this thread looks names up; None: none."""

    account: int | None = None


_asker = _Asker()


@contextmanager
def looking_up_for(account: int) -> Iterator[None]:
    """Count the names that are looked up in the block as those of an account (row number)."""
    before, _asker.account = _asker.account, account
    try:
        yield
    finally:
        _asker.account = before


class AddressRefused(OSError):
    """The URL has the address of a network that the operator does not allow."""


class NameRefused(OSError):
    """A name leads to such a network. Users must not learn which names exist there."""


class UserHosts:
    """Finds the addresses of hosts in URLs of users. Several threads may use it at the same time.

    `networks` are those that the setting TOCSIN_WEBHOOK_NETWORKS allows besides the internet.
    """

    def __init__(self, networks: tuple[str, ...] = ()) -> None:
        self._networks = parse_networks(networks)
        self._lookups = threading.Semaphore(MAX_LOOKUPS)
        # The names that are being resolved, by account.
        self._running: Counter[int | None] = Counter()
        self._lock = threading.Lock()

    def find_addresses(self, host: str, port: int, timeout_s: float) -> list[HostAddress]:
        """Return the addresses of a host if all of them are allowed. Raise OSError or UnicodeError."""
        found = _read_address(host, port)
        error: type[OSError] = AddressRefused
        if found is None:
            found, error = self._look_up(host, port, timeout_s), NameRefused
        for each in found:
            # An IPv6 address may have the name of an interface after it.
            number = ip_address(str(each.address[0]).partition("%")[0])
            if not is_allowed(number, self._networks):
                raise error("the network is not allowed")
        return found

    def _look_up(self, host: str, port: int, timeout_s: float) -> list[HostAddress]:
        """Resolve a name in a thread of its own, and do not wait longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        account = self._begin(timeout_s)
        results: queue.SimpleQueue[list[HostAddress] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                results.put(resolve(host, port))
            except (OSError, UnicodeError) as error:
                results.put(error)
            finally:
                self._end(account)

        threading.Thread(target=look_up, name="lookup", daemon=True).start()
        try:
            found = results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError("the name was not resolved in time") from None
        if isinstance(found, Exception):
            raise found
        return found

    def _begin(self, timeout_s: float) -> int | None:
        """Take a place for a name, and return the account for which it is. Raise TimeoutError."""
        account = _asker.account
        with self._lock:
            # Its threads are not more, so these are names for which nobody waits any longer.
            if account is not None and self._running[account] >= MAX_LOOKUPS_OF_ACCOUNT:
                raise TimeoutError("too many names of the account are being resolved")
            self._running[account] += 1
        if self._lookups.acquire(timeout=timeout_s):
            return account
        self._forget(account)
        raise TimeoutError("too many names are being resolved")

    def _end(self, account: int | None) -> None:
        self._forget(account)
        self._lookups.release()

    def _forget(self, account: int | None) -> None:
        with self._lock:
            self._running[account] -= 1
            if not self._running[account]:
                del self._running[account]


def _read_address(host: str, port: int) -> list[HostAddress] | None:
    """Return the address that a host is, in any spelling that the system reads; None if it is a name."""
    try:
        return resolve(host, port, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None


class UserUrlClient(HttpClient):
    """Sends requests to URLs of users. It reads no body of an answer.

    The errors are those of one host, not of a provider: UnusableAddress if the URL is not allowed, and
    HostError if there is no answer.
    """

    max_bytes = 0

    def __init__(self, provider: str, hosts: UserHosts, deadline_s: float = DEADLINE_S) -> None:
        super().__init__(provider, deadline_s)
        self._hosts = hosts

    def submit(
        self, url: str, body: object, now: datetime, headers: Mapping[str, str] | None = None
    ) -> Reason:
        """Post JSON, or bytes, and return the reason of the success. Raise a SendError, also by the status.

        Bytes need their own Content-Type in `headers`.
        """
        if isinstance(body, bytes):
            reply = self.request("POST", url, headers=headers, body=body)
        else:
            reply = self.request("POST", url, headers=headers, json=body)
        if not reply.is_success:
            raise _build_status_error(reply, self.provider, now)
        return make_reason("url_accepted", code=reply.status)

    def _parse_url(self, url: str) -> SplitResult:
        return parse_user_url(url)

    def _find_addresses(self, host: str, port: int, watchdog: Watchdog) -> list[HostAddress]:
        return self._hosts.find_addresses(host, port, watchdog.remaining())

    def _build_error(self, error: Exception, watchdog: Watchdog) -> SendError:
        if isinstance(error, BadUrl | AddressRefused):
            return UnusableAddress(make_reason("url_not_allowed"), provider=self.provider)
        if isinstance(error, ssl.SSLCertVerificationError):
            return HostError(make_reason("url_not_trusted"), provider=self.provider)
        return HostError(_get_silence(error, watchdog), provider=self.provider)


def _get_silence(error: Exception, watchdog: Watchdog) -> Reason:
    """Return why there is no answer. For a name in a forbidden network, it is that of an unknown name."""
    if watchdog.expired or isinstance(error, TimeoutError):
        return make_reason("url_late")
    return make_reason("url_closed") if isinstance(error, ConnectionError) else make_reason("url_silent")


def _build_status_error(reply: HttpReply, provider: str, now: datetime) -> SendError:
    """Return the error of an answer that is no success.

    - 404, 410: the URL does not exist any more.
    - 408, 409, 425, 429, 500 and above: temporary. So is 413, which is about this message and not about the
      URL. Others: this URL refuses the message.
    """
    code, retry_after = reply.status, reply.get_retry_after(now)
    if code in (404, 410):
        return UnusableAddress(make_reason("url_gone", code=code), provider=provider)
    if code >= 500:
        return HostError(make_reason("url_busy", code=code), provider=provider, retry_after=retry_after)
    if code in (408, 409, 413, 425, 429):
        return TemporaryError(make_reason("url_busy", code=code), provider=provider, retry_after=retry_after)
    return Refused(make_reason("url_refuses", code=code), provider=provider)
