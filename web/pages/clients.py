"""Find out from where a browser comes, for the limits of attempts to sign in.

Behind a proxy that the settings do not name, all people have the network of this proxy. To count for it would
let one of them lock out all others. So it is not counted, and `tocsin check` names the proxy.
"""

import ipaddress
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache

from flask import current_app, request

from models.links import signed_links
from models.sign_in import proxies
from models.sign_in.attempts import Limit
from models.store.ids import make_token
from models.store.store import STORE_ERRORS, store
from models.tables.accounts import User
from web.http.auth import RECORD_LOCK_S, now
from web.http.failed_authentication import get_network
from web.pages import forms
from web.server_interface import PEER

# The purpose of the cookie that says who has signed in with this browser. It gives no rights.
DEVICE = "device"
# The longest time for which browsers keep a cookie.
DEVICE_S = 400 * 24 * 3600
# How often a process stores that a proxy was seen, and how many of them the store keeps: anybody who connects
# directly can look like a proxy.
SEEN_EVERY = timedelta(hours=1)
MAX_PROXIES = 20

_seen: dict[str, datetime] = {}
_lock = threading.Lock()


def list_attempts(*limits: Limit) -> list[tuple[Limit, str]]:
    """Return what these limits of a client count for this request; nothing if its network is not known."""
    network = find_network()
    return [] if network is None else [(limit, network) for limit in limits]


def find_network() -> str | None:
    """Return the network of this request's client; None: only that of a proxy is known."""
    peer = str(request.environ.get(PEER) or request.remote_addr or "")
    if "X-Forwarded-For" in request.headers and not _is_trusted(peer):
        _record_proxy(get_network(peer), now())
        return None
    return get_network(request.remote_addr or "")


def _is_trusted(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return any(address in network for network in _parse(current_app.config["SETTINGS"].trusted_proxies))


@lru_cache(maxsize=8)
def _parse(networks: Sequence[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(network) for network in networks]


def _record_proxy(address: str, at: datetime) -> None:
    """Store that this address sends X-Forwarded-For, for `tocsin check`."""
    with _lock:
        seen_at = _seen.get(address)
        if (seen_at is not None and at - seen_at < SEEN_EVERY) or len(_seen) > 10 * MAX_PROXIES:
            return
        _seen[address] = at
    # The attempt counts even if the store cannot record this.
    with suppress(*STORE_ERRORS), store().write_transaction(lock_s=RECORD_LOCK_S):
        proxies.record(address, at, MAX_PROXIES)


def clear() -> None:
    """Forget which proxies were seen."""
    with _lock:
        _seen.clear()


def find_known() -> tuple[str, str] | None:
    """Return who has last signed in with this browser (username), and an ID of the browser; None: nobody."""
    token = forms.read_cookie(DEVICE)
    if token is None:
        return None
    try:
        return signed_links.get_reader().read_device(token)
    except signed_links.BadLink:
        return None


def remember(user: User) -> None:
    """Remember in a cookie that this person has signed in with this browser."""
    known = find_known()
    device = known[1] if known is not None and known[0] == user.username else make_token()[:16]
    forms.set_cookie(DEVICE, signed_links.get_signer().sign_device(user.username, device), DEVICE_S)
