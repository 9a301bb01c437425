"""Send messages to private Telegram chats, with buttons, and change them later.

Sources: core.telegram.org/bots/api (sendMessage, "Making requests", ResponseParameters), and the list of
errors in the repository TelegramBotAPI/errors. An error has the code of HTTP and a description; 429 has
`parameters.retry_after` in seconds.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from models.domain.reasons import Reason, make_reason
from pipeline.messages.content import LabelledLink, MessageContent
from pipeline.messages.shortening import shorten_text
from runtime.settings import Settings
from workers.delivery.transport.api_channel import ApiChannel
from workers.delivery.transport.channel import (
    DEADLINE_S,
    Accepted,
    Channel,
    OutgoingMessage,
    Refused,
    RelayError,
    SendError,
    TemporaryError,
)
from workers.delivery.transport.http import HttpClient, HttpReply
from workers.delivery.transport.texts import MessageText

NAME = "telegram"

# The Bot API accepts 100 buttons. Each incident needs up to three; the text lists as many.
MAX_LINKS = 15

# The first character of a button's data, and what the button says.
BUTTONS = {"acknowledge": ("a", "Acknowledge"), "resolve": ("r", "Resolve")}

# What the Bot API says of a chat that no bot can use. It has no other codes than those of HTTP.
GONE_CHATS = ("chat not found", "user not found", "peer_id_invalid", "chat_id is empty")
# Only for a change: the message is gone, or is as it should be.
GONE_MESSAGES = ("message to edit not found", "message can't be edited", "message_id_invalid")
UNCHANGED = "message is not modified"
# The message itself is the cause: an own template that is no HTML, or an address that is none for Telegram.
BAD_CONTENT = (
    "can't parse entities",
    "button_url_invalid",
    "wrong http url",
    "unsupported url protocol",
    "message is too long",
    "message_too_long",
    "text is empty",
)
MAX_PLAIN_TITLE = 1_000


class _BadContent(TemporaryError):
    """Telegram cannot show this message, but may show its title."""


class TelegramChannel(ApiChannel):
    """The Telegram channel with these settings."""

    name = NAME

    def __init__(self, settings: Settings, client: HttpClient | None = None) -> None:
        # One message may need two requests.
        super().__init__(settings, client or HttpClient(NAME, DEADLINE_S / 2))
        self._base = f"{settings.telegram_url}/bot{settings.telegram_token}"
        self._text = MessageText("telegram.html", settings.home)

    def format_example(self, message: OutgoingMessage) -> object:
        """Return what send() would submit, for docs/messages.md."""
        return build_body(message.content, self._text)

    def send(self, message: OutgoingMessage) -> Accepted:
        sent, reasons = self._submit("sendMessage", {"chat_id": message.to}, message)
        number = sent.get("message_id", "") if isinstance(sent, dict) else ""
        why = make_reason("provider_accepted", provider=NAME, code=200).add(*reasons)
        return Accepted(why, NAME, f"{message.to}:{number}")

    def change(self, provider_id: str, message: OutgoingMessage) -> None:
        """Replace the text and the buttons of a sent message. Raise a SendError."""
        chat, _, number = provider_id.partition(":")
        if chat != message.to:
            raise Refused(make_reason("contact_changed"), provider=NAME)
        self._submit("editMessageText", {"chat_id": chat, "message_id": int(number)}, message)

    def _submit(
        self, method: str, target: Mapping[str, object], message: OutgoingMessage
    ) -> tuple[object, list[Reason]]:
        """Submit a message, or its title and link if Telegram cannot show it.

        Return the result, and the reasons why there is only a title.
        """
        try:
            return self.call(method, {**target, **build_body(message.content, self._text)}, message.at), []
        except _BadContent as error:
            body = {**target, **build_plain_body(message.content)}
            return self.call(method, body, message.at), [error.reason]

    def call(self, method: str, body: object, now: datetime) -> object:
        """Call a method of the Bot API and return its result. Raise a SendError."""
        return read_result(self._client.request("POST", f"{self._base}/{method}", json=body), now)


def create_channel(settings: Settings) -> Channel:
    return TelegramChannel(settings)


def read_result(reply: HttpReply, now: datetime) -> object:
    """Return the result in an answer of the Bot API. Raise a SendError."""
    answer = reply.read_json()
    found: Mapping[str, object] = answer if isinstance(answer, dict) else {}
    if reply.is_success and found.get("ok") is True:
        return found.get("result")
    description = str(found.get("description", "")).lower()
    if reply.status == 400 and UNCHANGED in description:
        return None
    kind = _classify(reply.status, description)
    reason = _describe(kind, reply.status)
    raise kind(reason, provider=NAME, retry_after=_get_retry_after(reply, found, now))


def _describe(kind: type[SendError], status: int) -> Reason:
    if kind is Refused:
        return make_reason("provider_refuses", provider=NAME, code=status)
    if issubclass(kind, TemporaryError):
        return make_reason("provider_busy", provider=NAME, code=status)
    return make_reason("provider_failed", provider=NAME, code=status)


def _classify(status: int, description: str) -> type[SendError]:
    """Return the error: 403: the person blocked the bot. 401 and 404: the token is wrong."""
    if status == 403 or (status == 400 and any(text in description for text in GONE_CHATS + GONE_MESSAGES)):
        return Refused
    if status == 400 and any(text in description for text in BAD_CONTENT):
        return _BadContent
    return TemporaryError if status in (400, 409, 429) else RelayError


def _get_retry_after(reply: HttpReply, found: Mapping[str, object], now: datetime) -> timedelta | None:
    parameters = found.get("parameters")
    seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
    if isinstance(seconds, int) and seconds >= 0:
        return timedelta(seconds=min(seconds, 86_400))
    return reply.get_retry_after(now)


def build_body(content: MessageContent, text: MessageText) -> dict[str, object]:
    """Return the content as arguments of sendMessage and editMessageText."""
    return {
        "text": text.render(content).strip(),
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {
            "inline_keyboard": [row for link in content.links[:MAX_LINKS] for row in _rows(link)]
        },
    }


def build_plain_body(content: MessageContent) -> dict[str, object]:
    """Return the title, the first address as text, and the buttons that are no links."""
    address = content.links[0].url if content.links else ""
    text = "\n".join(filter(None, (shorten_text(content.title, MAX_PLAIN_TITLE), address)))
    rows = [buttons for link in content.links[:MAX_LINKS] if (buttons := _list_buttons(link))]
    return {
        "text": text,
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": rows},
    }


def _rows(link: LabelledLink) -> Iterator[list[dict[str, str]]]:
    """Yield the rows of buttons of a link."""
    if buttons := _list_buttons(link):
        yield buttons
    if is_public(link.url):
        text = link.button or ("Open" if link.note else link.text)
        yield [{"text": f"{text}{_get_number(link)}"[:64], "url": link.url}]


def _list_buttons(link: LabelledLink) -> list[dict[str, str]]:
    """Return a button for each action. Its data has at most 64 bytes."""
    return [
        {
            "text": f"{BUTTONS[action.name][1]}{_get_number(link)}",
            "callback_data": f"{BUTTONS[action.name][0]}:{action.notification}",
        }
        for action in link.actions
    ]


def _get_number(link: LabelledLink) -> str:
    """Return the number of an incident in a list, for its buttons; empty in a message about one."""
    return f" {link.text.split(' ', 1)[0]}" if link.note else ""


def is_public(url: str) -> bool:
    """Return whether Telegram accepts the address in a button: it refuses names without a dot."""
    host = url.partition("://")[2].partition("/")[0]
    return "." in host and not host.startswith("127.")
