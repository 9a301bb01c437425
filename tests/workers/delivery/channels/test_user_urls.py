"""The channels whose addresses are URLs of users, against servers on loopback."""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from models.contacts import messages
from models.domain.enums import ContactType, OtherContactType
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.keys import webhook_secrets
from models.store.ids import make_uuid
from models.tables.users import ContactMethod
from pipeline.messages.content import Action, LabelledLink, LabelledText, MessageContent
from runtime.settings import load
from tests.support.delivery.webhook_server import LOOPBACK, Answer, start_webhook_server
from workers.delivery.deliver import create_channel
from workers.delivery.transport.channel import (
    Accepted,
    OutgoingMessage,
    Refused,
    TemporaryError,
    UnusableAddress,
)

NAMES = ("teams", "google_chat", "mattermost", "discord", "webhook")
AT = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
PAGE = "https://tocsin.example.org/i/token"
CONTENT = MessageContent(
    "[Checkout] #1 Disk full (critical)",
    ("Disk full",),
    (LabelledText("Where", "Checkout"), LabelledText("How bad", "critical, high urgency")),
    (
        LabelledLink(
            "See it, acknowledge it or resolve it:", PAGE, "", (Action("acknowledge", "token", 7),),
            "Open the incident",
        ),
        LabelledLink("Runbook", "https://wiki.example.org/disk_(full)"),
    ),
    "The disk of db1 is full.",
    heading="Disk full",
    threads=("abc",),
    is_urgent=True,
)  # fmt: skip
HOSTILE = (
    "@everyone @channel @all <!channel> <users/all> <at>x</at> **b** [x](https://evil.example) <b>y</b>"
    " `c` ~s~"
)


@pytest.fixture
def server():
    with start_webhook_server() as server:
        yield server


@pytest.fixture
def send(server, store):
    """send(name): send a message over the channel to the server. Return what the provider answered."""
    settings = load({"TOCSIN_WEBHOOK_NETWORKS": ",".join(LOOPBACK)})

    def send(name, content=CONTENT, to=None, message_id="m1"):
        conn = create_channel(name, settings).create_connection()
        assert conn.open() is False
        try:
            return conn.send(OutgoingMessage(message_id, to or f"{server.url}/hook?key=a%20b", content, AT))
        finally:
            conn.close()

    return send


@pytest.mark.parametrize("name", NAMES)
def test_a_message_is_one_request_with_json(send, server, name):
    assert send(name) == Accepted(make_reason("url_accepted", code=200), name)

    (received,) = server.received
    assert received.path == "/hook?key=a%20b"
    assert received.headers["content-type"] == "application/json"
    assert "Disk full" in json.dumps(received.json)
    assert PAGE in json.dumps(received.json)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(400), Refused), (Answer(403), Refused), (Answer(404), UnusableAddress),
        (Answer(410), UnusableAddress),
        (Answer(413), TemporaryError), (Answer(500), TemporaryError),
        (Answer(429, {"Retry-After": "20"}), TemporaryError),
    ],
    ids=["400", "403", "404", "410", "413", "500", "429"],
)  # fmt: skip
def test_the_answer_decides_about_this_address_only(send, server, name, answer, error):
    server.responses = [answer]

    with pytest.raises(error) as raised:
        send(name)

    assert raised.value.provider == name
    if answer.status == 429:
        assert raised.value.retry_after == timedelta(seconds=20)


@pytest.mark.parametrize("name", NAMES)
def test_no_channel_requests_an_inner_address_by_default(server, store, name):
    conn = create_channel(name, load({})).create_connection()

    with pytest.raises(UnusableAddress):
        conn.send(OutgoingMessage("m1", server.url, CONTENT, AT))

    assert server.received == []


def build(name, **changes):
    channel = create_channel(name, load({}))
    return channel.format_example(OutgoingMessage("m1", PAGE, replace(CONTENT, **changes), AT))


HUGE = {
    "title": "ti*tle " * 1_000,
    "lines": ("li*ne " * 1_000,) * 10,
    "details": (LabelledText("la*bel" * 200, "va*lue" * 2_000),) * 60,
    "links": (LabelledLink("te*xt " * 1_000, f"{PAGE}/" + "x" * 200, "no*te " * 1_000),) * 100,
    "closing": "clo*sing\n" * 2_000,
}
EMPTY = {"lines": (), "details": (), "links": (), "closing": "", "heading": ""}


@pytest.mark.parametrize(
    ("name", "limit"), [("teams", 28_000), ("google_chat", 32_000), ("mattermost", 60_000)]
)
def test_a_body_has_at_most_as_many_bytes_as_the_provider_accepts(name, limit):
    body = build(name, **HUGE)

    assert len(msgspec.json.encode(body)) <= limit
    assert re.search(r"and \d+ more", json.dumps(body))
    wide = build(
        name,
        **{**HUGE, "closing": "\u706b" * 9_000, "details": (LabelledText("\u706b", "\u706b" * 900),) * 60},
    )
    assert len(msgspec.json.encode(wide)) <= limit


