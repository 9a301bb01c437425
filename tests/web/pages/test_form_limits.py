"""Forms are bounded before they are parsed, and a stranger's form is not read at all."""

import io

import pytest
from werkzeug import formparser

from web.http.limits.inputs import MAX_FIELDS, PAGE_BYTES
from web.pages import forms
from web.routes import PAGES, POSTMORTEM_BYTES, ROUTES

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def parsed(monkeypatch):
    """The bodies that were parsed as forms."""
    found = []
    real = formparser.parse_qsl

    def parse(text, **more):
        found.append(text)
        return real(text, **more)

    monkeypatch.setattr(formparser, "parse_qsl", parse)
    return found


def post(app, path, body, content_type=FORM, **environ):
    client = app.test_client()
    client.set_cookie("__Host-tocsin-form", "secret")
    return client.post(path, data=body, content_type=content_type, **environ)


@pytest.mark.parametrize("path", ["/sign-in/", "/join/x", "/sign-in/link/x", "/sign-in/mail/", "/mine/"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"a&" * 524_288, 413, id="1 MiB of fields"),
        pytest.param(b"a=" + b"x" * PAGE_BYTES, 413, id="more than 64 KB"),
        pytest.param(b"a&" * MAX_FIELDS, 400, id="too many fields"),
    ],
)
def test_a_form_that_is_too_large_is_refused_before_it_is_parsed(app, parsed, path, body, status):
    assert post(app, path, body).status_code == status
    assert parsed == []


def test_a_chunked_form_is_not_truncated_to_the_limit(app, parsed):
    body = io.BytesIO(b"a=" + b"x" * PAGE_BYTES)
    chunked = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}

    answer = app.test_client().open(
        "/join/x", method="POST", input_stream=body, content_type=FORM, environ_overrides=chunked
    )

    assert answer.status_code == 413
    assert parsed == []


def test_a_form_with_as_many_fields_as_allowed_is_read(app, parsed):
    assert post(app, "/join/x", "&".join("a=1" for _ in range(MAX_FIELDS))).status_code == 404
    assert len(parsed) == 1


@pytest.mark.parametrize("path", ["/sign-in/", "/join/x"])
def test_no_page_reads_a_form_with_parts(app, path):
    body = b"--x\r\n" + b"a: b\r\n" * 170_000

    assert post(app, path, body[: PAGE_BYTES - 1], "multipart/form-data; boundary=x").status_code == 415


@pytest.mark.parametrize("path", ["/sign-in/", "/sign-in/mail/", "/sign-in/link/x", "/sign-in/passkey/"])
def test_without_a_cookie_no_body_is_read(app, path):
    body = io.BytesIO(b"csrf=x")

    answer = app.test_client().post(path, content_type=FORM, environ_overrides={"wsgi.input": body})

    assert (answer.status_code, body.tell()) == (403, 0)


def test_only_the_postmortem_accepts_more_and_only_with_a_session(app):
    body = "text=" + "x" * (PAGE_BYTES + 1)

    assert {route.max_bytes for route in PAGES} == {PAGE_BYTES, POSTMORTEM_BYTES}
    assert [route.name for route in PAGES if route.max_bytes == POSTMORTEM_BYTES] == ["postmortem_save"]
    assert post(app, "/incidents/1/postmortem/", body).status_code == 413


def test_each_page_behind_a_link_is_bounded():
    assert {route.max_bytes for route in ROUTES if route.tag == "Pages"} == {PAGE_BYTES}


def test_the_token_in_a_header_needs_no_form(app):
    token = forms.mask_token(forms.derive_token("s"))
    with app.test_request_context(
        "/", method="POST", headers={forms.HEADER: token, "Cookie": "__Host-tocsin-form=s"}
    ):
        assert forms.has_valid_token()
