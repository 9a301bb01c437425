"""Connections that clients keep: whatever is sent with a request, the next one is answered over it too."""

import http.client
import json

import pytest


@pytest.mark.parametrize("path", ["/healthz", "/api/account/teams/", "/api/nowhere/"])
@pytest.mark.parametrize("body", [b"{}", b"x" * 200_000], ids=["small", "large"])
def test_a_body_that_nobody_wanted_ends_no_connection(instance, path, body):
    token = json.loads((instance.home / "credentials.json").read_text())["token"]
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=10)
    try:
        for _ in range(60):
            connection.request("GET", path, body, headers)
            assert connection.getresponse().read()
    finally:
        connection.close()
