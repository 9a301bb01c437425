"""Bodies of monitoring tools become alerts; a body that is refused has an error that says why."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.domain.enums import AlertType
from pipeline.sources import heartbeat
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.cleaning import clean_line, clean_text, clean_url
from pipeline.sources.table import SOURCES, STORED_SOURCES
from tests.support.offenders import list_offenders

GENERIC = SOURCES["generic"]
PROMETHEUS = SOURCES["prometheus"]


def parse(source, body):
    """Parse a body, and require the same from a body whose JSON was decoded before."""
    decoded = RequestBody(body)
    with suppress(BadBody):
        decoded.decode_json()
    expected = try_to_parse(source, RequestBody(body))
    assert try_to_parse(source, decoded) == expected
    assert try_to_count(source, body) == (expected if expected == "refused" else len(expected))
    return source.parse(RequestBody(body))


def try_to_count(source, body):
    try:
        return source.count(RequestBody(body))
    except BadBody:
        return "refused"


def try_to_parse(source, body):
    try:
        return source.parse(body)
    except BadBody:
        return "refused"


def generic(**alert):
    (parsed,) = parse(GENERIC, json.dumps(alert).encode())
    return parsed


@pytest.mark.parametrize(
    ("level_text", "understood"),
    [
        ("critical", AlertType.CRITICAL),
        ("Critical", AlertType.CRITICAL),
        ("3", AlertType.CRITICAL),
        (5, AlertType.RESOLVED),
        ("acknowledged", AlertType.ACKNOWLEDGED),
        (None, AlertType.INFO),
        ("", AlertType.INFO),
    ],
)
def test_a_level_is_a_name_in_any_case_or_a_digit(level_text, understood):
    assert generic(message="m", alert_type=level_text).alert_type is understood


def test_an_entity_id_can_be_a_number():
    assert generic(message="m", entity_id=7).entity_id == "7"


def test_urls_can_be_strings_or_objects_but_not_scripts():
    urls = ["https://a.example/x", {"link_url": "http://b.example", "link_text": "B"}, "javascript:alert(1)"]

    assert generic(message="m", urls=urls).urls == (
        {"link_url": "https://a.example/x", "link_text": "https://a.example/x"},
        {"link_url": "http://b.example", "link_text": "B"},
    )


@pytest.mark.parametrize("nothing", ["", " ", None])
def test_an_alert_with_blank_optional_fields_is_accepted(nothing):
    parsed = generic(message="m", **dict.fromkeys(("payload", "urls", "images", "notes"), nothing))

    assert (parsed.payload, parsed.urls, parsed.images, parsed.notes) == ({}, (), (), ())
    assert len(generic(message="m", urls=[None, "https://example.org"]).urls) == 1


def test_a_boolean_can_be_sent_as_text():
    assert generic(message="m", suppressed="true").suppressed is True


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"not json", "body"),
        (b"[]", "body"),
        (b"{}", "body"),
        (b'{"message": 5}', "message"),
        (b'{"message": " \\u0000 "}', "message"),
        (b'{"message": "m", "alert_type": "loud"}', "alert_type"),
        (b'{"message": "m", "payload": []}', "payload"),
        (b'{"message": "m", "urls": "x"}', "urls"),
        (b'{"message": "m", "payload": {"a": NaN}}', "body"),
        (b'{"message": "m", "payload": {"a": ' + b"[" * 100_000, "body"),
        (b'{"message": "m", "payload": {"a": ' + b"[" * 200 + b"]" * 200 + b"}}", "payload"),
    ],
)
def test_an_invalid_body_is_refused_with_the_field(body, field):
    with pytest.raises(BadBody) as caught:
        parse(GENERIC, body)

    assert list(caught.value.errors) == [field]


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": "caf\xe9"}',
        b'{"message": "lone \\ud800 surrogate"}',
        b'{"message": "raw \x01 control"}',
        b'\xef\xbb\xbf{"message": "byte order mark"}',
        b'{"message": "' + b"x" * 65536 + b'"}',
        '{"message": "\u202edrowssap\u2066"}'.encode(),
    ],
)
def test_an_alert_with_small_defects_is_accepted(body):
    (parsed,) = parse(GENERIC, body)

    assert parsed.message
    assert len(parsed.message) <= 1000
    parsed.message.encode()


@given(st.text())
def test_cleaned_text_has_no_newlines_and_is_printable(text):
    line = clean_line(text)

    assert "\n" not in line
    assert "\r" not in line
    assert "\x00" not in line
    assert clean_line(line) == line
    line.encode()


@given(st.text())
def test_cleaning_twice_changes_nothing(text):
    assert clean_text(clean_text(text)) == clean_text(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body):
    for source in SOURCES.values():
        with suppress(BadBody):
            assert parse(source, body)


@pytest.mark.parametrize(
    "url", ["javascript:x", "data:text/html,x", "//x", "http://a b", "https://" + "x" * 3000]
)
def test_invalid_addresses_are_dropped(url):
    assert clean_url(url) is None


def test_a_payload_is_unchanged_except_for_values_that_no_store_can_hold():
    parsed = generic(message="m", payload={"a": [1, 2**70, None, 1.5, {"b": "\u0000x"}]})

    assert parsed.payload == {"a": [1, str(2**70), None, 1.5, {"b": "\u0000x"}]}


def alertmanager(status="firing", **labels):
    return {
        "version": "4",
        "status": status,
        "externalURL": "http://am.example:9093",
        "alerts": [
            {
                "status": status,
                "labels": {"alertname": "DiskFull", **labels},
                "annotations": {"summary": "Disk full on db1", "description": "97% used"},
                "startsAt": "2026-03-04T11:58:00.123456789Z",
                "endsAt": "2026-03-04T12:00:00Z" if status == "resolved" else "0001-01-01T00:00:00Z",
                "generatorURL": "http://prom.example:9090/graph?g0.expr=up",
                "fingerprint": "c0ffee0000000001",
            }
        ],
    }


def prometheus(**options):
    (parsed,) = parse(PROMETHEUS, json.dumps(alertmanager(**options)).encode())
    return parsed


def test_an_alertmanager_alert_is_mapped_as_the_contract_says():
    parsed = prometheus(severity="warning")

    assert parsed.message == "Disk full on db1"
    assert parsed.summary == "97% used"
    assert parsed.alert_type is AlertType.WARNING
    assert parsed.entity_id == "c0ffee0000000001"
    assert parsed.source_at == datetime(2026, 3, 4, 11, 58, 0, 123456, tzinfo=UTC)
    assert [url["link_text"] for url in parsed.urls] == ["Source"]


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        ("critical", AlertType.CRITICAL), ("page", AlertType.CRITICAL), ("error", AlertType.ERROR),
        ("high", AlertType.ERROR), ("warning", AlertType.WARNING), ("info", AlertType.INFO),
        ("none", AlertType.INFO), ("WARNING", AlertType.WARNING), ("P1", AlertType.CRITICAL),
    ],
)  # fmt: skip
def test_severities_become_levels(severity, level):
    assert prometheus(severity=severity).alert_type is level


def test_an_alert_without_a_severity_is_critical():
    assert prometheus().alert_type is AlertType.CRITICAL


def test_a_resolved_alert_has_the_time_of_its_end():
    parsed = prometheus(status="resolved")

    assert parsed.alert_type is AlertType.RESOLVED
    assert parsed.source_at == datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "level_text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00", "soon", 7, None]
)
def test_a_time_that_was_not_set_is_none(level_text):
    """A trigger with Go's zero time would be older than every resolve, and would notify nobody."""
    group = alertmanager()
    group["alerts"][0]["startsAt"] = level_text
    (parsed,) = parse(PROMETHEUS, json.dumps(group).encode())

    assert parsed.source_at is None


