"""Send messages to Slack users, with buttons, and change them later, with Slack's Web API.

Sources: docs.slack.dev, the pages of chat.postMessage, chat.update, Block Kit and "Rate limits". A message
has 50 blocks at most, and one conversation takes about one message per second. An answer 429 has Retry-After.
Other errors have status 200 and a word.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import quote_plus

from models.domain.reasons import make_reason
from pipeline.messages.content import Action, LabelledLink, MessageContent
from pipeline.messages.shortening import shorten_text
from runtime.settings import Settings
from workers.delivery.transport.api_channel import ApiChannel
from workers.delivery.transport.channel import (
    Accepted,
    Channel,
    OutgoingMessage,
    Refused,
    RelayError,
    SendError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.chat_text import escape_tags, keep_first_link
from workers.delivery.transport.http import HttpClient, HttpReply, raise_for_status
from workers.delivery.transport.texts import MessageText

NAME = "slack"

# The limits of Block Kit.
MAX_HEADER = 150
MAX_SECTION = 3_000
# For each incident of several.
MAX_INCIDENT = 600
MAX_BUTTON = 75
MAX_URL = 3_000
MAX_FALLBACK = 4_000
# A message may have 50 blocks. Each incident needs two.
MAX_LINKS = 15
# Bytes of a message in a callback, which may have 64 KiB with what Slack adds.
MAX_ENCODED = 40_000

BUTTONS = {"acknowledge": ("Acknowledge", "primary"), "resolve": ("Resolve", "")}

# What Slack's errors mean, by `error`. Others are temporary: they are retried and then given up.
ERRORS: Mapping[str, type[SendError]] = {
    # The person or the conversation does not exist, or does not accept messages of apps.
    **dict.fromkeys(("channel_not_found", "user_not_found", "user_disabled", "is_archived"), Refused),
    **dict.fromkeys(("cannot_dm_bot", "not_in_channel", "user_not_visible", "is_inactive"), Refused),
    **dict.fromkeys(("restricted_action", "restricted_action_read_only_channel"), Refused),
    **dict.fromkeys(("restricted_action_thread_only_channel",), Refused),
    "invalid_channel": UnusableAddress,
    # Only for a change: the message is gone, or can no longer be changed.
    **dict.fromkeys(("message_not_found", "cant_update_message", "edit_window_closed"), Refused),
    "block_mismatch": Refused,
    # The token, the app or Slack: no message can be sent. What can depend on one person (`no_permission`: the
    # app is not in the conversation) or on one message (`internal_error`) must not pause all messages.
    **dict.fromkeys(("invalid_auth", "not_authed", "account_inactive", "token_revoked"), RelayError),
    **dict.fromkeys(("token_expired", "missing_scope", "messages_tab_disabled"), RelayError),
    **dict.fromkeys(("not_allowed_token_type", "ekm_access_denied", "org_login_required"), RelayError),
    **dict.fromkeys(("accesslimited", "enterprise_is_restricted", "team_added_to_org"), RelayError),
    **dict.fromkeys(("two_factor_setup_required", "method_deprecated"), RelayError),
    **dict.fromkeys(("deprecated_endpoint", "service_unavailable"), RelayError),
}  # fmt: skip


class SlackChannel(ApiChannel):
    """The Slack channel with these settings."""

    name = NAME

    def __init__(self, settings: Settings, client: HttpClient | None = None) -> None:
        super().__init__(settings, client)
        self._base = settings.slack_url
        self._token = settings.slack_bot_token
        self._text = MessageText("slack.txt", settings.home)

    def format_example(self, message: OutgoingMessage) -> object:
        """Return what send() would submit, for docs/messages.md."""
        return build_body(message.content, self._text)

    def send(self, message: OutgoingMessage) -> Accepted:
        body = {"channel": message.to, **build_body(message.content, self._text)}
        answer = self._call("chat.postMessage", body, message.at)
        return Accepted(
            make_reason("provider_accepted", provider=NAME, code=200),
            NAME,
            f"{answer.get('channel', '')}:{answer.get('ts', '')}",
        )

    def change(self, provider_id: str, message: OutgoingMessage) -> None:
        """Replace the text and the buttons of a sent message. Raise a SendError."""
        channel, _, ts = provider_id.partition(":")
        body = {"channel": channel, "ts": ts, **build_body(message.content, self._text)}
        self._call("chat.update", body, message.at)

    def reply(self, url: str, user: str, text: str, at: datetime) -> None:
        """Send a person a sentence, to the address of a callback or as a message. Raise a SendError.

        At the address of a callback, only the person sees it.
        """
        shown = _fit(text, MAX_SECTION)
        if url:
            body = {"response_type": "ephemeral", "replace_original": False, "text": shown}
            raise_for_status(self._client.request("POST", url, json=body), NAME, at)
        else:
            self._call("chat.postMessage", {"channel": user, "text": shown, "mrkdwn": False}, at)

    def _call(self, method: str, body: object, now: datetime) -> Mapping[str, object]:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json; charset=utf-8",
        }
        reply = self._client.request("POST", f"{self._base}/{method}", headers=headers, json=body)
        return _read(reply, now)


def create_channel(settings: Settings) -> Channel:
    return SlackChannel(settings)


def _read(reply: HttpReply, now: datetime) -> Mapping[str, object]:
    """Return the answer of Slack. It says with 200 whether it did what it was asked to do."""
    raise_for_status(reply, NAME, now)
    answer = reply.read_json()
    if not isinstance(answer, dict):
        raise RelayError(make_reason("provider_failed", provider=NAME, code=reply.status), provider=NAME)
    if answer.get("ok") is True:
        return answer
    # A word of Slack's documentation; anything else is not shown.
    error = str(answer.get("error"))
    word = error if error.isascii() and error.replace("_", "").isalnum() and len(error) < 40 else "unknown"
    reason = make_reason("provider_answered", provider=NAME, error=word)
    kind = ERRORS.get(error, TemporaryError)
    raise kind(reason, provider=NAME, retry_after=reply.get_retry_after(now))


def build_body(content: MessageContent, text: MessageText) -> dict[str, object]:
    """Return the content as arguments of chat.postMessage: `text` is what notifications on phones show."""
    links, section = MAX_LINKS, text.render(keep_first_link(content)).strip()
    body = _build(content, section, links)
    # Slack sends the whole message back, as a form, when a button is pressed.
    while links > 1 and len(quote_plus(json.dumps(body))) > MAX_ENCODED:
        links //= 2
        body = _build(content, section, links)
    return body


def _build(content: MessageContent, section: str, links: int) -> dict[str, object]:
    return {
        "text": _fit(content.title, MAX_FALLBACK),
        "blocks": list(_list_blocks(content, section, links)),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _list_blocks(content: MessageContent, section: str, links: int) -> Iterator[dict[str, object]]:
    title = shorten_text(content.title, MAX_HEADER) or "Tocsin"
    yield {"type": "header", "text": _plain(title)}
    if section:
        yield _section(section)
    for link in content.links[:links]:
        if link.note:
            yield _section(_fit(f"{link.text}\n{link.note}", MAX_INCIDENT))
        if buttons := _list_buttons(link):
            yield {"type": "actions", "elements": buttons}
    if len(content.links) > links:
        yield _section(f"and {len(content.links) - links} more")


def _section(text: str) -> dict[str, object]:
    """Return a section. Verbatim: Slack makes no links and no names of channels out of the text."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _plain(text: str) -> dict[str, object]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _list_buttons(link: LabelledLink) -> list[dict[str, object]]:
    buttons = [_button(action) for action in link.actions]
    if len(link.url) <= MAX_URL:
        label = link.button or ("Open" if link.note else link.text)
        buttons.append(
            {"type": "button", "text": _plain(shorten_text(label, MAX_BUTTON) or "Open"), "url": link.url}
        )
    return buttons


def _button(action: Action) -> dict[str, object]:
    text, style = BUTTONS[action.name]
    button: dict[str, object] = {
        "type": "button",
        "text": _plain(text),
        # Unique in a message.
        "action_id": f"{action.name}:{action.notification}",
        "value": str(action.notification),
    }
    return {**button, "style": style} if style else button


def _fit(text: str, limit: int) -> str:
    """Escape a text and shorten it to `limit` characters, without cutting an entity."""
    escaped = escape_tags(text)
    if len(escaped) <= limit:
        return escaped
    return f"{escape_prefix(text, limit - 3)}..."


def escape_prefix(text: str, limit: int) -> str:
    """Return the escaped form of as many first characters as fit into `limit`."""
    parts, size = [], 0
    for char in text:
        part = escape_tags(char)
        size += len(part)
        if size > limit:
            break
        parts.append(part)
    return "".join(parts)
