"""Bodies in and out: what is tolerated, what is refused, and never a 500."""

import http.client
import threading

import pytest
import xmltodict
from werkzeug.serving import make_server

TEAMS = "/api/account/teams/"


@pytest.fixture
def priorities(world) -> str:
    return f"{TEAMS}{world.team.unique_id}/priority/"


@pytest.mark.parametrize(
    "kind", [None, "application/json", "text/plain", "application/x-www-form-urlencoded", "x"]
)
def test_a_body_is_json_whatever_it_is_called(ask, kind):
    made = ask("POST", TEAMS, data='\ufeff{"name": "Search"}'.encode(), content_type=kind)

    assert made.status_code == 201
    assert made.mimetype == "application/json"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("data", [b"{}", b"", b"not json", b"[" * 5000])
def test_a_body_where_none_belongs_is_not_looked_at(ask, world, method, data):
    answer = ask(method, f"{TEAMS}{world.team.unique_id}/", data=data, content_type="application/json")

    assert answer.status_code in (200, 204)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"7", b'"text"', b"{", b"not json", b'{"name": NaN}', b"[" * 100_000,
        b'{"name":' * 5_000, b'{"name": "\\ud800"}', b"\xff\xfe", b'{"name": 1e999}', b'{"name": {}}',
        b'{"name": ' + b"9" * 5_000 + b"}", b"\x00",
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_are_refused_in_the_contracts_shape(ask, data):
    refused = ask("POST", TEAMS, data=data, content_type="application/json")

    assert refused.status_code == 400
    assert refused.json == {"detail": "This request can not be processed."}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"<root/>", b"<root><name/></root>", b"<root>", b"<" * 5_000, b"<a>" * 50_000,
        b"<a>" * 5_000 + b"</a>" * 5_000, b"<root><name><b>x</b></name></root>", b"<a/><b/>", b"\x00",
        b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><root><name>&b;</name></root>',
        b'<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><root><name>&f;</name></root>',
        b'<?xml version="1.0" encoding="none-such"?><root><name>x</name></root>',
        b'<?xml version="1.0" encoding="hex"?><root><name>x</name></root>',
    ],
)  # fmt: skip
def test_xml_that_cannot_be_is_refused(ask, data):
    assert ask("POST", TEAMS, data=data, content_type="application/xml").status_code == 400


def test_xml_goes_in_and_comes_out(ask, world):
    body = (
        "<root><name>Gold</name><acknowledge_time>60</acknowledge_time><resolve_time/><escalations><list-item>"
        f"<time>-5</time><type>1</type><responders><list-item><user>{world.bob.username}</user></list-item>"
        "</responders></list-item></escalations></root>"
    )
    path = f"{TEAMS}{world.team.unique_id}/sla/"
    xml = {"Accept": "application/xml"}

    made = ask("POST", path, data=body, content_type="application/xml", headers=xml)
    listed = ask("GET", path).json

    assert made.status_code == 201
    assert made.mimetype == "application/xml"
    read = xmltodict.parse(made.data)["root"]
    assert (read["name"], read["acknowledge_time"], read["resolve_time"]) == ("Gold", "60", None)
    assert read["escalations"]["list-item"]["time"] == "-5"
    assert [sla["unique_id"] for sla in listed] == [read["unique_id"]]
    assert "<root><list-item>" in ask("GET", path, headers=xml).text


def test_xml_answers_hold_what_xml_can_hold(ask, priorities):
    ask("POST", priorities, {"name": "a<b>&\x01\x0b\ufffe]]>"})

    answer = ask("GET", priorities, headers={"Accept": "text/xml"})

    assert xmltodict.parse(answer.data)["root"]["list-item"]["name"] == "a<b>&]]>"


def test_keys_that_are_no_xml_names_are_kept_as_attributes():
    from web import xml

    shown = xml.render({"a b": 1, "1": {"<": None}, 'x"y\x00': True, "": [1, 2.5]})

    read = xmltodict.parse(shown)["root"]["entry"]
    assert [entry["@name"] for entry in read] == ["a b", "1", 'x"y', ""]


def test_errors_are_xml_too(ask):
    refused = ask("GET", "/api/nowhere/", headers={"Accept": "application/xml"})

    assert xmltodict.parse(refused.data) == {"root": {"detail": "Not Found."}}


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/html", "application/xml;q=0", "x"])
def test_everybody_else_gets_json(ask, accept):
    assert ask("GET", TEAMS, headers={"Accept": accept}).mimetype == "application/json"


