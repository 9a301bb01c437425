"""Let a person receive messages in the browser that shows a page of a signed link.

The pages of an incident and of an invitation have a button. Its script asks the browser for a subscription
and sends it to a path under the link, which names the person. A link can be forwarded, so an incident's link
gives this only in its first day, and the person gets a mail about each new browser.
"""

import base64
import contextlib
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from importlib.resources import files
from urllib.parse import urlsplit

from flask import Response, current_app, request

from models.contacts import browsers
from models.contacts.browsers import Subscription
from models.contacts.messages import create_browser_message, create_test_message
from models.domain.user_urls import find_network_problem, find_problem
from models.links import signed_links
from models.store.store import store
from models.tables.accounts import User, get_display_name
from web.account.message_limits import count_message
from web.account.notification_preferences import MAX_CONTACTS
from web.http import serialization
from web.http.auth import now
from web.http.errors import BadRequest, Throttled, reject
from web.http.fields import Schema, Text
from web.http.resource import lock_row
from workers import queue

# An incident's link can be used for this long to add a browser.
FRESH = timedelta(days=1)
MAX_ENDPOINT = 2_000
KEY_BYTES, AUTH_BYTES = 65, 16


class SubscriptionSchema(Schema):
    endpoint = Text(required=True, limit=MAX_ENDPOINT)
    p256dh = Text(required=True, limit=128)
    auth = Text(required=True, limit=64)


SUBSCRIPTION = SubscriptionSchema()


@dataclass(frozen=True, slots=True)
class PushPaths:
    """The paths that the script of a page uses, on the host of the page."""

    worker: str
    key: str
    target: str


def build_paths(target: str) -> PushPaths:
    """Return the paths for a page. `target` is the one for the subscription, as Tocsin serves it."""
    prefix = urlsplit(current_app.config["SETTINGS"].public_url).path.rstrip("/")
    return PushPaths(f"{prefix}/push.js", f"{prefix}/push/key/", f"{prefix}{target}")


def is_fresh(token: str) -> bool:
    """Return whether a valid link to an incident was signed in the last day."""
    return now() - signed_links.get_reader().get_signing_time(token) <= FRESH


def show_worker() -> Response:
    """Serve the script that receives notifications. Its folder is the scope of the script."""
    response = Response(_read_worker(), mimetype="text/javascript")
    # For the script itself: it may send requests to this host, and load nothing.
    response.headers["Content-Security-Policy"] = "default-src 'none'; connect-src 'self'"
    return response


@lru_cache(maxsize=1)
def _read_worker() -> bytes:
    return files("web.pages").joinpath("scripts/push.js").read_bytes()


def show_key() -> Response:
    """Return the public key to which browsers subscribe. The first request creates it, so it is a POST."""
    return Response(browsers.get_keys().public, mimetype="text/plain")


def subscribe(user: User) -> dict[str, str]:
    """Store the subscription in the body as a verified contact of the user, and send a test message to it."""
    # The page itself sends JSON. A form of another site cannot.
    if request.mimetype != serialization.JSON:
        raise BadRequest(detail="Send JSON.")
    found = _read_subscription()
    name = f"Browser, added {now():%Y-%m-%d}"
    with store().write_transaction():
        # Else requests at the same time could exceed the limit.
        lock_row(user)
        contacts = browsers.count_contacts(user)
        if contacts >= MAX_CONTACTS and browsers.find_contact(user, found) is None:
            reject("contact", f"A person can have at most {MAX_CONTACTS} contact methods.")
        contact, is_new = browsers.subscribe(user, found, name, now())
        messages = [create_browser_message(user, name, now())] if is_new else []
        with contextlib.suppress(Throttled):
            count_message(user, contact.contact_type, contact.value)
            messages.append(create_test_message(contact, get_display_name(user), now()))
    for message in messages:
        queue.enqueue_delivery(message.channel)
    return {"detail": "Tocsin notifies you in this browser now. A test message is on its way."}


def _read_subscription() -> Subscription:
    values = serialization.read_body()
    if not _is_push_url(values["endpoint"]):
        reject("endpoint", "Not the https URL of a push service.")
    for name, length in (("p256dh", KEY_BYTES), ("auth", AUTH_BYTES)):
        if _count_bytes(values[name]) != length:
            reject(name, f"Not {length} bytes as base64 for URLs.")
    return Subscription(values["endpoint"], values["p256dh"], values["auth"])


def _is_push_url(text: str) -> bool:
    # The messages to a host stop if it does not answer: no user may name another port of a push service.
    if not text.startswith("https://") or find_problem(text) or urlsplit(text).port not in (None, 443):
        return False
    return not find_network_problem(text, current_app.config["SETTINGS"].webhook_networks)


def _count_bytes(text: str) -> int:
    try:
        return len(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except ValueError:
        return 0
