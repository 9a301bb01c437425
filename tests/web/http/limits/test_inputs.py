"""Headers and queries with thousands of parts are refused before they are parsed."""

import pytest

from web.http.limits.inputs import MAX_PARTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_COOKIE", "a=1;" * 15_000),
        ("CONTENT_TYPE", "a/b;" + "a=1;" * 15_000),
        ("HTTP_ACCEPT", "a/b," * 15_000),
        ("HTTP_ACCEPT", "text/html;" + "q=1;" * 15_000),
        ("HTTP_AUTHORIZATION", "Digest " + "a=b," * 15_000),
        ("HTTP_IF_NONE_MATCH", '"a",' * 15_000),
        ("HTTP_PREFER", "wait=1," * 8_000),
    ],
)
def test_a_header_with_too_many_parts_is_refused(app, name, value):
    answer = app.test_client(use_cookies=False).post("/sign-in/", environ_overrides={name: value})

    assert (answer.status_code, answer.mimetype) == (431, "application/json")


def test_a_query_with_too_many_parts_is_refused(app):
    assert app.test_client().get("/sign-in/?" + "a=1&" * 15_000).status_code == 431


def test_usual_headers_pass(app):
    headers = {"Cookie": "; ".join(f"c{number}={'x' * 200}" for number in range(60)), "Accept": "a/b," * 50}

    assert app.test_client().get(f"/sign-in/?next={'a,;' * MAX_PARTS}", headers=headers).status_code == 200
