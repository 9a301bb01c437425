"""A keep-alive connection serves the next request, whatever the body of the request before it was."""

import http.client
import json

import pytest


@pytest.mark.parametrize("path", ["/healthz", "/api/account/teams/", "/api/nowhere/"])
@pytest.mark.parametrize("body", [b"{}", b"x" * 200_000], ids=["small", "large"])
def test_an_unread_body_does_not_end_the_connection(instance, path, body):
    token = json.loads((instance.home / "credentials.json").read_text())["token"]
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=10)
    try:
        for _ in range(60):
            connection.request("GET", path, body, headers)
            assert connection.getresponse().read()
    finally:
        connection.close()
