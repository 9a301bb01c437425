"""A receipt keeps the headers that its source reads, and a form as it was sent."""

import pytest

from models.domain.values import replace
from models.tables.events import Event, Receipt
from models.tables.services import Integration
from pipeline.alert import ParsedAlert
from pipeline.sources.reading import generic
from pipeline.sources.table import MAX_HEADER_BYTES, SOURCES, STORED_SOURCES
from workers.alerts import process_lane

SIGNED = {"X-Signature": "abc", "Authorization": "Bearer secret", "Cookie": "session=secret"}


@pytest.fixture
def source(monkeypatch):
    """Let the tool `grafana` read two headers, and forms."""

    def parse(body):
        data = body.decode_form() if body.is_form() else generic.decode_object(body)
        signature = body.headers.get("x-signature", "none")
        return [ParsedAlert(message=f"{data['message']}, signed {signature}")]

    known = replace(SOURCES["grafana"], headers=("content-type", "x-signature"), parse=parse)
    for sources in (SOURCES, STORED_SOURCES):
        monkeypatch.setitem(sources, "grafana", known)
    return known


@pytest.fixture
def client(app):
    return app.test_client()


def send(client, world, body, *, path="", **headers):
    key = Integration.get_by_id(world.integration.id).integration_key
    answer = client.post(f"/api/integration/grafana/{key}/{path}", data=body, headers=headers)
    assert answer.status_code == 200
    return Receipt.get()


# The application accepts what the fast path passes on: here a request with preferences.
@pytest.mark.parametrize("more", [{}, {"Prefer": "wait=0"}], ids=["fast path", "application"])
def test_only_the_headers_that_the_source_reads_are_kept(client, world, source, more):
    receipt = send(client, world, b'{"message":"m"}', **SIGNED, **more, **{"Content-Type": "text/json"})

    assert receipt.headers == {"content-type": "text/json", "x-signature": "abc"}


def test_a_source_without_headers_keeps_none(client, world):
    assert send(client, world, b'{"message":"m"}', **SIGNED).headers is None


def test_no_source_reads_credentials():
    names = {name for source in SOURCES.values() for name in source.headers}

    assert names & {"authorization", "cookie", "proxy-authorization", "x-api-key"} == set()
    assert names == {name.lower() for name in names}


def test_headers_beyond_the_limit_are_left_out_and_the_alert_stays(client, world, source):
    receipt = send(client, world, b'{"message":"m"}', **{"X-Signature": "a" * MAX_HEADER_BYTES})

    assert "x-signature" not in (receipt.headers or {})


def test_the_source_reads_a_form_and_the_headers_when_the_alert_is_processed(client, world, source):
    form = {"X-Signature": "abc", "Content-Type": "application/x-www-form-urlencoded"}
    receipt = send(client, world, b"message=Disk+full&other=1", **form)
    process_lane.run(world.service.id)

    assert receipt.body == b"message=Disk+full&other=1"
    assert Event.get().message == "Disk full, signed abc"
