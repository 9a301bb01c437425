"""Callbacks of Twilio count only with a valid signature of the URL and of all fields."""

from urllib.parse import urlsplit

import pytest

from models.domain.enums import ContactType
from models.tables.incidents import Incident
from tests.support.delivery.twilio_server import FORM, sign
from tests.support.offenders import list_offenders
from tests.support.scenarios.phone import ALICES_NUMBER, PUBLIC_URL, phones
from tests.support.web.server import run_server
from web.callbacks import twilio
from web.routes import ROUTES

__all__ = ["phones", "run_server"]

PATHS = [route.path for route in ROUTES if route.path.startswith("/callbacks/twilio/")]
URL = f"{PUBLIC_URL}/callbacks/twilio/phone/digits/?step=1"


@pytest.mark.parametrize(
    ("number", "signature"),
    [
        ("+14158675309", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        ("+12349013030", "0/KCTR6DLpKmkAf8muzZqo1nDgQ="),
    ],
)
def test_the_signature_is_that_of_the_published_examples(number, signature):
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    fields = {
        "CallSid": "CA1234567890ABCDE", "Caller": number, "Digits": "1234", "From": number,
        "To": "+18005551212",
    }  # fmt: skip

    assert twilio.sign("12345", url, fields.items()).decode() == signature
    assert sign("12345", url, fields) == signature


@pytest.mark.parametrize("path", PATHS)
def test_a_callback_without_a_valid_signature_is_refused(phones, path):
    call = phones.notify(ContactType.PHONE)
    fields = {
        "CallSid": call.sid,
        "To": ALICES_NUMBER,
        "Digits": "1",
        "CallStatus": "failed",
        "MessageSid": call.sid,
    }
    for wrong in ({"token": "another token"}, {"signature": "x"}, {"signature": "\u00e9"}):
        phones.twilio.call_back(f"{PUBLIC_URL}{path}", fields, **wrong)
        assert phones.status == 403

    assert Incident.get().status == 1


@pytest.mark.parametrize(
    "signed",
    [
        URL.replace("step=1", "step=2"),
        URL.replace("/digits/", "/status/"),
        URL.replace("tocsin.example.org", "evil.example.org"),
        URL.replace("https", "http"),
        URL.replace("tocsin.example.org", "tocsin.example.org:8443"),
    ],
)
def test_a_signature_of_another_address_is_refused(phones, signed):
    fields = {"CallSid": "CA1", "AccountSid": "AC1", "ApiVersion": "2010-04-01"}
    phones.twilio.call_back(URL, fields, signature=sign(phones.twilio.token, signed, fields))

    assert phones.status == 403


@pytest.mark.parametrize("origin", [PUBLIC_URL, f"{PUBLIC_URL}:443"])
def test_the_port_of_the_public_url_may_be_in_the_signed_address(phones, origin):
    call = phones.notify(ContactType.PHONE)
    fields = {
        "AccountSid": "AC1",
        "ApiVersion": "2010-04-01",
        "CallSid": call.sid,
        "To": ALICES_NUMBER,
        "Digits": "1",
    }
    signed = sign(phones.twilio.token, URL.replace(PUBLIC_URL, origin), fields)
    phones.twilio.call_back(URL, fields, signature=signed)

    assert (phones.status, Incident.get().status) == (200, 2)


def test_a_field_that_was_changed_or_added_is_refused(phones):
    fields = {"AccountSid": "AC1", "ApiVersion": "2010-04-01", "CallSid": "CA1", "Digits": "1"}
    signed = sign(phones.twilio.token, URL, fields)
    for changed in ({"Digits": "2"}, {"To": ALICES_NUMBER}, {"Empty": ""}):
        phones.twilio.call_back(URL, {**fields, **changed}, signature=signed)
        assert phones.status == 403


WRONG_BODIES = [
    (b"{}", "application/json", 400),
    (b"", "multipart/form-data; boundary=x", 400),
    (b"a=%ff&" * 300, FORM, 400),
    (b"\xff", FORM, 400),
    (b"a=b", FORM, 403),
    (b"", FORM, 403),
    (b"x" * (64 * 1024 + 1), FORM, 413),
    (b"x" * (2 * 1024 * 1024), FORM, 413),
]


def test_a_body_that_no_provider_sends_is_refused(phones):
    def check(case):
        body, content_type, status = case
        headers = {"Content-Type": content_type, "X-Twilio-Signature": "x"}
        for path in PATHS:
            text = phones.twilio.deliver(f"{PUBLIC_URL}{path}", body, headers)
            assert (phones.status, "detail" in text) == (status, True), text

    assert list_offenders(check, WRONG_BODIES) == []


@pytest.mark.parametrize(("size", "status"), [(3, 403), (64 * 1024 + 1, 413)])
def test_a_callback_of_unknown_length_has_the_same_limit(run_server, app, size, status):
    server = run_server()
    server.app = app
    head = f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {FORM}\r\n"
    body = f"{size:x}\r\n{'x' * size}\r\n0\r\n\r\n"

    assert server.send(f"{head}Transfer-Encoding: chunked\r\n\r\n{body}".encode())[0] == status


def test_a_url_with_a_path_is_signed_with_it():
    origins = list(twilio._list_origins(urlsplit("https://example.org:8443/tocsin")))

    assert origins == ["https://example.org:8443", "https://example.org", "https://example.org:8443"]
