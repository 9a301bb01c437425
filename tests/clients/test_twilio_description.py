"""SMS and calls are requests that Twilio's own description of its interface allows."""

import contextlib
import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from pipeline.messages.content import Action, LabelledLink, MessageContent
from tests.support.polling import wait_until
from tests.support.processes import find_free_port
from tests.support.requirements import skip_or_fail
from tests.support.scenarios.phone import ALICES_NUMBER, build_settings
from workers.delivery.channels import phone, sms
from workers.delivery.transport.channel import OutgoingMessage, Refused

MODULES = Path(__file__).parents[2] / ".venv/twilio/node_modules"
PRISM = MODULES / "@stoplight/prism-cli/dist/index.js"
DESCRIPTION = MODULES / "@twilio/cli-core/src/services/twilio-api/twilio_api_v2010.json"
ACCOUNT = "/2010-04-01/Accounts/{AccountSid}"

LINK = LabelledLink("Open", "https://tocsin.example.org/i/x", actions=(Action("acknowledge", "t"),))
CHANNELS = {"Messages": sms, "Calls": phone}


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture(scope="module")
def description(tmp_path_factory):
    """Return the file with Twilio's description of the two operations: the whole one takes long to read."""
    if not PRISM.exists() or shutil.which("node") is None:
        skip_or_fail("Prism is not installed: make twilio-description")
    whole = json.loads(DESCRIPTION.read_text())
    whole["paths"] = {path: whole["paths"][path] for path in (f"{ACCOUNT}/{name}.json" for name in CHANNELS)}
    file = tmp_path_factory.mktemp("twilio") / "description.json"
    file.write_text(json.dumps(whole))
    return file


@pytest.fixture(scope="module")
def prism(description):
    """Run a server that answers as the description says, and refuses what it does not allow."""
    port = find_free_port()
    command = ["node", str(PRISM), "mock", "--errors", "-h", "127.0.0.1", "-p", str(port), str(description)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or is_listening(port))
            assert process.poll() is None
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture
def message(now):
    content = MessageContent("[Checkout] #1 Disk full on db1", ("Disk full",), links=(LINK,))
    return OutgoingMessage("id", ALICES_NUMBER, content, now, "K7PM")


@pytest.mark.parametrize("name", CHANNELS)
def test_the_description_allows_the_request(prism, message, name):
    accepted = CHANNELS[name].create_channel(build_settings(prism)).create_connection().send(message)

    assert (accepted.provider, str(accepted.reason)) == ("twilio", "Accepted by twilio (201).")


@pytest.mark.parametrize("name", CHANNELS)
def test_each_field_of_the_request_is_in_the_description(description, message, name):
    channel = CHANNELS[name].create_channel(build_settings("http://127.0.0.1:1"))
    fields = channel.build_fields(message, channel.accounts[0], channel.settings.public_url)
    operation = json.loads(description.read_text())["paths"][f"{ACCOUNT}/{name}.json"]["post"]
    (form,) = operation["requestBody"]["content"].values()

    assert set(fields) <= set(form["schema"]["properties"])
    assert set(form["schema"]["required"]) <= set(fields)


@pytest.mark.parametrize("name", CHANNELS)
def test_a_request_that_the_description_does_not_allow_is_refused(prism, message, name):
    channel = CHANNELS[name].create_channel(build_settings(prism))
    channel.build_fields = lambda *_: {"Body": "no recipient"}
    with pytest.raises(Refused):
        channel.create_connection().send(message)