def test_a_body_may_have_one_mebibyte(ask):
    fits = b'{"name": "x", "more": "' + b"x" * (1024 * 1024 - 30) + b'"}'

    assert ask("POST", TEAMS, data=fits).status_code == 201
    refused = ask("POST", TEAMS, data=fits + b" " * 100)
    assert refused.status_code == 413
    assert refused.json == {"detail": "The request body is too large."}


@pytest.mark.parametrize("path", [TEAMS, "/api/events/{key}/"])
def test_half_a_body_is_refused(ask, world, path):
    """The server hands over what came until the sender went, as if that were all."""
    cut = {"CONTENT_LENGTH": "100", "wsgi.input_terminated": True}
    body = b'{"name": "x", "message": "x"}'

    refused = ask(
        "POST", path.format(key=world.integration.integration_key), data=body, environ_overrides=cut
    )

    assert (refused.status_code, refused.json) == (400, {"detail": "This request can not be processed."})


def test_a_chunked_body_may_have_no_more(app, world):
    """Nobody says beforehand how long it will be."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    headers = {"Authorization": f"Bearer {world.tokens['alice']}", "Connection": "close"}
    try:
        small, large = (
            _post_in_chunks(server.server_port, headers, chunks)
            for chunks in ([b'{"name":', b' "Search"}'], [b"x" * 65536] * 32)
        )
    finally:
        server.shutdown()
        server.server_close()

    assert (small, large) == (201, 413)


def _post_in_chunks(port: int, headers: dict[str, str], chunks: list[bytes]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", TEAMS, iter(chunks), headers, encode_chunked=True)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/api/nowhere/", "/", "//", "/api//account/teams/", "/api/account/teams/x/y/"]
)
def test_paths_that_lead_nowhere(ask, path):
    assert ask("GET", path).json == {"detail": "Not Found."}


def test_the_last_slash_may_be_missing_and_nothing_is_redirected(ask, world):
    assert ask("GET", TEAMS.rstrip("/")).status_code == 200
    assert ask("GET", f"{TEAMS}{world.team.unique_id}").status_code == 200
    assert ask("POST", TEAMS.rstrip("/"), {"name": "Search"}).status_code == 201


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PUT", "HEAD", "TRACE", "FOO"])
def test_methods_that_are_not_served(ask, method):
    refused = ask(method, TEAMS)

    assert refused.status_code == 405
    assert set(refused.headers["Allow"].split(", ")) >= {"GET", "POST", "OPTIONS"}
    if method != "HEAD":
        assert refused.json == {"detail": "Method not allowed."}


def test_options_tell_what_is_served(ask):
    answer = ask("OPTIONS", TEAMS, who=None)

    assert (answer.status_code, answer.headers["Allow"]) == (200, "POST, GET, OPTIONS")


def test_fields_are_named_only_to_who_wants_to_know(ask):
    told = {
        "detail": "This request can not be processed.",
        "errors": {"name": ["Missing data for required field."]},
    }

    assert ask("POST", TEAMS, {}).json == {"detail": told["detail"]}
    assert ask("POST", TEAMS, {}, word="Token").json == told
    assert ask("POST", TEAMS, {}, headers={"Prefer": "respond-async, errors"}).json == told


def test_an_unexpected_failure_says_nothing_and_logs_no_data(ask, app, caplog, monkeypatch):
    from web import teams

    def fail(self, parent):
        raise RuntimeError("secret text of a user")

    monkeypatch.setattr(teams.Teams, "rows", fail)

    refused = ask("GET", TEAMS)

    assert (refused.status_code, list(refused.json)) == (500, ["detail"])
    assert "secret" not in refused.text + caplog.text
    assert "RuntimeError in GET /api/account/teams/" in caplog.text


def test_forwarded_headers_change_no_link(ask, world):
    team = f"{TEAMS}{world.team.unique_id}"
    path = f"{team}/services/{world.service.unique_id}/integrations/"
    forged = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "gopher"}

    (integration,) = ask("GET", path, headers=forged).json

    assert integration["webhook_url"] == (
        f"https://tocsin.example.org/api/integration/generic/{world.integration.integration_key}/"
    )
