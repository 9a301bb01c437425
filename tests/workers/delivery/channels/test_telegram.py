"""Messages in Telegram: what the Bot API gets, what its answers mean, and what hostile texts become."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.messages.content import Action, LabelledLink, LabelledText, MessageContent
from runtime.settings import load
from tests.support.delivery.chat_servers import start_telegram
from workers.delivery.channels.telegram import build_body, create_channel
from workers.delivery.transport.channel import OutgoingMessage, Refused, RelayError, TemporaryError
from workers.delivery.transport.texts import MessageText

TEXT = MessageText("telegram.html")
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
ACTIONS = (Action("acknowledge", "abc", 12), Action("resolve", "abc", 12))
PAGE = LabelledLink(
    "See it:", "https://tocsin.example.org/i/abc", actions=ACTIONS, button="Open the incident"
)
CONTENT = MessageContent(
    "[Checkout] #1 Disk full (critical)",
    ("Disk full",),
    (LabelledText("Where", "Checkout"),),
    (PAGE,),
    heading="Disk full",
)


@pytest.fixture(scope="module")
def server():
    with start_telegram() as server:
        yield server


@pytest.fixture
def channel(server):
    server.calls.clear()
    settings = {"TOCSIN_TELEGRAM_TOKEN": server.token, "TOCSIN_TELEGRAM_URL": server.url}
    return create_channel(load(settings))


def build_message(content=CONTENT, to="4711"):
    return OutgoingMessage("m1", to, content, NOON)


def test_a_message_has_html_buttons_and_a_link(channel, server):
    accepted = channel.send(build_message())

    ((method, sent),) = server.calls
    assert (method, sent["chat_id"], sent["parse_mode"]) == ("sendMessage", "4711", "HTML")
    assert sent["text"] == "<b>[Checkout] #1 Disk full (critical)</b>\n\nWhere: Checkout"
    assert sent["reply_markup"]["inline_keyboard"] == [
        [{"text": "Acknowledge", "callback_data": "a:12"}, {"text": "Resolve", "callback_data": "r:12"}],
        [{"text": "Open the incident", "url": PAGE.url}],
    ]
    assert (accepted.provider, accepted.provider_id) == ("telegram", "4711:1")


def test_a_change_replaces_the_sent_message(channel, server):
    channel.change("4711:1", build_message())

    ((method, sent),) = server.calls
    assert (method, sent["chat_id"], sent["message_id"]) == ("editMessageText", "4711", 1)


def test_a_contact_that_was_linked_elsewhere_gets_no_change_in_its_old_chat(channel, server):
    with pytest.raises(Refused):
        channel.change("99:1", build_message())

    assert server.calls == []


def test_a_change_that_changes_nothing_is_no_error(channel, server):
    text = "Bad Request: message is not modified: specified new message content is exactly the same"
    server.prepared["editMessageText"] = [(400, {}, {"ok": False, "error_code": 400, "description": text})]

    channel.change("4711:1", build_message())


@pytest.mark.parametrize(
    ("status", "description", "kind"),
    [
        (403, "Forbidden: bot was blocked by the user", Refused),
        (400, "Bad Request: chat not found", Refused),
        (400, "Bad Request: message to edit not found", Refused),
        (400, "Bad Request: something new", TemporaryError),
        (401, "Unauthorized", RelayError),
        (404, "Not Found", RelayError),
        (502, "Bad Gateway", RelayError),
    ],
)
def test_an_error_is_permanent_temporary_or_one_of_the_settings(channel, server, status, description, kind):
    body = {"ok": False, "error_code": status, "description": description}
    server.prepared["sendMessage"] = [(status, {}, body)]

    with pytest.raises(kind) as raised:
        channel.send(build_message())

    assert type(raised.value) is kind
    assert description not in str(raised.value.reason)


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
@pytest.mark.parametrize(
    "description",
    [
        "Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"b\"",
        "Bad Request: BUTTON_URL_INVALID",
        "Bad Request: inline keyboard button URL 'http://db1' is invalid: Wrong HTTP URL",
        "Bad Request: message is too long",
    ],
)
def test_what_telegram_cannot_show_is_sent_as_a_title_with_a_link_and_buttons(
    channel, server, method, description
):
    body = {"ok": False, "error_code": 400, "description": description}
    server.prepared[method] = [(400, {}, body)]

    if method == "sendMessage":
        assert str(channel.send(build_message()).reason).endswith("does not accept the message now (400).")
    else:
        channel.change("4711:1", build_message())

    (_, whole), (_, plain) = server.calls
    assert (plain["chat_id"], plain["text"]) == ("4711", f"{CONTENT.title}\n{PAGE.url}")
    assert "parse_mode" not in plain
    assert plain.get("message_id") == whole.get("message_id")
    assert plain["reply_markup"]["inline_keyboard"] == [whole["reply_markup"]["inline_keyboard"][0]]


def test_a_message_that_telegram_cannot_show_at_all_is_tried_again(channel, server):
    body = {"ok": False, "error_code": 400, "description": "Bad Request: BUTTON_URL_INVALID"}
    server.prepared["sendMessage"] = [(400, {}, body), (400, {}, body)]

    with pytest.raises(TemporaryError):
        channel.send(build_message())

    assert len(server.calls) == 2


def test_telegram_says_how_long_it_is_busy(channel, server):
    body = {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests",
        "parameters": {"retry_after": 35},
    }
    server.prepared["sendMessage"] = [(429, {}, body)]

    with pytest.raises(TemporaryError) as raised:
        channel.send(build_message())

    assert raised.value.retry_after == timedelta(seconds=35)


def test_hostile_and_long_texts_are_escaped_and_fit():
    hostile = "<b>x</b><a href='https://evil.example'>&" * 200
    link = LabelledLink(f"#1 {hostile}", PAGE.url, hostile, ACTIONS)
    details = tuple(LabelledText(hostile, hostile) for _ in range(20))
    body = build_body(MessageContent(hostile, (hostile,), details, (link,) * 100, hostile, hostile), TEXT)

    plain = body["text"].replace("<b>", "", 1).replace("</b>", "", 1)
    assert "<" not in plain
    read = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'").replace("&amp;", "&")
    assert len(read) <= 4_096
    rows = body["reply_markup"]["inline_keyboard"]
    assert sum(len(row) for row in rows) <= 100
    assert all(len(button.get("callback_data", "").encode()) <= 64 for row in rows for button in row)


def test_an_address_that_telegram_refuses_is_no_button():
    local = LabelledLink("Open", "http://localhost:8080/i/abc", actions=ACTIONS)
    rows = build_body(MessageContent("t", (), links=(local,)), TEXT)["reply_markup"]["inline_keyboard"]

    assert [[button["text"] for button in row] for row in rows] == [["Acknowledge", "Resolve"]]


def test_a_channel_without_a_token_names_the_setting():
    assert create_channel(load({})).find_missing_setting() == "set TOCSIN_TELEGRAM_TOKEN"
