"""The published clients of PagerDuty and Opsgenie send to Tocsin: only their URL and key are changed."""

from contextlib import contextmanager

import opsgenie_sdk
import pagerduty
import pytest

from tests.support.polling import wait_until


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextmanager
def open_pagerduty(receiver, key):
    """Open the client with a URL that it refuses otherwise: the instance of the tests has no TLS."""
    with pagerduty.EventsApiV2Client(key) as client:
        client._url = receiver.url
        yield client


def test_the_client_of_pagerduty_opens_acknowledges_and_resolves_an_incident(create_receiver):
    receiver = create_receiver("pagerduty")
    with open_pagerduty(receiver, receiver.key) as client:
        made = client.trigger("Disk full on db1", "db1", severity="error", custom_details={"used": "97 %"})
        receiver.wait_for(("Disk full on db1", 1))
        assert client.acknowledge(made) == made
        receiver.wait_for(("Disk full on db1", 2))
        assert client.resolve(made) == made
        receiver.wait_for(("Disk full on db1", 3))


def test_the_client_of_pagerduty_reports_an_unknown_key(create_receiver):
    receiver = create_receiver("pagerduty")
    with open_pagerduty(receiver, "0" * 32) as client, pytest.raises(pagerduty.HttpError, match="400"):
        client.trigger("Disk full on db1", "db1")


@pytest.fixture
def opsgenie(create_receiver):
    """Return the alert client of Opsgenie and the integration to which it sends."""
    receiver = create_receiver("opsgenie")
    configuration = opsgenie_sdk.Configuration()
    configuration.host = receiver.url
    configuration.api_key["Authorization"] = receiver.key
    configuration.proxy = None
    api = opsgenie_sdk.ApiClient(configuration=configuration)
    return opsgenie_sdk.AlertApi(api_client=api), receiver


def test_the_client_of_opsgenie_opens_acknowledges_and_closes_an_incident(opsgenie):
    client, receiver = opsgenie
    body = opsgenie_sdk.CreateAlertPayload(message="Disk full on db1", alias="db1/disk", priority="P2")

    created = client.create_alert(create_alert_payload=body)
    assert created.result == "Request will be processed"
    receiver.wait_for(("Disk full on db1", 1))
    client.acknowledge_alert(identifier="db1/disk", identifier_type="alias")
    receiver.wait_for(("Disk full on db1", 2))
    note = opsgenie_sdk.AddNoteToAlertPayload(note="Cleaned /var/tmp")
    client.add_note(identifier="db1/disk", identifier_type="alias", add_note_to_alert_payload=note)
    client.close_alert(identifier="db1/disk", identifier_type="alias")
    receiver.wait_for(("Disk full on db1", 3))


def test_the_client_of_opsgenie_asks_for_the_status_of_its_request(opsgenie):
    client, _ = opsgenie
    body = opsgenie_sdk.CreateAlertPayload(message="Disk full on db1", alias="db1/disk")
    request_id = client.create_alert(create_alert_payload=body).request_id

    def get_status():
        return client.get_request_status(request_id=request_id).data

    wait_until(lambda: get_status().is_success)
    assert (get_status().alias, get_status().action) == ("db1/disk", "Create")


def test_the_client_of_opsgenie_reports_an_unknown_key(opsgenie):
    client, _ = opsgenie
    client.api_client.configuration.api_key["Authorization"] = "0b0a9b4e-0000-4000-8000-000000000000"

    with pytest.raises(opsgenie_sdk.exceptions.AuthenticationException):
        client.create_alert(create_alert_payload=opsgenie_sdk.CreateAlertPayload(message="m"))
