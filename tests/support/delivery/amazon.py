"""Messages that are signed as Amazon SNS does it, with a key of the tests, and a local host for Amazon."""

import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pipeline.sources.native.cloud import sns
from workers.alerts.amazon import AmazonClient
from workers.delivery.transport.user_hosts import UserHosts
from workers.delivery.transport.watchdog import HostAddress, resolve

HOST = "sns.eu-west-1.amazonaws.com"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
CERTIFICATE_PATH = "/SimpleNotificationService-0123abcd.pem"
CERTIFICATE_URL = f"https://{HOST}{CERTIFICATE_PATH}"
SUBSCRIBE_PATH = f"/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37"
DIGESTS = {"1": hashes.SHA1(), "2": hashes.SHA256()}


def build_certificate(key: Any, *names: str) -> bytes:
    """Return a self-signed certificate as PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
    others = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
    return builder.add_extension(others, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def write_server_certificate(path: Path) -> Path:
    """Write the key and the certificate of a server that stands for the host of Amazon."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + build_certificate(key, HOST))
    return path


@dataclass(frozen=True, slots=True)
class Signer:
    """A key and its certificate."""

    key: rsa.RSAPrivateKey
    certificate: bytes

    def sign(self, message: dict[str, str], version: str = "1") -> dict[str, str]:
        signed = {**message, "SignatureVersion": version}
        signature = self.key.sign(sns.build_signed(signed), padding.PKCS1v15(), DIGESTS[version])
        return {**signed, "Signature": b64encode(signature).decode()}


def create_signer() -> Signer:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return Signer(key, build_certificate(key, "sns.amazonaws.com"))


def build_notification(**changes: str) -> dict[str, str]:
    alarm = {"AlarmName": "CPU", "NewStateValue": "ALARM", "AWSAccountId": "123456789012"}
    return {
        "Type": sns.NOTIFICATION,
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "ALARM: é",
        "Message": json.dumps(alarm),
        "Timestamp": "2026-03-04T11:59:36.001Z",
        "SigningCertURL": CERTIFICATE_URL,
        **changes,
    }


def build_confirmation(**changes: str) -> dict[str, str]:
    return {
        "Type": sns.CONFIRMATION,
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "TopicArn": TOPIC,
        "Token": "2336412f37",
        "Message": "You have chosen to subscribe to the topic.",
        "SubscribeURL": f"https://{HOST}{SUBSCRIBE_PATH}",
        "Timestamp": "2026-03-04T11:59:36.001Z",
        "SigningCertURL": CERTIFICATE_URL,
        **changes,
    }


class OneHost(UserHosts):
    """Finds the local server under the name of the host of Amazon, at its port, and no other name."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.0/8",))
        self._port = port

    def find_addresses(self, host: str, port: int, timeout_s: float) -> list[HostAddress]:
        assert (host, port) == (HOST, 443)
        return resolve("127.0.0.1", self._port)


def create_client(port: int, deadline_s: float = 2.0) -> AmazonClient:
    return AmazonClient(sns.NAME, OneHost(port), deadline_s)
