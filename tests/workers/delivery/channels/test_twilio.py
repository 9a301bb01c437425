"""SMS and calls against a real server with the interface of Twilio, which also fails in many ways."""

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.messages.calls import MAX_SPOKEN
from pipeline.messages.content import Action, LabelledLink, MessageContent
from runtime.settings import load
from tests.support.delivery.messages import build_hostile, build_single
from tests.support.delivery.twilio_server import NUMBER, SID, SILENT, SLOW, TOKEN, Refusal, start_twilio
from workers.delivery.channels import phone, sms
from workers.delivery.transport.channel import (
    OutgoingMessage,
    Refused,
    RelayError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.http import HttpClient

LINK = LabelledLink("Open", "https://x", actions=(Action("acknowledge", "t"), Action("resolve", "t")))
CONTENT = MessageContent("[Checkout] #1 Disk <full> & more", ("Disk full",), links=(LINK,))
ACCEPTED = make_reason("provider_accepted", provider="twilio", code=201)


def settings(first, second=None, **more):
    each = {"SMS_FROM": NUMBER, "CALL_FROM": NUMBER, "ACCOUNT_SID": SID, "AUTH_TOKEN": TOKEN}
    own = {f"TOCSIN_TWILIO_{name}": value for name, value in {"URL": first.url, **each}.items()}
    other = (
        {f"TOCSIN_TWILIO2_{name}": value for name, value in {"URL": second.url, **each}.items()}
        if second
        else {}
    )
    return load({"TOCSIN_PUBLIC_URL": "https://tocsin.example.org", **own, **other, **more})


@pytest.fixture
def twilio():
    with start_twilio() as server:
        yield server


@pytest.fixture
def second():
    with start_twilio() as server:
        yield server


@pytest.fixture
def message(now):
    return OutgoingMessage("id", "+46701234567", CONTENT, now, "K7PM")


def send(channel, message):
    return channel.create_connection().send(message)


def test_an_sms_names_its_sender_and_where_its_status_is_reported(twilio, message):
    accepted = send(sms.create_channel(settings(twilio)), message)

    (created,) = twilio.created
    assert (accepted.reason, accepted.provider, accepted.provider_id) == (ACCEPTED, "twilio", created.sid)
    assert created.fields == {
        "To": "+46701234567",
        "From": NUMBER,
        "Body": "[Checkout] #1 Disk <full> & more\nReply 1 K7PM = acknowledge, 2 K7PM = resolve\nhttps://x",
        "StatusCallback": "https://tocsin.example.org/callbacks/twilio/sms/status/",
    }


def test_a_messaging_service_can_send_sms(twilio, message):
    service = f"MG{'2' * 32}"
    send(sms.create_channel(settings(twilio, TOCSIN_TWILIO_SMS_FROM=service)), message)

    fields = twilio.created[0].fields
    assert (fields["MessagingServiceSid"], "From" in fields) == (service, False)


def test_a_call_asks_for_a_key(twilio, message):
    send(phone.create_channel(settings(twilio)), message)

    (created,) = twilio.created
    assert "Checkout. number 1 Disk full and more. Press 1 to acknowledge, 2 to resolve" in created.hear()
    gather = ElementTree.fromstring(created.fields["Twiml"]).find("Gather")
    assert gather.attrib["action"] == "https://tocsin.example.org/callbacks/twilio/phone/digits/?step=1"
    assert created.fields["Timeout"] == "25"


def test_a_call_about_one_incident_says_since_when_who_else_and_what_is_next(twilio, message):
    send(phone.create_channel(settings(twilio)), replace(message, content=build_single()))

    heard = twilio.created[0].hear()
    assert "Since Wed 13:00 CET. Also notified: Bob. Next, in 5 min: Carol. Press 1" in heard


def test_a_call_is_short_whatever_the_texts_are(twilio, message):
    send(phone.create_channel(settings(twilio)), replace(message, content=build_hostile()))

    heard = twilio.created[0].hear()
    assert len(heard) < 2 * (MAX_SPOKEN + 100)
    assert "Press 1 to acknowledge" in heard


def test_a_call_without_incidents_asks_nothing(twilio, message, now):
    content = MessageContent("[Tocsin] Code 123456", ("Hello Bob,",))
    send(phone.create_channel(settings(twilio)), OutgoingMessage("id", "+46701234567", content, now))

    assert twilio.created[0].hear() == "Tocsin. Code 1, 2, 3, 4, 5, 6. Hello Bob,."
    assert "Gather" not in twilio.created[0].twiml


NUMBER_REFUSED, SETTINGS_REFUSED = "cannot use this number: ", "refuses the settings: "


@pytest.mark.parametrize(
    ("refusal", "error", "reason"),
    [
        (Refusal(400, 21211), UnusableAddress, f"{NUMBER_REFUSED}it is not valid (21211)."),
        (Refusal(400, 21610), UnusableAddress, f"{NUMBER_REFUSED}its owner has sent STOP (21610)."),
        (Refusal(400, 21614), UnusableAddress, f"{NUMBER_REFUSED}it is not a mobile number (21614)."),
        (
            Refusal(403, 21408),
            Refused,
            f"{NUMBER_REFUSED}SMS to this country are not enabled in the account (21408).",
        ),
        (
            Refusal(400, 21606),
            Refused,
            f"{NUMBER_REFUSED}the sender cannot send SMS to this number (21606).",
        ),
        (Refusal(401, 20003), RelayError, "refuses the credentials in the settings (401)."),
        (Refusal(403, 20003), RelayError, "refuses the credentials in the settings (403)."),
        (Refusal(403), RelayError, "refuses the credentials in the settings (403)."),
        (Refusal(403, 21264), Refused, "refuses the message (21264)."),
        (Refusal(429, 20429), TemporaryError, "does not accept the message now (429)."),
        (Refusal(400, 99999), Refused, "refuses the message (400)."),
        (Refusal(500), RelayError, "cannot be used now (500)."),
        (Refusal(503, breaks_off=True), RelayError, "cannot be used now (503)."),
    ],
)
def test_each_refusal_is_an_error_with_its_cause(twilio, message, refusal, error, reason):
    twilio.refusals.append(refusal)
    with pytest.raises(error) as caught:
        send(sms.create_channel(settings(twilio)), message)

    assert (type(caught.value), str(caught.value.reason), caught.value.provider) == (
        error,
        f"twilio {reason}",
        "twilio",
    )


def test_an_acceptance_that_breaks_off_is_not_sent_again(twilio, message):
    twilio.refusals.append(Refusal(201, breaks_off=True))
    accepted = send(sms.create_channel(settings(twilio)), message)

    assert (accepted.reason, accepted.provider, accepted.provider_id) == (ACCEPTED, "twilio", "")


def test_a_provider_says_when_to_try_again(twilio, message):
    twilio.refusals.append(Refusal(429, 20429, {"Retry-After": "90"}))
    with pytest.raises(TemporaryError) as caught:
        send(sms.create_channel(settings(twilio)), message)

    assert caught.value.retry_after == timedelta(seconds=90)


@pytest.mark.parametrize("hang", [SILENT, SLOW], ids=["silent", "slow"])
def test_a_provider_that_hangs_takes_no_more_than_its_time(twilio, message, hang):
    twilio.refusals.append(hang)
    channel = sms.create_channel(settings(twilio))
    channel.deadline_s = 0.2
    with pytest.raises(RelayError) as caught:
        send(channel, message)

    assert caught.value.reason == make_reason("provider_silent", provider="twilio", within="0.2")


@pytest.mark.parametrize(
    "refusal", [Refusal(500), Refusal(429, 20429), Refusal(403, 21408), Refusal(401), SILENT]
)
def test_the_second_provider_takes_what_the_first_does_not(twilio, second, message, refusal):
    twilio.refusals.append(refusal)
    channel = sms.create_channel(settings(twilio, second))
    if refusal is SILENT:
        # The second provider has its full time.
        channel._providers[0].client = HttpClient("twilio", 0.2)
    accepted = send(channel, message)

    assert (accepted.provider, accepted.provider_id) == ("twilio2", second.created[0].sid)
    assert str(accepted.reason).startswith("Accepted by twilio2 (201). ")
    assert "twilio" in str(accepted.reason.more[0])


def test_a_number_that_nobody_can_use_is_not_tried_twice(twilio, second, message):
    twilio.refusals.append(Refusal(400, 21610))
    with pytest.raises(UnusableAddress):
        send(sms.create_channel(settings(twilio, second)), message)

    assert second.requests == 0


def test_a_provider_that_is_down_is_not_tried_first_for_a_minute(twilio, second, message):
    channel = sms.create_channel(settings(twilio, second))
    clock = [0.0]
    channel.clock = lambda: clock[0]
    twilio.refusals.append(Refusal(500))
    for at in (0.0, 1.0, 59.0):
        clock[0] = at
        assert send(channel, message).provider == "twilio2"
    assert twilio.requests == 1

    clock[0] = 61.0
    assert send(channel, message).provider == "twilio"


def test_if_both_are_down_each_message_tries_both(twilio, second, message):
    channel = sms.create_channel(settings(twilio, second))
    twilio.refusals += [Refusal(500)] * 2
    second.refusals += [Refusal(503)] * 2
    for _ in range(2):
        with pytest.raises(RelayError):
            send(channel, message)

    assert (twilio.requests, second.requests) == (2, 2)
    assert send(channel, message).provider == "twilio"


def test_no_error_contains_the_number_or_the_secret(twilio, message):
    twilio.refusals += [Refusal(400, 21211), Refusal(401), Refusal(500), Refusal(400, 1)]
    channel = sms.create_channel(settings(twilio))
    for _ in range(4):
        with pytest.raises((UnusableAddress, RelayError, Refused)) as caught:
            send(channel, message)
        assert not any(word in str(caught.value) for word in ("4670", TOKEN, SID))