def test_a_message_in_mattermost_has_at_most_16383_characters():
    body = build("mattermost", **HUGE)
    (attachment,) = body["attachments"]

    assert len(body["text"]) <= 16_383
    assert len(attachment["text"]) <= 16_383


def test_an_embed_in_discord_keeps_all_limits():
    body = build("discord", **HUGE)
    (embed,) = body["embeds"]

    assert len(body["content"]) <= 2_000
    assert len(embed["description"]) <= 4_096
    assert set(embed) == {"description", "color"}


@pytest.mark.parametrize("name", NAMES)
def test_a_message_with_only_a_title_can_be_sent(name):
    assert "#1 Disk full" in json.dumps(build(name, **EMPTY)).replace("\\\\", "")


def test_discord_mentions_nobody():
    body = build("discord", title=HOSTILE, closing=HOSTILE)

    assert body["allowed_mentions"] == {"parse": []}
    assert "@everyone" not in json.dumps(body, ensure_ascii=False)
    assert "](https://evil.example)" not in body["embeds"][0]["description"].replace("\\]", "")


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("/api/webhooks/1/abc", "/api/v10/webhooks/1/abc"),
        ("/api/v6/webhooks/1/abc?thread_id=2", "/api/v10/webhooks/1/abc?thread_id=2"),
        ("/api/v9/webhooks/1/abc", "/api/v9/webhooks/1/abc"),
        ("/own/proxy", "/own/proxy"),
    ],
)
def test_discord_is_asked_for_a_version_that_names_delays_in_seconds(send, server, path, requested):
    send("discord", to=f"{server.url}{path}")

    assert server.received[0].path == requested


def test_mattermost_mentions_nobody_and_shows_marks_as_text():
    body = build("mattermost", title=HOSTILE, lines=(HOSTILE,), closing=HOSTILE)
    text = json.dumps(body, ensure_ascii=False)

    assert not any(word in text for word in ("@everyone", "@channel", "@all", "<!channel>"))
    assert r"\[x\](https" in body["attachments"][0]["text"]
    assert r"\*\*b\*\*" in body["text"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("2) a", r"2\) a"),
        ("# a", r"\# a"),
        ("> a", r"\> a"),
        ("=", r"\="),
    ],
)
def test_marks_at_the_start_of_a_text_are_shown(text, shown):
    assert build("mattermost", lines=(text,), closing="")["attachments"][0]["text"].startswith(shown)


def test_a_link_of_the_source_keeps_its_parentheses_inside():
    text = build("mattermost")["attachments"][0]["text"]

    assert "[Runbook](https://wiki.example.org/disk%5F%28full%29)" in text


def test_google_chat_shows_html_as_text_and_mentions_nobody():
    body = build("google_chat", title=HOSTILE, lines=(HOSTILE,), closing=HOSTILE)
    widgets = json.dumps(body["cardsV2"][0]["card"]["sections"])

    assert "<" not in body["text"]
    assert "<users/all>" not in widgets
    assert "&lt;b&gt;y&lt;/b&gt;" in widgets


def test_teams_shows_texts_in_runs_which_have_no_markdown():
    card = build("teams", title=HOSTILE)["attachments"][0]["content"]

    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert card["body"][0]["inlines"][0]["text"] == HOSTILE
    assert card["actions"][0] == {"type": "Action.OpenUrl", "title": "Open the incident", "url": PAGE}


def verify(secret, headers, body):
    """Verify a webhook as the Standard Webhooks specification describes it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret[len("whsec_") :], validate=True)
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


def test_a_webhook_is_signed_with_the_secret_of_its_contact(send, server, world, now):
    contact = ContactMethod.create(
        unique_id=make_uuid(), user=world.bob, name="Hook", contact_type=OtherContactType.WEBHOOK,
        value=server.url, creation_date=now,
    )  # fmt: skip
    message = messages.create_message(
        world.bob, "Bob", now, contact=contact, channel=OtherContactType.WEBHOOK
    )
    webhook_secrets.replace_contact_secret(contact)
    secret = webhook_secrets.replace_contact_secret(contact)

    send("webhook", message_id=message.message_id)

    (received,) = server.received
    assert received.headers["webhook-id"] == message.message_id
    assert received.headers["webhook-timestamp"] == str(int(AT.timestamp()))
    assert verify(secret, received.headers, received.body)
    assert not verify(webhook_secrets.create_secret(), received.headers, received.body)
    data = received.json["data"]
    assert (received.json["type"], data["title"], data["incidents"]) == ("message", CONTENT.title, ["abc"])
    assert data["links"][0]["actions"] == ["acknowledge"]


def test_a_webhook_without_a_secret_is_not_signed(send, server):
    send("webhook")

    assert "webhook-signature" not in server.received[0].headers


def test_contact_types_of_the_contract_keep_their_numbers():
    assert (ContactType.MS_TEAMS, ContactType.GOOGLE_CHAT) == (5, 6)
