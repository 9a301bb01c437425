"""Messages in Slack: what the Web API gets, what its answers mean, and what hostile texts become."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.messages.content import Action, LabelledLink, LabelledText, MessageContent
from runtime.settings import load
from tests.support.delivery.chat_servers import start_slack
from workers.delivery.channels.slack import SlackChannel, build_body, create_channel
from workers.delivery.transport.channel import (
    OutgoingMessage,
    Refused,
    RelayError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.texts import MessageText

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
PAGE = LabelledLink(
    "See it:",
    "https://tocsin.example.org/i/abc",
    actions=(Action("acknowledge", "abc", 12), Action("resolve", "abc", 12)),
    button="Open the incident",
)
CONTENT = MessageContent(
    "[Checkout] #1 Disk full (critical)",
    ("Disk full",),
    (LabelledText("Where", "Checkout"), LabelledText("host", "db1")),
    (PAGE,),
    "97% of /var",
    foot="trace_id: 1",
    heading="Disk full",
)


@pytest.fixture(scope="module")
def server():
    with start_slack() as server:
        yield server


@pytest.fixture
def channel(server):
    server.calls.clear()
    return create_channel(load({"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1", "TOCSIN_SLACK_URL": f"{server.api}/"}))


def build_message(content=CONTENT, to="U0ALICE01"):
    return OutgoingMessage("m1", to, content, NOON)


def test_a_message_has_a_header_a_text_buttons_and_a_link(channel, server):
    accepted = channel.send(build_message())

    ((method, sent),) = server.calls
    assert (method, sent["channel"], server.tokens) == ("chat.postMessage", "U0ALICE01", {"xoxb-1"})
    assert sent["text"] == CONTENT.title
    kinds = [block["type"] for block in sent["blocks"]]
    assert kinds == ["header", "section", "actions"]
    assert sent["blocks"][1]["text"]["text"] == (
        "*Where:* Checkout\n*host:* db1\n\n97% of /var\n\ntrace_id: 1"
    )
    buttons = sent["blocks"][2]["elements"]
    assert [button["text"]["text"] for button in buttons] == ["Acknowledge", "Resolve", "Open the incident"]
    assert [button.get("action_id") for button in buttons] == ["acknowledge:12", "resolve:12", None]
    assert (buttons[0]["value"], buttons[2]["url"]) == ("12", PAGE.url)
    assert (accepted.provider, accepted.provider_id) == ("slack", "D0ALICE01:1700000000.000001")


def test_a_change_replaces_the_sent_message(channel, server):
    channel.change("D0ALICE01:1700000000.000001", build_message())

    ((method, sent),) = server.calls
    assert (method, sent["channel"], sent["ts"]) == ("chat.update", "D0ALICE01", "1700000000.000001")
    assert sent["blocks"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("channel_not_found", Refused),
        ("user_disabled", Refused),
        ("restricted_action_thread_only_channel", Refused),
        ("message_not_found", Refused),
        ("block_mismatch", Refused),
        ("invalid_channel", UnusableAddress),
        ("no_permission", TemporaryError),
        ("access_denied", TemporaryError),
        ("team_access_not_granted", TemporaryError),
        ("team_not_found", TemporaryError),
        ("internal_error", TemporaryError),
        ("fatal_error", TemporaryError),
        ("invalid_auth", RelayError),
        ("account_inactive", RelayError),
        ("missing_scope", RelayError),
        ("team_added_to_org", RelayError),
        ("method_deprecated", RelayError),
        ("msg_too_long", TemporaryError),
        ("a_new_error", TemporaryError),
    ],
)
def test_an_error_of_slack_is_permanent_temporary_or_one_of_the_settings(channel, server, error, kind):
    server.prepared["chat.postMessage"] = [(200, {}, {"ok": False, "error": error})]

    with pytest.raises(kind) as raised:
        channel.send(build_message())

    assert type(raised.value) is kind
    assert str(raised.value.reason) == f"slack answered {error}."


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "seconds"),
    [
        (429, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}, TemporaryError, 30),
        (200, {"Retry-After": "7"}, {"ok": False, "error": "ratelimited"}, TemporaryError, 7),
        (503, {}, {}, RelayError, None),
        (200, {}, "no object", RelayError, None),
    ],
)
def test_slack_may_ask_for_patience_or_fail(channel, server, status, headers, body, kind, seconds):
    server.prepared["chat.postMessage"] = [(status, headers, body)]

    with pytest.raises(kind) as raised:
        channel.send(build_message())

    assert raised.value.retry_after == (None if seconds is None else timedelta(seconds=seconds))


def test_an_unknown_error_shows_only_a_word(channel, server):
    server.prepared["chat.postMessage"] = [(200, {}, {"ok": False, "error": "<token xoxb-1>"})]

    with pytest.raises(TemporaryError) as raised:
        channel.send(build_message())

    assert "xoxb" not in str(raised.value.reason)


def test_hostile_texts_mention_nobody_and_make_no_links():
    hostile = "<!channel> <@U1> <https://evil.example|click> & @here"
    content = MessageContent(
        hostile,
        (hostile,),
        (LabelledText(hostile, hostile),),
        (LabelledLink("Open", PAGE.url),),
        hostile,
        hostile,
    )
    body = build_body(content, MessageText("slack.txt"))

    header, *rest = body["blocks"]
    assert header["text"]["type"] == "plain_text"
    texts = [body["text"], json.dumps(rest)]
    assert not any(sign in text for text in texts for sign in ("<", ">"))
    assert all(block["text"]["verbatim"] for block in rest if "text" in block)


def test_long_texts_and_many_incidents_stay_within_the_limits_of_block_kit():
    link = LabelledLink("#1 " + "x" * 4_000, PAGE.url, "note " * 1_000, PAGE.actions)
    details = tuple(LabelledText("l" * 200, "&" * 5_000) for _ in range(23))
    body = build_body(
        MessageContent("t" * 5_000, ("y" * 900,), details, (link,) * 100, "&" * 9_000, foot="f" * 9_000),
        MessageText("slack.txt"),
    )

    blocks = body["blocks"]
    assert len(blocks) <= 50
    assert len(body["text"]) <= 4_000
    assert len(blocks[0]["text"]["text"]) <= 150
    assert all(len(block["text"]["text"]) <= 3_000 for block in blocks if "text" in block)
    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    assert "*llll" in sections[0]
    # No entity is cut.
    assert all(text.replace("&amp;", "").count("&") == 0 for text in sections)
    # Slack does not say how much all blocks may have. It refused 13,200 characters (slackapi/bolt-js#2509).
    assert sum(map(len, sections)) <= 12_500
    assert sections[-1] == f"and {100 - len(sections) + 2} more"


def test_a_channel_without_a_token_names_the_setting():
    assert SlackChannel(load({})).find_missing_setting() == "set TOCSIN_SLACK_BOT_TOKEN"
