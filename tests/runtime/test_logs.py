"""Logs contain no token, key or address, from our code or from libraries."""

import json
import subprocess
import sys

import pytest

from runtime.logs import HIDDEN, hide_secrets, redact

TOKEN = "Gx3-9fZq_7Lw0aVbN2cR5tY8uI1oP4sD6hJ_kM-eQvX"
KEY = "6e4e6d1e-8e1c-4722-a7a0-331323c2d6bb"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        pytest.param(TOKEN, f"Authorization: Bearer {TOKEN}", id="bearer"),
        pytest.param("0123456789abcdefXYZ", "Token 0123456789abcdefXYZ was refused", id="foreign token"),
        pytest.param(TOKEN, f"no such token: {TOKEN}", id="bare token"),
        pytest.param(KEY, f"POST /api/events/{KEY}/ 500", id="events path"),
        pytest.param(KEY, f"Exception on /api/integration/prometheus/{KEY}/ [POST]", id="webhook path"),
        pytest.param(KEY, f"/integration/ab1cd/generic/{KEY}", id="webhook path with account"),
        pytest.param(KEY, f"Key (integration_key)=({KEY}) already exists", id="text of PostgreSQL"),
        pytest.param("alice@example.org", "refused: <alice@example.org>", id="address"),
        pytest.param("+491701234567", "cannot call +491701234567.", id="phone number"),
        pytest.param("hunter2", "redis://:hunter2@redis.example.org:6379/0", id="url with a password"),
        pytest.param("eyJ" + "x" * 60, f"GET /i/eyJ{'x' * 60}/ack", id="signed link"),
    ],
)
def test_secrets_in_a_text_are_hidden(secret, text):
    assert secret not in hide_secrets(text)
    assert HIDDEN in hide_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "dead letter: ValueError at normalize",
        f"trace {KEY}",
        "2026-03-04T12:00:00+00:00",
        "/var/lib/tocsin/credentials.json",
    ],
)
def test_a_text_without_secrets_stays_unchanged(text):
    assert hide_secrets(text) == text


def test_fields_that_hold_secrets_are_hidden_by_name():
    event = {"event": "sent", "email": "x", "token": "y", "deep": {"password": "z"}, "count": 3}

    assert redact(None, "", event) == {
        "event": "sent",
        "email": HIDDEN,
        "token": HIDDEN,
        "deep": {"password": HIDDEN},
        "count": 3,
    }


LOGGING = """
import logging, threading, warnings, structlog
from runtime import logs
logs.configure("info", "test")
logging.getLogger("dramatiq.worker").error("failed for %s", "alice@example.org")
structlog.get_logger().info("kept", key_path="/api/events/{key}/", contact="+491701234567")
try:
    raise ValueError("bad token {token}")
except ValueError:
    structlog.get_logger().exception("caught")
def work():
    raise KeyError("/api/events/{key}/")
thread = threading.Thread(target=work); thread.start(); thread.join()
raise RuntimeError("alice@example.org")
"""


@pytest.mark.processes
def test_the_logs_of_a_process_are_json_without_secrets():
    code = LOGGING.replace("{key}", KEY).replace("{token}", TOKEN)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)

    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["event"] for line in lines] == [
        f"failed for {HIDDEN}",
        "kept",
        "caught",
        "uncaught error",
        "uncaught error",
    ]
    assert not [secret for secret in (KEY, TOKEN, "alice@", "+4917") if secret in ended.stderr]
    assert {line["process"] for line in lines} == {"test"}


# The text is an argument, because the stack may show the lines of the program.
FAILING = """
import sys
import structlog
from runtime import logs
logs.configure("info", "test")
try:
    try:
        open("/dev/null/" + sys.argv[1])
    except OSError as error:
        raise ValueError(sys.argv[1]) from error
except ValueError:
    structlog.get_logger().exception("failed")
"""


@pytest.mark.processes
def test_an_error_is_logged_with_its_class_and_stack_but_without_its_text():
    command = [sys.executable, "-c", FAILING, "what a user wrote"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)

    (line,) = map(json.loads, ended.stderr.splitlines())
    assert "what a user wrote" not in ended.stderr
    assert line["exception"].startswith("ValueError\n")
    assert "after NotADirectoryError (ENOTDIR)\n" in line["exception"]
    assert 'File "<string>", line 8' in line["exception"]
