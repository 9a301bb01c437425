"""Callbacks of Slack: buttons, direct messages to the app, and its command.

`handle` gets the payload of a callback, whether it came by HTTP or over a connection (Socket Mode).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import msgspec
from flask import Response, current_app, jsonify, request

from models.domain.channels import SLACK_USER
from models.domain.enums import ContactType
from pipeline.messages.content import ACTIONS
from runtime import metrics
from runtime.settings import Settings
from web.callbacks import received
from web.callbacks.people import enter_text, press
from web.http.auth import now as get_now
from workers import queue

NAME = "slack"
# Slack's own host for answers to a callback.
ANSWER_HOST = "hooks.slack.com"


@dataclass(frozen=True, slots=True)
class Handled:
    """What to answer. `body` is the body of the response; empty: none.

    `text` is what the person reads apart from it: at the address `url`, or without it as a message to
    `user`. Empty: nothing.
    """

    body: Mapping[str, object] | None = None
    text: str = ""
    url: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The settings that a callback needs: the public URL of Tocsin, and the URL of Slack's Web API."""

    public_url: str
    slack_url: str


IGNORED = Handled()


def receive() -> Response:
    """Take a callback of Slack by HTTP."""
    settings: Settings = current_app.config["SETTINGS"]
    request.max_content_length = received.MAX_BYTES
    body, now = request.get_data(cache=False), get_now()
    if not settings.slack_signing_secret:
        return _refuse("TOCSIN_SLACK_SIGNING_SECRET is not set", 404)
    if not is_signed(settings.slack_signing_secret, body, dict(request.headers), now):
        return _refuse("the signature is not valid", 403)
    payload = read_payload(body, request.mimetype)
    if payload is None:
        return _refuse("the body is no payload of Slack", 400)
    handled = handle(payload, Place(settings.public_url, settings.slack_url), now)
    if handled.text:
        queue.enqueue("replies.slack", handled.url, handled.user, handled.text)
    return jsonify(handled.body) if handled.body is not None else Response(status=200)


def _refuse(why: str, status: int) -> Response:
    metrics.count_callback(NAME, "refused")
    response = jsonify({"detail": why})
    response.status_code = status
    return response


def is_signed(secret: str, body: bytes, headers: Mapping[str, str], now: datetime) -> bool:
    """Return whether Slack signed the body with this secret in the last five minutes."""
    # Other web processes do not need the library.
    from slack_sdk.signature import Clock, SignatureVerifier

    class FixedClock(Clock):
        def now(self) -> float:
            return now.timestamp()

    stamp = headers.get("X-Slack-Request-Timestamp", "")
    signature = headers.get("X-Slack-Signature", "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 12 and signature.isascii()):
        return False
    try:
        return SignatureVerifier(secret, FixedClock()).is_valid(body, stamp, signature)
    except UnicodeDecodeError:
        return False


def read_payload(body: bytes, mimetype: str) -> Mapping[str, object] | None:
    """Return the payload of a body: JSON, a form with JSON in `payload`, or the form of a command."""
    try:
        if mimetype == "application/json":
            found = msgspec.json.decode(body)
        else:
            form = {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=50).items()}
            found = msgspec.json.decode(form["payload"]) if "payload" in form else form
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def handle(payload: Mapping[str, object], place: Place, now: datetime) -> Handled:
    """Handle a callback once. Slack has signed it, or sent it over our connection."""
    kind = payload.get("type", "command" if "command" in payload else "")
    if kind == "url_verification":
        return Handled({"challenge": str(payload.get("challenge", ""))[:200]})
    found = _HANDLERS.get(kind) if isinstance(kind, str) else None
    if found is None:
        return IGNORED
    name_of_id, handle_kind = found
    callback = payload.get(name_of_id)
    if not isinstance(callback, str) or not callback:
        return IGNORED
    handled = received.handle_once(NAME, callback[:200], now, lambda: handle_kind(payload, place, now))
    metrics.count_callback(NAME, "repeated" if handled is None else "handled")
    return handled or IGNORED


def _press_button(payload: Mapping[str, object], place: Place, now: datetime) -> Handled:
    actions, user = payload.get("actions"), _get_text(payload.get("user"), "id")
    action = actions[0] if isinstance(actions, list) and actions else None
    name = _get_text(action, "action_id").partition(":")[0]
    value = _get_text(action, "value")
    # A press of a button that only opens an address also arrives here.
    if name not in ACTIONS or not is_row_number(value) or not SLACK_USER.pattern.fullmatch(user):
        return IGNORED
    answer = press(ContactType.SLACK, user, int(value), name, now, place.public_url)
    url = _get_text(payload, "response_url")
    return Handled(text=answer.text, url=url if may_answer_at(url, place.slack_url) else "", user=user)


def _read_direct_message(payload: Mapping[str, object], place: Place, now: datetime) -> Handled:
    event = payload.get("event")
    user, text = _get_text(event, "user"), _get_text(event, "text")
    # Messages of bots, also our own, and changes of messages have one of these.
    is_of_person = isinstance(event, dict) and not event.get("bot_id") and not event.get("subtype")
    is_direct = _get_text(event, "type") == "message" and _get_text(event, "channel_type") == "im"
    if not (is_of_person and is_direct and SLACK_USER.pattern.fullmatch(user)):
        return IGNORED
    return Handled(text=enter_text(ContactType.SLACK, user, text, now, place.public_url), user=user)


def _read_command(payload: Mapping[str, object], place: Place, now: datetime) -> Handled:
    user = _get_text(payload, "user_id")
    if not SLACK_USER.pattern.fullmatch(user):
        return IGNORED
    text = enter_text(ContactType.SLACK, user, _get_text(payload, "text"), now, place.public_url)
    return Handled({"response_type": "ephemeral", "text": text})


# What names a callback, and its function, by the type of the payload.
_HANDLERS: Mapping[str, tuple[str, Callable[[Mapping[str, object], Place, datetime], Handled]]] = {
    "block_actions": ("trigger_id", _press_button),
    "event_callback": ("event_id", _read_direct_message),
    "command": ("trigger_id", _read_command),
}


def _get_text(found: object, name: str) -> str:
    value = found.get(name) if isinstance(found, Mapping) else None
    return value if isinstance(value, str) else ""


def is_row_number(text: str) -> bool:
    """Return whether a text is a positive number that the database can hold."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def may_answer_at(url: str, slack_url: str) -> bool:
    """Return whether an address in a payload is one of Slack, or of the server in TOCSIN_SLACK_URL."""
    try:
        found, known = urlsplit(url), urlsplit(slack_url)
        own = (known.scheme, known.hostname, known.port)
        return (found.scheme, found.hostname, found.port) in (("https", ANSWER_HOST, None), own)
    except ValueError:
        return False
