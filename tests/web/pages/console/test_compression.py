"""Pages and their files are compressed for browsers that accept it. Nobody guesses a secret by length."""

import gzip

import pytest

from tests.support.web.browser import TOKEN
from web.pages.compression import MAX_RANDOM_BYTES
from web.pages.static_files import get_path

GZIP = {"Accept-Encoding": "gzip, deflate, br"}
LIST, INCIDENT, MINE = "/", "/incidents/1/", "/mine/"


@pytest.fixture
def alice(sign_in, open_incident):
    open_incident()
    return sign_in("alice")


@pytest.mark.parametrize("path", [LIST, INCIDENT, "/me/sign-in/", "/api/docs"])
def test_a_page_is_compressed_for_a_browser_that_accepts_it(alice, path):
    plain, page = alice.get(path), alice.get(path, **GZIP)

    assert "Content-Encoding" not in plain.headers
    assert (page.status_code, page.headers["Content-Encoding"]) == (200, "gzip")
    assert int(page.headers["Content-Length"]) == len(page.data) < len(plain.data) / 2
    # Nonces and tokens differ, and are always as long.
    assert len(gzip.decompress(page.data)) == len(plain.data)


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "*;q=0", "identity;q=1, gzip;q=0.5"])
def test_a_browser_that_does_not_want_it_gets_a_plain_page(alice, accepted):
    page = alice.get(LIST, **{"Accept-Encoding": accepted})

    assert "Content-Encoding" not in page.headers
    assert page.data.startswith(b"<!doctype html>")


def test_caches_keep_both_forms_of_a_page_apart(alice):
    for headers in ({}, GZIP):
        assert "Accept-Encoding" in alice.get(LIST, **headers).vary


def test_a_poll_with_the_etag_of_a_compressed_page_is_304(alice):
    etag = alice.get(INCIDENT, **GZIP).headers["ETag"]

    answer = alice.get(INCIDENT, **GZIP, **{"If-None-Match": etag})

    assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", etag)
    assert "Accept-Encoding" in answer.vary
    assert etag.startswith('W/"')


def test_the_script_asks_with_the_etag_of_the_page(alice):
    page = alice.get(INCIDENT)

    assert f'data-etag="{page.headers["ETag"].replace(chr(34), "&quot;")}"' in page.text


def test_head_has_the_headers_of_get_and_no_body(alice):
    answer = alice._open("HEAD", LIST, GZIP)

    assert (answer.status_code, answer.data) == (200, b"")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert 0 <= abs(int(answer.headers["Content-Length"]) - len(alice.get(LIST, **GZIP).data)) <= 200


@pytest.mark.parametrize("path", [MINE, "/on-call/"])
def test_a_page_with_a_lasting_secret_is_not_compressed(alice, path):
    page = alice.get(path, **GZIP)

    assert "Anyone with it can read your shifts." in page.text
    assert "Content-Encoding" not in page.headers


def test_the_answer_to_a_form_is_not_compressed(alice):
    """A form can create a secret, and other sites can send no form with the cookie."""
    alice.get("/me/tokens/")

    page = alice._open("POST", "/me/tokens/", GZIP, {"csrf": alice.get_token(), "name": "", "days": "90"})

    assert page.status_code in (200, 400)
    assert "Content-Encoding" not in page.headers


def test_the_length_of_a_compressed_page_varies(alice):
    pages = [alice.get(LIST, **GZIP) for _ in range(12)]

    lengths = {len(page.data) for page in pages}
    assert len(lengths) > 1
    assert max(lengths) - min(lengths) <= MAX_RANDOM_BYTES + 100


def test_no_two_compressed_pages_have_the_same_token(alice):
    texts = [gzip.decompress(alice.get(LIST, **GZIP).data).decode() for _ in range(3)]

    assert len({token for text in texts for token in TOKEN.findall(text)}) == 3


@pytest.mark.parametrize(
    ("name", "is_compressed"), [("tocsin.css", True), ("tocsin.js", True), ("icon.svg", False)]
)
def test_a_file_is_compressed_once_if_that_makes_it_shorter(browser, name, is_compressed):
    plain, file = browser.get(get_path(name)), browser.get(get_path(name), **GZIP)

    assert (file.headers.get("Content-Encoding") == "gzip") is is_compressed
    assert (gzip.decompress(file.data) if is_compressed else file.data) == plain.data
    assert ("Accept-Encoding" in plain.vary) is is_compressed
    assert file.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert browser.get(get_path(name), **{"If-None-Match": file.headers["ETag"]}).status_code == 304


def test_what_an_operation_sends_is_not_compressed(ask):
    answer = ask("GET", "/api/account/users/", headers=GZIP)

    assert (answer.status_code, "Content-Encoding" in answer.headers) == (200, False)
