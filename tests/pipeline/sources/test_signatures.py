"""A signature is checked with the secret of the integration."""

import hashlib
import hmac

import pytest

from models.domain.facts import SourceFacts
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES

BODY = b'{"alerts":[{"fingerprint":"f"}]}'
SECRET = "s3cret"
HEADER = {"grafana": "x-grafana-alerting-signature", "sentry": "sentry-hook-signature"}


def sign(signed, secret=SECRET):
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify(kind, headers, *, secret=SECRET, body=BODY):
    reason = SOURCES[kind].verify(RequestBody(body, headers, SourceFacts(secret)))
    return None if reason is None else reason.code


@pytest.mark.parametrize("kind", HEADER)
def test_a_right_signature_is_accepted(kind):
    assert verify(kind, {HEADER[kind]: sign(BODY)}) is None


@pytest.mark.parametrize("kind", HEADER)
@pytest.mark.parametrize("sent", [sign(BODY, "other"), sign(BODY + b" "), "x", "é"])
def test_a_wrong_signature_is_refused(kind, sent):
    assert verify(kind, {HEADER[kind]: sent}) == "signature_wrong"


@pytest.mark.parametrize("kind", HEADER)
def test_a_request_without_a_signature_is_refused(kind):
    assert verify(kind, {}) == "signature_missing"


@pytest.mark.parametrize("kind", HEADER)
def test_without_a_secret_nothing_is_checked(kind):
    assert verify(kind, {}, secret=None) is None


def test_grafana_signs_its_timestamp_too():
    headers = {HEADER["grafana"]: sign(b"1772330975:" + BODY), "x-grafana-alerting-timestamp": "1772330975"}

    assert verify("grafana", headers) is None
    assert verify("grafana", {**headers, "x-grafana-alerting-timestamp": "1"}) == "signature_wrong"
