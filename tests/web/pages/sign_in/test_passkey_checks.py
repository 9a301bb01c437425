"""What the WebAuthn library does not check of a passkey."""

import json
from base64 import urlsafe_b64encode

import pytest

from web.pages.sign_in import passkey_checks
from web.pages.sign_in.passkey_checks import Asked, check_registration, check_sign_in

ASKED = Asked("AAAA", "tocsin.example.org", "https://tocsin.example.org")


class Verified:
    """What the library returns for a passkey that it accepts."""

    credential_id = credential_public_key = b"x"
    sign_count = new_sign_count = 7


@pytest.fixture(autouse=True)
def _accepting(monkeypatch):
    """The library accepts each passkey: it does not look at what is checked here."""
    for name in ("verify_registration_response", "verify_authentication_response"):
        monkeypatch.setattr(passkey_checks, name, lambda **given: Verified)


def build(**client_data):
    encoded = (
        urlsafe_b64encode(json.dumps({"type": "webauthn.get", **client_data}).encode()).decode().rstrip("=")
    )
    return {"id": "x", "response": {"clientDataJSON": encoded}}


@pytest.mark.parametrize("client_data", [{}, {"crossOrigin": False}], ids=["nothing", "own page"])
def test_a_passkey_of_our_page_is_accepted(client_data):
    assert check_sign_in(build(**client_data), ASKED, "AAAA", 6) == 7
    assert check_registration(build(**client_data), ASKED) is not None


@pytest.mark.parametrize(
    "client_data",
    [{"crossOrigin": True}, {"crossOrigin": "true"}, {"topOrigin": "https://evil.example"}],
    ids=["in a frame", "odd", "other top"],
)
def test_a_passkey_of_a_frame_of_another_site_is_refused(client_data):
    assert check_sign_in(build(**client_data), ASKED, "AAAA", 6) is None
    assert check_registration(build(**client_data), ASKED) is None


@pytest.mark.parametrize(
    "credential", [{}, {"response": 7}, {"response": {}}, {"response": {"clientDataJSON": "WzFd"}}], ids=str
)
def test_what_cannot_be_read_is_refused(credential):
    assert check_sign_in(credential, ASKED, "AAAA", 6) is None
