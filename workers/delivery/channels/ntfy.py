"""Publish messages to topics of ntfy, which shows them on phones, with buttons.

A contact's address is the URL of a topic, or the name of a topic on the server of the settings. Only requests
to that server contain the token of the settings.

ntfy replaces a notification by a later one with the same sequence_id. That is the id of our message, so a
message that is sent twice is shown once.
"""

import re
from datetime import datetime
from urllib.parse import urlsplit

from models.domain.reasons import make_reason
from pipeline.messages.content import Action, LabelledLink, MessageContent
from pipeline.messages.shortening import shorten_text
from runtime.settings import Settings
from workers.delivery.transport.channel import (
    Accepted,
    Channel,
    HostError,
    OutgoingMessage,
    Refused,
    RelayError,
    SendError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.http import HttpClient, HttpReply, raise_for_status
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient
from workers.delivery.transport.user_url_channel import get_host

PROVIDER = "ntfy"
# ntfy's own limit is more, but phones show about 50.
MAX_TITLE = 200
# The server refuses more.
MAX_ACTIONS = 3
# Of 1 to 5: 5 rings through "do not disturb" if the phone allows it.
PRIORITY_URGENT, PRIORITY_NORMAL = 5, 3

_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")
_LABELS = {"acknowledge": "Acknowledge", "resolve": "Resolve"}


class NtfyChannel:
    """The ntfy channel with these settings. The channel is its own connection: each request has a new one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = HttpClient(PROVIDER)
        self._users_client = UserUrlClient(PROVIDER, UserHosts(settings.webhook_networks))
        self._text = MessageText("ntfy.txt", settings.home)

    def find_missing_setting(self) -> str | None:
        return None

    def get_host(self, to: str) -> str:
        return get_host(_split_address(to, self._settings.ntfy_url)[0])

    def create_connection(self) -> "NtfyChannel":
        return self

    def open(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def send(self, message: OutgoingMessage) -> Accepted:
        server, topic = _split_address(message.to, self._settings.ntfy_url)
        is_own = server == self._settings.ntfy_url
        token = self._settings.ntfy_token if is_own else ""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = {"topic": topic, "sequence_id": message.message_id, **self._build_body(message.content)}
        client = self._client if is_own else self._users_client
        try:
            reply = client.request("POST", f"{server}/", headers=headers, json=body)
            _raise_for_status(reply, message.at, has_token=bool(token))
        except RelayError as error:
            if is_own:
                raise
            # The server belongs to a user. It must not stop the messages of others.
            raise HostError(error.reason, provider=PROVIDER, retry_after=error.retry_after) from error
        answer = reply.read_json()
        provider_id = str(answer.get("id") or "") if isinstance(answer, dict) else ""
        reason = make_reason("provider_accepted", provider=PROVIDER, code=reply.status)
        return Accepted(reason, PROVIDER, provider_id[:128])

    def _build_body(self, content: MessageContent) -> dict[str, object]:
        body: dict[str, object] = {
            "title": shorten_text(content.title, MAX_TITLE),
            "message": self._text.render(content).strip() or content.title,
            "priority": PRIORITY_URGENT if content.is_urgent else PRIORITY_NORMAL,
        }
        if content.is_urgent:
            body["tags"] = ["rotating_light"]
        if content.links:
            body["click"] = content.links[0].url
            body["actions"] = list_actions(content, self._settings.public_url)
        return body

    def format_example(self, message: OutgoingMessage) -> object:
        """Return what send() would publish, for docs/messages.md."""
        return {"topic": "oncall-alice", **self._build_body(message.content)}


def create_channel(settings: Settings) -> Channel:
    return NtfyChannel(settings)


def list_actions(content: MessageContent, public_url: str) -> list[dict[str, object]]:
    """Return the buttons of a message: those of its only incident, or links to the first incidents."""
    with_actions = [link for link in content.links if link.actions]
    if len(with_actions) > 1:
        return [_open(link) for link in with_actions[:MAX_ACTIONS]]
    link = with_actions[0] if with_actions else content.links[0]
    buttons = [_call(action, public_url) for action in link.actions[: MAX_ACTIONS - 1]]
    return [*buttons, _open(link)]


def _call(action: Action, public_url: str) -> dict[str, object]:
    """Return a button with which the phone itself sends a request. ntfy then removes the notification."""
    return {
        "action": "http",
        "label": _LABELS[action.name],
        "url": f"{public_url}/callbacks/ntfy/{action.token}/{action.name}/",
        "method": "POST",
        "clear": True,
    }


def _open(link: LabelledLink) -> dict[str, object]:
    label = link.button or shorten_text(link.text, 40) or "Open"
    return {"action": "view", "label": label, "url": link.url}


def _split_address(address: str, own_server: str) -> tuple[str, str]:
    """Return the server without a slash at its end, and the topic. Raise UnusableAddress."""
    if _TOPIC.fullmatch(address):
        return own_server, address
    server, _, topic = address.rstrip("/").rpartition("/")
    try:
        url = urlsplit(server)
        is_url = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url or url.username is not None or not _TOPIC.fullmatch(topic):
        raise UnusableAddress(make_reason("not_a_topic"), provider=PROVIDER)
    return server, topic


def _raise_for_status(reply: HttpReply, at: datetime, *, has_token: bool) -> None:
    """Raise the error of an answer that is no success. 403 is about one topic, others have other rights."""
    if reply.status == 403 or (reply.status == 401 and not has_token):
        reason = make_reason("topic_forbidden", code=reply.status)
        raise Refused(reason, provider=PROVIDER)
    if reply.status == 507:
        reason = make_reason("provider_busy", provider=PROVIDER, code=reply.status)
        raise TemporaryError(reason, provider=PROVIDER, retry_after=reply.get_retry_after(at))
    try:
        raise_for_status(reply, PROVIDER, at)
    except SendError as error:
        error.provider = PROVIDER
        raise