def test_a_group_without_alerts_is_refused():
    with pytest.raises(BadBody):
        parse(PROMETHEUS, b'{"alerts": []}')


@pytest.mark.parametrize(
    ("number", "stored_value"), [("1e999", "inf"), ("-1e999", "-inf"), ("9" * 5000, "9" * 5000)]
)
def test_an_alert_with_a_very_large_number_is_accepted(number, stored_value):
    (parsed,) = parse(GENERIC, f'{{"message": "m", "payload": {{"a": {number}}}}}'.encode())

    assert parsed.payload == {"a": stored_value}


def test_a_group_of_plain_alerts_is_counted_without_parsing_it(monkeypatch):
    """In the web process, parsing 8 MiB would delay all other requests."""
    group = {"receiver": "tocsin", "alerts": [{"labels": {"alertname": "A", "n": 1}, "startsAt": "x"}] * 500}
    monkeypatch.delattr("pipeline.sources.prometheus.parse_alert")

    assert PROMETHEUS.count(RequestBody(json.dumps(group).encode())) == 500


@pytest.mark.parametrize(
    "alert",
    [
        {"labels": {"a": {"b": [1]}}},
        {"labels": None, "annotations": {"a": None, "b": True, "c": 1.5, "d": 10**30}},
        {"labels": {"a": "\ud800"}, "fingerprint": None},
        {"fingerprint": 7},
        {"startsAt": {"a": 1}},
    ],
)
def test_unusual_alerts_are_counted_as_they_are_parsed(alert):
    with suppress(BadBody):
        parse(PROMETHEUS, json.dumps({"alerts": [alert] * 3}).encode())


