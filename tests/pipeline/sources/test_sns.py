"""A message counts if Amazon SNS signed it and it is from a topic of the integration."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from models.domain.facts import SourceFacts
from pipeline.sources.native.cloud import sns
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES
from tests.support.delivery.amazon import (
    CERTIFICATE_URL,
    HOST,
    TOPIC,
    build_certificate,
    build_confirmation,
    build_notification,
    create_signer,
)
from tests.support.offenders import list_offenders

OTHER_TOPIC = "arn:aws:sns:eu-west-1:999999999999:alarms"
WRONG_HOSTS = [
    "http://sns.eu-west-1.amazonaws.com",
    "https://sns.eu-west-1.amazonaws.com.evil.example",
    "https://sns.eu-west-1.amazonaws.com@evil.example",
    "https://user@sns.eu-west-1.amazonaws.com",
    "https://sns.eu-west-1.amazonaws.com:443",
    "https://sns.eu-west-1.amazonaws.com:8443",
    "https://sns.eu-west-1.amazonaws.com.",
    "https://evil.example/sns.eu-west-1.amazonaws.com",
    "https://evil-sns.eu-west-1.amazonaws.com",
    "https://s3.eu-west-1.amazonaws.com",
    "https://sns.eu-west-1.amazonaws.co",
    "https://sns.eu-west-1.amazonaws.com.cn.evil.example",
    "https://sns.evil.example/.amazonaws.com",
    "https://sns.eu-west-1\u3002amazonaws.com",
    "https://sns.eu-west-1.amazon\u0430ws.com",
    "https://SNS.eu-west-1.amazonaws.com",
    "https://127.0.0.1",
    "https://[::1]",
    "//sns.eu-west-1.amazonaws.com",
    " https://sns.eu-west-1.amazonaws.com",
    "https://sns.eu-west-1.amazonaws.com\\@evil.example",
    "https://sns.eu-west-1.amazonaws.com#@evil.example",
]


@pytest.fixture(scope="module")
def signer():
    return create_signer()


def build_body(message, certificate=None, topics=(TOPIC,)):
    return RequestBody(json.dumps(message).encode(), None, SourceFacts(None, None, topics, certificate))


def verify(message, signer, **options):
    reason = SOURCES["cloudwatch_v2"].verify(build_body(message, signer.certificate, **options))
    return None if reason is None else reason.code


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("message", [build_notification(), build_confirmation()], ids=lambda one: one["Type"])
def test_a_signed_message_is_accepted(signer, message, version):
    assert verify(signer.sign(message, version), signer) is None


def test_a_message_without_a_subject_is_accepted(signer):
    message = build_notification()
    del message["Subject"]

    assert verify(signer.sign(message), signer) is None


@pytest.mark.parametrize("field", ["Message", "MessageId", "Subject", "Timestamp"])
def test_each_signed_field_counts(signer, field):
    assert verify({**signer.sign(build_notification()), field: "x"}, signer) == "signature_not_of_topic"


@pytest.mark.parametrize(
    ("at", "code"),
    [
        ("2026-03-04T10:54:59Z", "signature_too_old"), ("2026-03-04T10:55:01Z", None),
        ("2026-03-04T13:04:59Z", None), ("2026-03-04T13:05:01Z", "signature_too_old"),
        ("x", "signature_too_old"), ("", "signature_too_old"),
    ],
)  # fmt: skip
def test_a_message_counts_for_about_an_hour_after_its_time(signer, now, at, code):
    body = build_body(signer.sign(build_notification(Timestamp=at)), signer.certificate)
    body.received_at = now

    reason = SOURCES["cloudwatch_v2"].verify(body)
    assert (None if reason is None else reason.code) == code
    assert (sns.find_certificate_url(body) is None) == (code is not None)


def test_a_certificate_of_another_region_is_refused(signer):
    url = CERTIFICATE_URL.replace("eu-west-1", "eu-west-2")
    message = signer.sign(build_notification(SigningCertURL=url))

    assert verify(message, signer) == "signature_of_other_region"
    assert sns.find_certificate_url(build_body(message)) is None


@pytest.mark.parametrize("field", ["SubscribeURL", "Token", "Message"])
def test_each_signed_field_of_a_confirmation_counts(signer, field):
    assert verify({**signer.sign(build_confirmation()), field: "x"}, signer) == "signature_not_of_topic"


@pytest.mark.parametrize(
    "change",
    [
        {"Signature": ""}, {"Signature": "EXAMPLE"}, {"Signature": "é"}, {"Signature": "A" * 3_000},
        {"Signature": "AAAA"}, {"SignatureVersion": "3"}, {"SignatureVersion": ""},
    ],
    ids=lambda change: str(change)[:40],
)  # fmt: skip
def test_what_does_not_have_the_form_of_a_signature_is_refused_without_a_certificate(signer, change):
    message = {**signer.sign(build_notification()), **change}

    assert verify(message, signer) == "signature_not_of_topic"
    assert sns.find_certificate_url(build_body(message)) is None


@pytest.mark.parametrize("change", [{"Signature": "A" * 344}, {"SignatureVersion": "2"}], ids=["one", "two"])
def test_a_wrong_signature_is_refused(signer, change):
    message = {**signer.sign(build_notification()), **change}

    assert verify(message, signer) == "signature_not_of_topic"


def test_the_signature_of_another_key_is_refused(signer):
    assert verify(create_signer().sign(build_notification()), signer) == "signature_not_of_topic"


@pytest.mark.parametrize(
    "body", [{"AlarmName": "CPU"}, {"Type": "Notification", "TopicArn": TOPIC}, [], "x", {"Type": 7}], ids=str
)
def test_a_body_without_a_signature_is_refused(signer, body):
    assert verify(body, signer) == "signature_absent"
    assert sns.find_certificate_url(build_body(body)) is None


def test_another_topic_is_refused_before_its_certificate_is_fetched(signer):
    """Anybody can sign messages with a topic of their own."""
    message = signer.sign(build_notification(TopicArn=OTHER_TOPIC))

    assert verify(message, signer) == "signature_of_other_topic"
    assert sns.find_certificate_url(build_body(message)) is None


def test_without_topics_nothing_is_checked(signer):
    assert verify({"AlarmName": "CPU"}, signer, topics=()) is None


def test_a_certificate_of_another_host_is_refused(signer):
    def check(host):
        url = CERTIFICATE_URL.replace(f"https://{HOST}", host)
        message = signer.sign(build_notification(SigningCertURL=url))

        assert verify(message, signer) == "signature_of_other_host"
        assert sns.find_certificate_url(build_body(message)) is None
        assert not sns.is_of_amazon(url)

    assert list_offenders(check, WRONG_HOSTS) == []


@pytest.mark.parametrize(
    "path",
    ["/", "/other.pem", "/SimpleNotificationService-1.pem?x=1", "/SimpleNotificationService-/../a.pem"],
)
def test_a_certificate_at_another_path_is_refused(path):
    assert not sns.is_of_amazon(f"https://{HOST}{path}")


@pytest.mark.parametrize("host", [HOST, "sns.us-gov-west-1.amazonaws.com", "sns.cn-north-1.amazonaws.com.cn"])
def test_the_hosts_of_amazon_are_known(host):
    assert sns.is_of_amazon(f"https://{host}/SimpleNotificationService-0123abcd.pem")


def test_a_subscription_is_confirmed_at_amazon_only():
    def check(host):
        message = build_confirmation(SubscribeURL=f"{host}/?Action=ConfirmSubscription&Token=2336")

        assert sns.find_confirmation_url(build_body(message)) is None

    assert list_offenders(check, WRONG_HOSTS) == []


def test_what_is_no_certificate_of_rsa_is_refused(signer):
    message = signer.sign(build_notification())
    key = ec.generate_private_key(ec.SECP256R1())
    for certificate in (b"", b"x", build_certificate(key, HOST)):
        reason = SOURCES["cloudwatch_v2"].verify(build_body(message, certificate))
        assert reason.code == "signature_without_certificate"
