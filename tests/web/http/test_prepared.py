"""Answers that are prepared once: compressed for those who accept it, and sent only if they are new."""

import gzip

import pytest

DESCRIPTION = "/api/openapi.json"


@pytest.fixture
def fetch(ask):
    return lambda **headers: ask("GET", DESCRIPTION, who=None, headers=headers)


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br", "br;q=1.0, gzip;q=0.5", "*"])
def test_it_is_compressed_for_a_client_that_accepts_it(fetch, accepted):
    plain = fetch()

    answer = fetch(**{"Accept-Encoding": accepted})

    assert (answer.status_code, answer.headers["Content-Encoding"]) == (200, "gzip")
    assert gzip.decompress(answer.data) == plain.data
    assert int(answer.headers["Content-Length"]) == len(answer.data) < len(plain.data) / 5


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0"])
def test_it_is_plain_for_all_others(fetch, accepted):
    answer = fetch(**{"Accept-Encoding": accepted})

    assert "Content-Encoding" not in answer.headers
    assert answer.json["openapi"] == "3.1.0"


def test_a_cache_keeps_both_forms_apart_and_asks_again(fetch):
    answer = fetch()

    assert (answer.headers["Vary"], answer.headers["Cache-Control"]) == ("Accept-Encoding", "no-cache")


@pytest.mark.parametrize("accepted", ["", "gzip"])
def test_a_client_that_has_it_gets_no_body(fetch, accepted):
    etag = fetch().headers["ETag"]

    answer = fetch(**{"Accept-Encoding": accepted, "If-None-Match": etag})

    assert (answer.status_code, answer.data) == (304, b"")
    assert answer.headers["ETag"] == etag


def test_a_client_that_has_another_gets_it(fetch):
    assert fetch(**{"If-None-Match": 'W/"another"'}).status_code == 200
