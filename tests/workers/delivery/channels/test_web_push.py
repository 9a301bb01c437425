"""The web push channel with a push service on loopback, which decrypts and verifies as a browser does."""

import base64
import json
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from http_ece import decrypt
from py_vapid import Vapid02

from models.contacts import browsers
from models.contacts.browsers import Subscription, get_keys
from models.contacts.messages import create_test_message
from models.tables.accounts import Secret
from models.tables.users import ContactMethod, NotificationRule, PushSubscription
from runtime.settings import load
from tests.support.delivery.browser_keys import BrowserKeys
from tests.support.delivery.messages import (
    NOON,
    PUBLIC_URL,
    TOKEN,
    build_group,
    build_hostile,
    build_message,
    build_single,
)
from tests.support.delivery.webhook_server import start_webhook_server
from workers.delivery.channels.web_push import KEPT, WebPushChannel
from workers.delivery.transport.channel import Refused, TemporaryError, UnusableAddress


@pytest.fixture
def service():
    with start_webhook_server() as running:
        running.answer(201)
        yield running


@pytest.fixture
def browser():
    return BrowserKeys()


@pytest.fixture
def send(world, store, service, browser):
    """send(content): send to Alice's browser. `send.contact` is the contact of the browser."""
    found = browser.subscribe(f"{service.url}/wpush/v2/secret-of-the-browser")
    with store.write_transaction():
        contact, _ = browsers.subscribe(world.alice, found, "Browser", NOON)
        message = create_test_message(contact, "Alice", NOON)

    def send(content, to: str = contact.value, networks: str = "127.0.0.0/8"):
        settings = load({"TOCSIN_PUBLIC_URL": PUBLIC_URL, "TOCSIN_WEBHOOK_NETWORKS": networks})
        return WebPushChannel(settings).send(build_message(content, to, message.message_id))

    send.contact, send.message_id = contact, message.message_id
    return send


def test_a_browser_can_decrypt_the_message(send, service, browser):
    accepted = send(build_single())

    (request,) = service.received
    assert request.path == "/wpush/v2/secret-of-the-browser"
    assert request.headers["content-encoding"] == "aes128gcm"
    assert request.headers["ttl"] == str(round(KEPT.total_seconds()))
    assert request.headers["urgency"] == "high"
    assert json.loads(browser.decrypt(request.body)) == {
        "id": send.message_id,
        "title": "[Checkout] #12 Disk full on db1 (critical)",
        "body": (
            "Checkout, critical, high urgency\n"
            "Since Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)\n"
            "Also notified: Bob\n"
            "Next, in 5 min: Carol\n"
            "97% of /var is used."
        ),
        "url": f"{PUBLIC_URL}/i/{TOKEN}",
        "is_urgent": True,
        "token": TOKEN,
        "actions": [
            {"action": "acknowledge", "title": "Acknowledge"},
            {"action": "resolve", "title": "Resolve"},
        ],
    }
    assert str(accepted.reason) == "Accepted by web push (201)."


def test_the_push_service_can_verify_who_sends(send, service):
    send(build_single())

    header = service.received[0].headers["authorization"]
    token, key = (text.partition("=")[2] for text in header.removeprefix("vapid ").split(","))
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert Vapid02.verify(header)
    assert key.strip() == get_keys().public
    assert claims == {
        "aud": service.url,
        "exp": int((NOON + timedelta(hours=12)).timestamp()),
        "sub": "https://tocsin.example.org",
    }


def test_a_message_that_is_sent_twice_replaces_the_first(send, service, browser):
    for _ in range(2):
        send(build_single())

    assert {request.headers["topic"] for request in service.received} == {send.message_id[:32]}
    ids = {json.loads(browser.decrypt(request.body))["id"] for request in service.received}
    assert ids == {send.message_id}


@pytest.mark.parametrize("content", [build_hostile(), build_group(100)], ids=["hostile", "many"])
def test_a_long_message_keeps_the_limit_of_push_services(send, service, browser, content):
    send(content)

    (request,) = service.received
    assert len(browser.decrypt(request.body)) <= 3_000
    assert len(request.body) < 4_096


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, UnusableAddress),
        (410, UnusableAddress),
        (401, Refused),
        (403, Refused),
        (413, TemporaryError),
        (429, TemporaryError),
        (500, TemporaryError),
        (302, TemporaryError),
    ],
)
def test_each_answer_concerns_one_browser_only(send, service, status, error):
    service.answer(status, retry_after="7")

    with pytest.raises(error) as raised:
        send(build_single())

    assert raised.value.provider == "web push"
    assert "secret" not in str(raised.value)
    if status == 429:
        assert raised.value.retry_after == timedelta(seconds=7)


def test_a_subscription_cannot_lead_into_the_networks_of_the_operator(send, service):
    with pytest.raises(UnusableAddress, match="The URL is not allowed"):
        send(build_single(), networks="")

    assert service.received == []


def test_a_contact_without_its_subscription_is_unusable(send, service):
    with pytest.raises(UnusableAddress, match="does not receive messages any more"):
        send(build_single(), f"127.0.0.1/{'0' * 32}")
    PushSubscription.delete().execute()
    with pytest.raises(UnusableAddress):
        send(build_single())

    assert service.received == []


@pytest.mark.parametrize("p256dh", ["B" + "A" * 86, "x", ""])
def test_keys_that_are_none_are_unusable(send, service, p256dh):
    PushSubscription.update(p256dh=p256dh).execute()

    with pytest.raises(UnusableAddress, match="invalid keys"):
        send(build_single())


def test_a_subscription_ends_with_its_contact(send):
    ContactMethod.delete().where(ContactMethod.id == send.contact.id).execute()

    assert PushSubscription.select().count() == 0


def test_the_key_of_the_installation_is_made_once(store):
    keys = get_keys()

    assert get_keys() == keys
    assert Secret.select().where(Secret.name == "web_push").count() == 1
    key = ec.derive_private_key(int.from_bytes(base64.urlsafe_b64decode(keys.private + "=")), ec.SECP256R1())
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    assert base64.urlsafe_b64decode(keys.public + "=") == point


def test_a_browser_that_subscribes_again_stays_one_contact(send, world, store, service):
    renewed = BrowserKeys().subscribe(f"{service.url}/wpush/v2/secret-of-the-browser")
    with store.write_transaction():
        contact, is_new = browsers.subscribe(world.alice, renewed, "Browser", NOON)

    assert (contact.id, is_new) == (send.contact.id, False)
    stored = PushSubscription.get()
    assert Subscription(stored.endpoint, stored.p256dh, stored.auth) == renewed
    rules = NotificationRule.select().where(NotificationRule.contact == contact)
    assert sorted(rule.urgency for rule in rules) == [0, 1]


def test_the_decryption_of_the_test_is_that_of_the_standard():
    """Decrypt the example of RFC 8291, section 5, with the same call."""
    body = (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8"
        "wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    private = int.from_bytes(base64.urlsafe_b64decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94="))

    text = decrypt(
        base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)),
        private_key=ec.derive_private_key(private, ec.SECP256R1()),
        auth_secret=base64.urlsafe_b64decode("BTBZMqHH6r4Tts7J_aSIgg=="),
        version="aes128gcm",
    )

    assert text == b"When I grow up, I want to be a watermelon"
