"""The keys that a browser makes when it subscribes, and its decryption of messages."""

import base64
import secrets

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from models.contacts.browsers import Subscription


class BrowserKeys:
    """The private key and the secret of one browser."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = secrets.token_bytes(16)

    def subscribe(self, endpoint: str) -> Subscription:
        """Return what the browser gives to the page."""
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return Subscription(endpoint, _encode(point), _encode(self._secret))

    def decrypt(self, body: bytes) -> bytes:
        text: bytes = http_ece.decrypt(
            body, private_key=self._key, auth_secret=self._secret, version="aes128gcm"
        )
        return text


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
