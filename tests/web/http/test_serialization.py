"""Bodies of requests and answers: accepted and refused forms, and never a 500."""

import http.client
import itertools
import threading

import peewee
import pytest
from werkzeug.serving import make_server

from tests.support.offenders import list_offenders
from web.http import serialization

TEAMS = "/api/account/teams/"


@pytest.fixture
def priorities(world) -> str:
    return f"{TEAMS}{world.team.unique_id}/priority/"


@pytest.mark.parametrize(
    "kind", [None, "application/json", "text/plain", "application/x-www-form-urlencoded", "x"]
)
def test_a_body_is_read_as_json_for_any_other_content_type(ask, kind):
    made = ask("POST", TEAMS, data='\ufeff{"name": "Search"}'.encode(), content_type=kind)

    assert made.status_code == 201
    assert made.mimetype == "application/json"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("data", [b"{}", b"", b"not json", b"[" * 5000])
def test_an_unexpected_body_is_ignored(ask, world, method, data):
    answer = ask(method, f"{TEAMS}{world.team.unique_id}/", data=data, content_type="application/json")

    assert answer.status_code in (200, 204)


INVALID_BODIES = [
    b"", b"{}", b"[]", b"null", b"7", b'"text"', b"{", b"not json", b'{"name": NaN}', b"[" * 100_000,
    b'{"name":' * 5_000, b'{"name": "\\ud800"}', b"\xff\xfe", b'{"name": 1e999}', b'{"name": {}}',
    b'{"name": ' + b"9" * 5_000 + b"}", b"\x00",
]  # fmt: skip


def test_invalid_bodies_get_the_error_of_the_contract(ask):
    def check(data):
        refused = ask("POST", TEAMS, data=data, content_type="application/json")

        assert refused.status_code == 400
        assert refused.json["detail"] == "This request can not be processed."
        assert all(refused.json["errors"].values())

    assert list_offenders(check, INVALID_BODIES, lambda data: repr(data[:40])) == []


def test_a_body_of_blanks_is_refused_and_none_changes_nothing(ask, world):
    team = f"{TEAMS}{world.team.unique_id}/"

    assert ask("PATCH", team, data=b"", content_type="application/json").status_code == 200
    assert ask("PATCH", team, data=b"\r\n\r\n", content_type="application/json").status_code == 400


JSON, XML, TEXT_XML = "application/json", "application/xml", "text/xml"


PREFERENCES = [
    ("", JSON), ("*/*", JSON), (JSON, JSON), ("application/*", JSON), ("text/html", JSON), ("x", JSON),
    (XML, XML), (TEXT_XML, TEXT_XML), ("APPLICATION/XML", XML), ("text/*", TEXT_XML),
    (f"{XML}; charset=utf-8", XML), (f"{JSON}; charset=utf-8, {XML}; q=0.1", JSON),
    (f"{JSON}; q=0.5, {XML}", XML), (f"{XML}; q=0.5, {JSON}", JSON), (f"{XML}; q=0.5, */*", JSON),
    (f"{XML}, {JSON}", JSON), (f"{XML}, */*", XML), (f"{XML}; q=0.9, {TEXT_XML}", TEXT_XML),
    (f"{XML}; q=0", JSON), (f"*/*, {XML}; q=0", JSON), (f"{JSON}; q=0, */*", XML), (f"{XML}; q=x", JSON),
    ("*/*; q=0", JSON), ("application/problem+xml", JSON), (f"text/html, {XML}; q=0.9, */*; q=0.8", XML),
]  # fmt: skip


def test_the_answer_has_the_preferred_content_type(ask):
    """JSON is the default: without a preference, for equal preferences, or for unsupported types."""

    def check(case):
        (accept_type, kind), status = case
        path = TEAMS if status == 200 else "/api/nowhere/"

        answer = ask("GET", path, headers={"Accept": accept_type})

        assert (answer.status_code, answer.mimetype) == (status, kind)

    assert list_offenders(check, itertools.product(PREFERENCES, [200, 404])) == []


@pytest.mark.parametrize(
    "accept_type", [XML, "text/*", f"{JSON}; q=0.1, text/xml", "*/*", f"{JSON}, text/plain, */*"]
)
def test_the_answer_to_an_alert_has_the_preferred_content_type(ask, world, accept_type):
    path = f"/integration/{world.account.account_identifier}/generic/{world.integration.integration_key}/"

    taken = ask("POST", path, {"message": "x"}, who=None, headers={"Accept": accept_type})

    assert taken.status_code == 200
    assert (b"<message>success</message>" in taken.data) == (taken.mimetype != JSON)
    assert (taken.mimetype == JSON) == accept_type.endswith("*/*")


@pytest.mark.parametrize("path", ["/integration/{account}/generic/{key}/", "/api/events/{key}/"])
def test_alerts_are_json_only(ask, world, path):
    path = path.format(account=world.account.account_identifier, key=world.integration.integration_key)

    refused = ask("POST", path, data="<root><message>x</message></root>", content_type=XML, who=None)

    assert refused.status_code == 400


