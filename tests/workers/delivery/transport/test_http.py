"""What answers of providers mean."""

from datetime import UTC, datetime, timedelta

import pytest

from workers.delivery.transport.channel import Refused, RelayError, TemporaryError
from workers.delivery.transport.http import HttpReply, raise_for_status

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("30", timedelta(seconds=30)),
        ("999999999999", timedelta(days=1)),
        ("1.5", timedelta(seconds=1.5)),
        ("Wed, 04 Mar 2026 12:01:00 GMT", timedelta(minutes=1)),
        ("Wed, 04 Mar 2026 11:59:00 GMT", timedelta()),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_provider_names_a_delay_in_seconds_or_the_time_of_its_end(text, delay):
    assert HttpReply(429, {"retry-after": text}, b"").get_retry_after(NOW) == delay


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, RelayError),
        (404, Refused),
        (413, TemporaryError),
        (429, TemporaryError),
        (302, RelayError),
        (503, RelayError),
    ],
)
def test_a_status_says_whom_it_concerns(status, error):
    with pytest.raises(error) as raised:
        raise_for_status(HttpReply(status, {"retry-after": "7"}, b"secret"), "twilio", NOW)

    assert raised.value.provider == "twilio"
    assert "secret" not in str(raised.value.reason)
    assert raised.value.retry_after == (timedelta(seconds=7) if status in (302, 413, 429, 503) else None)


def test_a_success_raises_nothing():
    raise_for_status(HttpReply(204, {}, b""), "twilio", NOW)


def test_a_body_that_is_not_json_reads_as_nothing():
    assert HttpReply(200, {}, b"{").read_json() is None
