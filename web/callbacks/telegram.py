"""Updates of Telegram: buttons, and direct messages to the bot.

`handle` gets an update, whether it came by HTTP or was asked for (polling). It returns the method of the Bot
API with which Tocsin answers, and its arguments: also the form of an answer by HTTP.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime

import msgspec
from flask import Response, current_app, jsonify, request

from models.domain.enums import OtherContactType
from runtime import metrics
from runtime.settings import Settings
from web.callbacks import received
from web.callbacks.people import enter_text, press
from web.callbacks.slack import is_row_number
from web.http.auth import now as get_now

NAME = "telegram"
# The first character of a button's data (workers/delivery/channels/telegram.py).
ACTIONS = {"a": "acknowledge", "r": "resolve"}
# The Bot API shows at most so much of an answer to a button.
MAX_ANSWER = 200

Reply = Mapping[str, object]


def receive() -> Response:
    """Take an update of Telegram by HTTP."""
    settings: Settings = current_app.config["SETTINGS"]
    request.max_content_length = received.MAX_BYTES
    body = request.get_data(cache=False)
    given = request.headers.get("X-Telegram-Bot-Api-Secret-Token", "").encode("utf-8", "replace")
    secret = settings.telegram_webhook_secret.encode()
    if not secret or not hmac.compare_digest(given, secret):
        metrics.count_callback(NAME, "refused")
        return Response('{"detail": "the secret is not valid"}', 403, mimetype="application/json")
    try:
        update = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        update = None
    number = update.get("update_id") if isinstance(update, dict) else None
    if not isinstance(number, int):
        metrics.count_callback(NAME, "refused")
        return Response('{"detail": "the body is no update of Telegram"}', 400, mimetype="application/json")
    now = get_now()
    found = received.handle_once(NAME, str(number), now, lambda: [handle(update, settings.public_url, now)])
    metrics.count_callback(NAME, "repeated" if found is None else "handled")
    reply = found[0] if found else None
    return jsonify(reply) if reply else Response(status=200)


def handle(update: Mapping[str, object], public_url: str, now: datetime) -> Reply | None:
    """Handle an update that the caller has not handled before. Return what to answer; None: nothing."""
    query, message = update.get("callback_query"), update.get("message")
    if isinstance(query, Mapping):
        return _press_button(query, public_url, now)
    if isinstance(message, Mapping):
        return _read_message(message, public_url, now)
    return None


def _press_button(query: Mapping[str, object], public_url: str, now: datetime) -> Reply | None:
    data, sender, number = query.get("data"), query.get("from"), query.get("id")
    user = sender.get("id") if isinstance(sender, Mapping) else None
    mark, _, row = data.partition(":") if isinstance(data, str) else ("", "", "")
    if not isinstance(number, str) or not isinstance(user, int):
        return None
    action = ACTIONS.get(mark)
    if action is None or not is_row_number(row):
        return {"method": "answerCallbackQuery", "callback_query_id": number}
    # The number of a private chat is that of its person.
    answer = press(OtherContactType.TELEGRAM, str(user), int(row), action, now, public_url)
    return {
        "method": "answerCallbackQuery",
        "callback_query_id": number,
        "text": answer.text[:MAX_ANSWER],
        "show_alert": not answer.is_done,
    }


def _read_message(message: Mapping[str, object], public_url: str, now: datetime) -> Reply | None:
    chat, text = message.get("chat"), message.get("text")
    if not isinstance(chat, Mapping) or not isinstance(text, str) or not isinstance(chat.get("id"), int):
        return None
    if chat.get("type") != "private":
        # In a group, everybody would read the messages and could press the buttons.
        return None
    number = str(chat["id"])
    answer = enter_text(OtherContactType.TELEGRAM, number, text, now, public_url)
    return {"method": "sendMessage", "chat_id": chat["id"], "text": answer}
