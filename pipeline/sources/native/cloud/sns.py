"""Check that a message is from a topic of Amazon SNS, by its signature.

docs.aws.amazon.com, "Verifying the signatures of Amazon SNS messages". Anybody can sign messages with a topic
of their own, so the integration names the topics from which it takes messages. The certificate is at an
address in the message. A worker fetches it; this module decides which addresses are those of Amazon.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime, timedelta

from models.domain.reasons import Reason, make_reason
from pipeline.sources.reading.body import BadBody, RequestBody, parse_time

NAME = "Amazon SNS"
NOTIFICATION, CONFIRMATION, GOODBYE = "Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation"

# The whole address: without a user, a port and other hosts whose names only begin in the same way.
_HOST = r"https://sns\.(?P<region>[a-z]{2,4}(?:-[a-z0-9]{1,12}){2,4})\.amazonaws\.com(?:\.cn)?"
_CERTIFICATE = re.compile(rf"{_HOST}/SimpleNotificationService-[A-Za-z0-9_-]{{1,80}}\.pem")
_ACTION = re.compile(rf"{_HOST}/\?[A-Za-z0-9%&=._:~+-]{{1,1500}}")
# The ARN of a topic, as a pattern.
TOPIC = r"arn:aws(-cn|-us-gov)?:sns:[a-z0-9-]{1,40}:[0-9]{12}:[A-Za-z0-9_-]{1,256}([.]fifo)?"

# What is signed, in this order. `Subject` is left out if the message has none.
_SIGNED = {
    NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    CONFIRMATION: ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    GOODBYE: ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
# The versions of signatures. A topic uses the first one by default.
_VERSIONS = ("1", "2")
# The bytes of a signature: keys of Amazon have 2,048 bits, and may have more one day.
_SIGNATURE_BYTES = range(256, 1_025)
# Amazon sends a message again for an hour. Their clocks and ours may differ by some minutes.
_MAX_AGE = timedelta(minutes=65)


def is_of_amazon(url: str) -> bool:
    """Return whether Tocsin may request this address: a certificate, or an action on a subscription."""
    return any(pattern.fullmatch(url) for pattern in (_CERTIFICATE, _ACTION))


def find_certificate_url(body: RequestBody) -> str | None:
    """Return the address of the certificate; None: the message is refused without it."""
    message = _read(body)
    return None if message is None or _refuse(message, body) else message["SigningCertURL"]


def find_confirmation_url(body: RequestBody) -> str | None:
    """Return the address that confirms a subscription; None: the message asks for none.

    The message must be verified before.
    """
    message = _read(body)
    if message is None or message["Type"] != CONFIRMATION:
        return None
    url = message.get("SubscribeURL", "")
    return url if _ACTION.fullmatch(url) else None


def verify(body: RequestBody) -> Reason | None:
    """Return why a message is not from a topic of the integration, or None. Needs its certificate.

    Without topics of the integration, every message is accepted: its key is a secret too.
    """
    if not body.setup.topics:
        return None
    message = _read(body)
    if message is None:
        return make_reason("signature_absent", kind=NAME)
    return _refuse(message, body) or _check(message, body.setup.certificate or b"")


def _read(body: RequestBody) -> Mapping[str, str] | None:
    """Return the texts of a signed message; None if the body is none."""
    try:
        data = body.decode_json()
    except BadBody:
        return None
    if not isinstance(data, dict):
        return None
    texts = {name: value for name, value in data.items() if isinstance(value, str)}
    is_signed = texts.keys() >= {"Type", "TopicArn", "Signature", "SigningCertURL"}
    return texts if is_signed and texts["Type"] in _SIGNED else None


def _refuse(message: Mapping[str, str], body: RequestBody) -> Reason | None:
    """Return why a message is refused before its certificate is fetched."""
    if message["TopicArn"] not in body.setup.topics:
        return make_reason("signature_of_other_topic")
    host = _CERTIFICATE.fullmatch(message["SigningCertURL"])
    if host is None:
        return make_reason("signature_of_other_host")
    if host["region"] != message["TopicArn"].split(":")[3]:
        return make_reason("signature_of_other_region")
    if message.get("SignatureVersion") not in _VERSIONS or _decode_signature(message) is None:
        return make_reason("signature_not_of_topic")
    if body.received_at is not None and not _is_near(message.get("Timestamp"), body.received_at):
        return make_reason("signature_too_old")
    return None


def _decode_signature(message: Mapping[str, str]) -> bytes | None:
    """Return the bytes of a signature; None if it does not have the form of one."""
    try:
        signature = b64decode(message["Signature"], validate=True)
    except ValueError:
        return None
    return signature if len(signature) in _SIGNATURE_BYTES else None


def _is_near(timestamp: str | None, received_at: datetime) -> bool:
    at = parse_time(timestamp)
    return at is not None and abs(received_at - at) <= _MAX_AGE


def _check(message: Mapping[str, str], certificate: bytes) -> Reason | None:
    # The modules need memory and time, and few installations use this source.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.x509 import load_pem_x509_certificate

    digests = {"1": hashes.SHA1, "2": hashes.SHA256}
    wrong = make_reason("signature_not_of_topic")
    try:
        key = load_pem_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return make_reason("signature_without_certificate")
    if not isinstance(key, rsa.RSAPublicKey):
        return make_reason("signature_without_certificate")
    try:
        signature = _decode_signature(message) or b""
        digest = digests[message["SignatureVersion"]]
        key.verify(signature, build_signed(message), padding.PKCS1v15(), digest())
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return wrong
    return None


def build_signed(message: Mapping[str, str]) -> bytes:
    """Return the bytes that Amazon signs: the name and the value of each field, in a line each."""
    names = [name for name in _SIGNED[message["Type"]] if name in message]
    return "".join(f"{name}\n{message[name]}\n" for name in names).encode("utf-8", "surrogatepass")