def test_a_group_of_millions_of_empty_alerts_is_refused():
    with pytest.raises(BadBody):
        parse(PROMETHEUS, b'{"alerts": [' + b"{}," * 40_000 + b"{}]}")


def test_a_group_whose_shared_fields_are_too_large_is_refused():
    labels = {f"label{n}": "" for n in range(20_000)}
    group = {"commonLabels": labels, "alerts": [{"labels": {"alertname": str(n)}} for n in range(800)]}

    with pytest.raises(BadBody, match="too many"):
        parse(PROMETHEUS, json.dumps(group).encode())


def test_a_large_group_can_repeat_the_labels_of_its_alerts():
    labels = {f"label{n}": "x" * 20 for n in range(20)}
    group = {"commonLabels": labels, "groupLabels": labels, "alerts": [{"labels": labels}] * 8_000}

    parsed = parse(PROMETHEUS, json.dumps(group).encode())

    assert len(parsed) == 8_000
    assert parsed[-1].payload["commonLabels"] == labels


def ping(body):
    (parsed,) = parse(SOURCES["heartbeat"], body)
    return parsed


@pytest.mark.parametrize(
    "body",
    [
        b"", b" \n", b"{}", b"[]", b"null", b"5", b"backup of db1: 3 GB\n100% done", b"\xff\x00&status",
        b"a&" * 5000, b'{"status": "ok"}', b'{"status": 5, "message": {}}', b'{"status": null}',
        b"status=ok&message=3+GB",
        b"it said status=failed yesterday",
    ],
)  # fmt: skip
def test_any_body_sent_to_a_heartbeat_is_a_ping(body):
    parsed = ping(body)

    assert (parsed.alert_type, parsed.entity_id, parsed.is_ping) == (AlertType.RESOLVED, "heartbeat", True)
    assert parsed.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"status": "failed", "message": "Disk full"}', "Disk full"),
        (b'\xef\xbb\xbf {"status": "Failure"}', "The monitored job reported a failure"),
        (b"status=failed&message=Disk+full", "Disk full"),
        (b"message=Disk%20full&status=error&host=db1", "Disk full"),
        (b'{"status": "failed", "message": "\xff"}', "\ufffd"),
    ],
)
def test_a_reported_failure_is_a_ping_and_critical(body, message):
    parsed = ping(body)

    assert (parsed.alert_type, parsed.message, parsed.is_ping) == (AlertType.CRITICAL, message, True)


def test_a_broken_object_sent_to_a_heartbeat_is_refused():
    with pytest.raises(BadBody):
        ping(b"{status: failed}")


def test_the_alert_about_a_missing_ping_has_the_entity_of_pings_and_is_no_ping():
    since = datetime(2026, 3, 4, 12, tzinfo=UTC)
    body = heartbeat.build_missing('Backup "night"', since, timedelta(hours=24), timedelta(seconds=90))
    (parsed,) = STORED_SOURCES[heartbeat.MISSING_PING].parse(RequestBody(body))

    assert parsed.message == 'No ping from Backup "night" since 2026-03-04 12:00:00 UTC'
    assert parsed.summary == "A ping is expected every 1 d, and can be late by 90 s."
    assert (parsed.alert_type, parsed.entity_id, parsed.is_ping) == (AlertType.CRITICAL, "heartbeat", False)
    assert parsed.is_own


@pytest.mark.parametrize("body", [b'{"status": "missing"}', b"status=missing", b'{"status": "Missing"}'])
def test_a_sender_cannot_speak_as_tocsin(body):
    """The report of a missing ping would not count as a ping. From a sender, it is a reported failure."""
    parsed = ping(body)

    assert (parsed.alert_type, parsed.is_ping, parsed.is_own) == (AlertType.CRITICAL, True, False)
    assert heartbeat.MISSING_PING not in SOURCES


def test_a_lone_surrogate_in_the_place_of_a_truth_value_is_no_failure():
    body = b'{"message": "m", "suppressed": "\\ud800", "alerts": [{"fingerprint": "a", "status": "\\udfff"}]}'

    def check(name):
        decoded = RequestBody(body)
        decoded.decode_json()

        assert try_to_parse(SOURCES[name], decoded) == try_to_parse(SOURCES[name], RequestBody(body))
        try_to_count(SOURCES[name], body)

    assert list_offenders(check, SOURCES) == []
