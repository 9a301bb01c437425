"""The ntfy channel with a server on loopback: what it publishes, and what its answers mean."""

from datetime import timedelta

import pytest

from runtime.settings import load
from tests.support.delivery.messages import (
    PUBLIC_URL,
    TOKEN,
    build_group,
    build_hostile,
    build_message,
    build_single,
)
from tests.support.delivery.webhook_server import start_webhook_server
from workers.delivery.channels.ntfy import NtfyChannel
from workers.delivery.transport.channel import (
    Refused,
    RelayError,
    TemporaryError,
    UnusableAddress,
)


@pytest.fixture
def ntfy():
    with start_webhook_server() as running:
        running.answer(200, {"id": "xE73Iyuabi", "event": "message"})
        yield running


def build_channel(server: str, **settings: str) -> NtfyChannel:
    values = {"PUBLIC_URL": PUBLIC_URL, "NTFY_URL": server, "WEBHOOK_NETWORKS": "127.0.0.0/8", **settings}
    return NtfyChannel(load({f"TOCSIN_{name}": value for name, value in values.items()}))


def publish(ntfy, content, to="oncall-alice", **settings):
    return build_channel(ntfy.url, **settings).send(build_message(content, to))


def test_an_incident_is_published_with_buttons(ntfy):
    accepted = publish(ntfy, build_single(), NTFY_TOKEN="tk_secret")

    (request,) = ntfy.received
    assert (request.method, request.path) == ("POST", "/")
    assert request.headers["authorization"] == "Bearer tk_secret"
    assert request.json == {
        "topic": "oncall-alice",
        "sequence_id": "c0ffee" * 8,
        "title": "[Checkout] #12 Disk full on db1 (critical)",
        "message": (
            "Checkout, critical, high urgency\n"
            "Since Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)\n"
            "Why you: named by step 1 of policy Default\n"
            "Also notified: Bob\n"
            "Next, in 5 min: Carol\n"
            "\n"
            "97% of /var is used."
        ),
        "priority": 5,
        "tags": ["rotating_light"],
        "click": f"{PUBLIC_URL}/i/{TOKEN}",
        "actions": [
            {
                "action": "http", "label": "Acknowledge", "method": "POST", "clear": True,
                "url": f"{PUBLIC_URL}/callbacks/ntfy/{TOKEN}/acknowledge/",
            },
            {
                "action": "http", "label": "Resolve", "method": "POST", "clear": True,
                "url": f"{PUBLIC_URL}/callbacks/ntfy/{TOKEN}/resolve/",
            },
            {"action": "view", "label": "Open the incident", "url": f"{PUBLIC_URL}/i/{TOKEN}"},
        ],
    }  # fmt: skip
    assert (str(accepted.reason), accepted.provider, accepted.provider_id) == (
        "Accepted by ntfy (200).", "ntfy", "xE73Iyuabi",
    )  # fmt: skip


def test_a_message_about_five_incidents_opens_the_first_three(ntfy):
    publish(ntfy, build_group(5))

    sent = ntfy.received[0].json
    assert [(each["action"], each["label"]) for each in sent["actions"]] == [
        ("view", f"#{number} Disk full on db1") for number in (12, 13, 14)
    ]
    assert "#16 Disk full on db1" in sent["message"]


@pytest.mark.parametrize("content", [build_hostile(), build_group(100)], ids=["hostile", "many"])
def test_a_long_message_keeps_the_limits_of_phones(ntfy, content):
    publish(ntfy, content)

    (request,) = ntfy.received
    assert len(request.body) < 4_096
    assert len(request.json["title"]) <= 200
    assert len(request.json["actions"]) <= 3


def test_the_address_may_be_a_url_which_gets_no_token(ntfy):
    publish(
        ntfy, build_single(), f"{ntfy.url}/push/team-a", NTFY_URL="https://ntfy.example.org", NTFY_TOKEN="x"
    )

    (request,) = ntfy.received
    assert (request.path, request.json["topic"]) == ("/push/", "team-a")
    assert "authorization" not in request.headers


def test_a_message_that_is_sent_twice_replaces_the_first(ntfy):
    for _ in range(2):
        publish(ntfy, build_single())

    assert len({request.json["sequence_id"] for request in ntfy.received}) == 1


@pytest.mark.parametrize(
    "to", ["", "two words", "https://ntfy.sh/", "ftp://ntfy.sh/topic", "https://a:b@ntfy.sh/t"]
)
def test_an_address_that_is_no_topic_is_unusable(ntfy, to):
    with pytest.raises(UnusableAddress, match="not the URL or the name of a topic"):
        publish(ntfy, build_single(), to)

    assert ntfy.received == []


@pytest.mark.parametrize(
    ("status", "token", "own", "users"),
    [
        (400, "", Refused, Refused),
        (401, "", Refused, Refused),
        (401, "tk", RelayError, Refused),
        (403, "tk", Refused, Refused),
        (429, "", TemporaryError, TemporaryError),
        (500, "", RelayError, TemporaryError),
        (302, "", RelayError, TemporaryError),
        (507, "", TemporaryError, TemporaryError),
    ],
)
def test_the_server_of_a_user_stops_no_other_messages(ntfy, status, token, own, users):
    ntfy.answer(status, retry_after="7")
    channel = build_channel(ntfy.url, NTFY_TOKEN=token)
    other = build_channel("https://ntfy.example.org", NTFY_TOKEN=token)

    with pytest.raises(own) as by_own:
        channel.send(build_message(build_single(), "topic"))
    with pytest.raises(users) as by_users:
        other.send(build_message(build_single(), f"{ntfy.url}/topic"))

    for error in (by_own.value, by_users.value):
        assert error.provider == "ntfy"
        assert "topic" not in str(error).replace("The topic may not", "")
    if status == 429:
        assert by_own.value.retry_after == timedelta(seconds=7)


def test_a_user_cannot_reach_the_networks_of_the_operator(ntfy):
    message = build_message(build_single(), f"{ntfy.url}/topic")
    with pytest.raises(UnusableAddress, match="The URL is not allowed"):
        build_channel("https://ntfy.example.org", WEBHOOK_NETWORKS="").send(message)
    assert ntfy.received == []
    # The server of the settings may be there.
    build_channel(ntfy.url, WEBHOOK_NETWORKS="").send(message)
    assert len(ntfy.received) == 1


def test_a_server_that_does_not_answer_is_a_temporary_error_of_a_user():
    with start_webhook_server() as stopped:
        pass
    with pytest.raises(TemporaryError, match="The host closed or refused"):
        build_channel("https://ntfy.example.org").send(build_message(build_single(), f"{stopped.url}/topic"))
    with pytest.raises(RelayError, match="No connection to ntfy"):
        build_channel(stopped.url).send(build_message(build_single(), "topic"))
