"""Peers get the same alerts, and are measured by the webhooks that reached their sink."""

import json
from http.client import HTTPConnection

import pytest

from bench.peers import PEERS, PeerUnavailable, alerta, alertmanager
from bench.peers.child import child
from bench.peers.webhooks import WebhookSink
from bench.traffic import GENERIC, Traffic, Way


def one(body: bytes) -> bytes:
    return next(Traffic("bench1234abcd", 1, 1, 1, body).requests("http://127.0.0.1/")).raw.partition(
        b"\r\n\r\n"
    )[2]


@pytest.mark.parametrize(
    "body", [GENERIC, alerta.SINGLE_BODY, alertmanager.SINGLE_BODY], ids=["ours", *PEERS]
)
def test_all_targets_get_alerts_of_about_the_same_size(body):
    sent = one(body)

    assert 860 <= len(sent) <= 960
    assert "bench1234abcd-0" in json.dumps(json.loads(sent))


def test_an_entity_uses_only_one_address():
    urls = [f"http://127.0.0.1/{number}" for number in range(3)]

    paths = {(request.entities[0], request.raw.split()[1]) for request in Traffic("r", 70, 7).requests(*urls)}

    assert len(paths) == 7
    assert {path for _, path in paths} == {b"/0", b"/1", b"/2"}


def test_an_entity_of_groups_uses_only_one_address():
    urls = [f"http://127.0.0.1/{number}" for number in range(3)]
    groups = Traffic("r", 60, 30, batch=5, way=Way.ALERTMANAGER)

    paths = {
        (name, request.raw.split()[1]) for request in groups.requests(*urls) for name in request.entities
    }

    assert len(paths) == 30
    assert {path for _, path in paths} == {b"/0", b"/1", b"/2"}


def test_groups_that_would_send_an_entity_to_two_addresses_are_refused():
    with pytest.raises(ValueError, match="not a multiple"):
        next(Traffic("r", 60, 7, batch=5, way=Way.ALERTMANAGER).requests("http://a/", "http://b/"))


def test_only_the_alertmanager_webhook_accepts_groups():
    with pytest.raises(ValueError, match="one alert"):
        next(Traffic("r", 60, 30, batch=5, way=Way.EVENT).requests("http://a/"))


def test_a_webhook_is_stored_with_its_entity():
    group = {"receiver": "sink", "groupLabels": {"alertname": "DiskAlmostFull", "disk": "run-7"}}
    with WebhookSink() as sink:
        talk = HTTPConnection("127.0.0.1", sink.port)
        for _ in range(2):
            talk.request("POST", "/", json.dumps(group, separators=(",", ":")))
            assert talk.getresponse().read() == b""
        talk.close()

        assert sink.count() == 2
        assert [name for name, _ in sink.arrivals()] == ["run-7", "run-7"]


def test_a_program_that_ends_at_once_is_unavailable_with_its_last_output(tmp_path):
    with (
        pytest.raises(PeerUnavailable, match="peer did not start: no luck"),
        child("peer", ["/bin/sh", "-c", "echo no luck"], 1, tmp_path),
    ):
        pass


def test_a_missing_program_is_unavailable(tmp_path):
    with (
        pytest.raises(PeerUnavailable, match="cannot be started"),
        child("peer", ["/nowhere/at/all"], 1, tmp_path),
    ):
        pass
