"""Send requests to the HTTP interface of a provider, each before a deadline, and read short answers.

Redirects are not followed. Each request has a connection of its own.
"""

import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPConnection, HTTPException
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from models.domain.reasons import Reason, make_reason
from workers.delivery.transport.channel import DEADLINE_S, Refused, RelayError, SendError, TemporaryError
from workers.delivery.transport.watchdog import HostAddress, Watchdog, connect_to, resolve

# The answers of providers are short. More of a body is not read.
MAX_BYTES = 64 * 1024

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The answer of a provider. The names of `headers` are in lower case; `body` has at most MAX_BYTES."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def read_json(self) -> Any:
        """Return the body as JSON; None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return None

    def get_retry_after(self, now: datetime) -> timedelta | None:
        """Return how long the provider asks to wait (RFC 9110, section 10.2.3); None: it does not ask.

        Some providers send a fraction of a second.
        """
        text = self.headers.get("retry-after", "").strip()
        if _SECONDS.fullmatch(text):
            return timedelta(seconds=min(float(text[:12]), 86_400))
        try:
            return max(parsedate_to_datetime(text) - now, timedelta())
        except (ValueError, TypeError, OverflowError):
            return None


@lru_cache(maxsize=1)
def get_tls_context() -> ssl.SSLContext:
    """Return the context that trusts the authorities of the system. To read them takes 50 ms and memory."""
    return ssl.create_default_context()


class HttpClient:
    """Sends requests to one provider. `provider` is its name, in reasons and in attempts.

    Several threads may use it at the same time. `max_bytes`: how much of the body of an answer it reads.
    """

    max_bytes = MAX_BYTES

    def __init__(self, provider: str, deadline_s: float = DEADLINE_S) -> None:
        self.provider = provider
        self._deadline_s = deadline_s
        self._tls = get_tls_context()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: object = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpReply:
        """Send a request and return the answer, whatever its status. Raise RelayError if there is none.

        The body is one of `json`, `form` (the fields of a form) and `body`.
        """
        sent = {"User-Agent": "Tocsin", **(headers or {})}
        if json is not None:
            body = msgspec.json.encode(json)
            sent.setdefault("Content-Type", "application/json")
        elif form is not None:
            body = urlencode(form).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        with Watchdog(time.monotonic() + self._deadline_s) as watchdog:
            try:
                reply = self._exchange(watchdog, method, self._parse_url(url), sent, body)
                if watchdog.expired:
                    # The library takes the end of the connection for the end of the headers.
                    raise TimeoutError("the deadline has passed")
                return reply
            except (OSError, HTTPException, ValueError) as error:
                raise self._build_error(error, watchdog) from error

    def _exchange(
        self, watchdog: Watchdog, method: str, url: SplitResult, headers: dict[str, str], body: bytes | None
    ) -> HttpReply:
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        raw = connect_to(self._find_addresses(host, port, watchdog), watchdog)
        # With TLS, the first handle is closed; the watchdog needs one that stays open.
        handle = raw.dup()
        conn = HTTPConnection(host, port)
        try:
            watchdog.guard(handle)
            conn.sock = self._tls.wrap_socket(raw, server_hostname=host) if url.scheme == "https" else raw
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            # The library derives the port of the Host header from the default port of HTTP.
            host_header = f"[{host}]" if ":" in host else host
            if port != _PORTS[url.scheme]:
                host_header += f":{port}"
            conn.request(method, target, body, {"Host": host_header, **headers})
            reply = conn.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return HttpReply(reply.status, found, reply.read(self.max_bytes) if self.max_bytes else b"")
        finally:
            conn.close()
            raw.close()
            handle.close()

    def _parse_url(self, url: str) -> SplitResult:
        """Return the parts of a URL. Raise ValueError if it cannot be requested."""
        return urlsplit(url)

    def _find_addresses(self, host: str, port: int, watchdog: Watchdog) -> list[HostAddress]:
        """Return the addresses to which a request may go. Raise OSError or ValueError."""
        return resolve(host, port)

    def _build_error(self, error: Exception, watchdog: Watchdog) -> SendError:
        """Return the error of a request without an answer."""
        return RelayError(self._describe(error, watchdog), provider=self.provider)

    def _describe(self, error: Exception, watchdog: Watchdog) -> Reason:
        """Describe why there is no answer, without the URL, which may contain a secret."""
        if watchdog.expired or isinstance(error, TimeoutError):
            return make_reason("provider_silent", provider=self.provider, within=f"{self._deadline_s:g}")
        return make_reason("provider_unreachable", provider=self.provider, error=type(error).__name__)


def raise_for_status(reply: HttpReply, provider: str, now: datetime) -> None:
    """Raise the error of an answer that is no success. A channel first handles the statuses that it knows.

    - 400 to 499: the provider refuses this message: Refused. Retries decide whether it is the address.
    - 401, 403, 407: the credentials in the settings are wrong: no message can be sent.
    - 408, 409, 425: temporary. 429: temporary, and not before the time that the provider names.
    - 413: the message is too large. It is no reason to give up the address.
    - 500 to 599, 300 to 399 and others: the provider cannot be used now.
    """
    if not reply.is_success:
        _raise(reply, provider, now)


def _raise(reply: HttpReply, provider: str, now: datetime) -> NoReturn:
    retry_after = reply.get_retry_after(now)
    match reply.status:
        case 401 | 403 | 407:
            raise RelayError(
                make_reason("provider_refuses_login", provider=provider, code=reply.status), provider=provider
            )
        case 408 | 409 | 413 | 425 | 429:
            raise TemporaryError(
                make_reason("provider_busy", provider=provider, code=reply.status),
                provider=provider,
                retry_after=retry_after,
            )
        case status if 400 <= status < 500:
            raise Refused(
                make_reason("provider_refuses", provider=provider, code=reply.status), provider=provider
            )
    raise RelayError(
        make_reason("provider_failed", provider=provider, code=reply.status),
        provider=provider,
        retry_after=retry_after,
    )