def test_a_body_has_at_most_one_mebibyte(ask):
    fits = b'{"name": "x", "more": "' + b"x" * (1024 * 1024 - 30) + b'"}'

    assert ask("POST", TEAMS, data=fits).status_code == 201
    refused = ask("POST", TEAMS, data=fits + b" " * 100)
    assert refused.status_code == 413
    assert refused.json == {"detail": "The request body is too large."}


@pytest.mark.parametrize("path", [TEAMS, "/api/events/{key}/"])
def test_an_incomplete_body_is_refused(ask, world, path):
    """The server passes on the received part of the body without an error if the sender disconnects."""
    truncated = {"CONTENT_LENGTH": "100", "wsgi.input_terminated": True}
    body = b'{"name": "x", "message": "x"}'

    refused = ask(
        "POST", path.format(key=world.integration.integration_key), data=body, environ_overrides=truncated
    )

    assert (refused.status_code, refused.json["detail"]) == (400, "This request can not be processed.")
    assert refused.json["errors"] == {"body": ["The body is shorter than its Content-Length."]}


def test_a_chunked_body_has_the_same_limit(app, world):
    """A chunked request does not state the length of its body."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    headers = {"Authorization": f"Bearer {world.tokens['alice']}", "Connection": "close"}
    try:
        small, large = (
            _send_in_chunks(server.server_port, headers, chunks)
            for chunks in ([b'{"name":', b' "Search"}'], [b"x" * 65536] * 32)
        )
    finally:
        server.shutdown()
        server.server_close()

    assert (small, large) == (201, 413)


def _send_in_chunks(port: int, headers: dict[str, str], chunks: list[bytes]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", TEAMS, iter(chunks), headers, encode_chunked=True)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/api/nowhere/", "/", "//", "/api//account/teams/", "/api/account/teams/x/y/"]
)
def test_an_unknown_path_is_not_found(ask, path):
    assert ask("GET", path).json == {"detail": "Not Found."}


def test_a_path_without_its_last_slash_is_not_redirected(ask, world):
    assert ask("GET", TEAMS.rstrip("/")).status_code == 200
    assert ask("GET", f"{TEAMS}{world.team.unique_id}").status_code == 200
    assert ask("POST", TEAMS.rstrip("/"), {"name": "Search"}).status_code == 201


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PUT", "TRACE", "FOO"])
def test_a_method_that_is_not_served_is_refused(ask, method):
    refused = ask(method, TEAMS)

    assert refused.status_code == 405
    assert set(refused.headers["Allow"].split(", ")) >= {"GET", "POST", "OPTIONS"}
    assert refused.json == {"detail": "Method not allowed."}


def test_options_lists_the_served_methods(ask):
    answer = ask("OPTIONS", TEAMS, who=None)

    assert (answer.status_code, answer.headers["Allow"]) == (200, "POST, GET, HEAD, OPTIONS")


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_errors_name_the_field_and_the_reason_in_both_profiles(ask, scheme):
    refused = ask("POST", TEAMS, {}, scheme=scheme)

    assert refused.status_code == 400
    assert refused.json == {
        "detail": "This request can not be processed.",
        "errors": {"name": ["Missing data for required field."]},
    }


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_errors_name_the_field_in_xml_too(ask, scheme):
    refused = ask("POST", TEAMS, {}, scheme=scheme, headers={"Accept": XML})

    assert (refused.status_code, refused.mimetype) == (400, XML)
    assert b"<errors><name><list-item>Missing data for required field.</list-item></name>" in refused.data


def test_a_conflict_with_another_request_names_the_body(ask, monkeypatch):
    from web.teams import teams

    def conflict(self, parent, values):
        raise peewee.IntegrityError("a row is gone")

    monkeypatch.setattr(teams.Teams, "insert", conflict)
    refused = ask("POST", TEAMS, {"name": "Search"})

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["body"])


def test_an_unexpected_error_shows_and_logs_no_data(ask, app, caplog, monkeypatch):
    from web.teams import teams

    def fail(self, parent):
        raise RuntimeError("secret text of a user")

    monkeypatch.setattr(teams.Teams, "select_rows", fail)

    refused = ask("GET", TEAMS)

    assert (refused.status_code, list(refused.json)) == (500, ["detail"])
    assert "secret" not in refused.text + caplog.text
    assert "RuntimeError in GET /api/account/teams/" in caplog.text


def test_forwarded_headers_do_not_change_links(ask, world):
    team = f"{TEAMS}{world.team.unique_id}"
    path = f"{team}/services/{world.service.unique_id}/integrations/"
    forged = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "gopher"}

    (integration,) = ask("GET", path, headers=forged).json

    assert integration["webhook_url"] == (
        f"https://tocsin.example.org/api/integration/generic/{world.integration.integration_key}/"
    )


def test_a_body_of_very_many_objects_and_lists_is_not_parsed(ask, monkeypatch):
    def parse(data):
        raise AssertionError("the body was parsed")

    monkeypatch.setattr(serialization.orjson, "loads", parse)
    body = b'{"title":[' + b"[]," * serialization.MAX_CONTAINERS + b"0]}"

    answer = ask("POST", "/api/incidents/", data=body, content_type="application/json")

    assert (answer.status_code, answer.json["errors"]) == (
        400,
        {"body": [f"Has more than {serialization.MAX_CONTAINERS:,} objects and lists."]},
    )
