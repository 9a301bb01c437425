"""The client's address comes from the headers of trusted proxies only."""

import pytest

from tests.support.web.server import run_server
from tocsin.server.granian_worker import trust_proxies

__all__ = ["run_server"]

PROXIES = ("10.0.0.0/8", "fd00::/8", "127.0.0.1/32")


def read_client(peer: str, networks: tuple[str, ...] = PROXIES, **headers: str) -> tuple[str, str]:
    """Return the address and the scheme that the application sees."""
    seen: list[tuple[str, str]] = []

    def app(environ, start):
        seen.append((environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]))
        return []

    trust_proxies(app, networks)({"REMOTE_ADDR": peer, "wsgi.url_scheme": "http", **headers}, None)
    return seen[0]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        pytest.param("10.0.0.1", "203.0.113.7", "203.0.113.7", id="one proxy"),
        pytest.param("10.0.0.1", "203.0.113.7, 10.2.0.1", "203.0.113.7", id="two proxies"),
        pytest.param("10.0.0.1", "1.1.1.1, 203.0.113.7", "203.0.113.7", id="forged before"),
        pytest.param("10.0.0.1", "10.9.9.9, 203.0.113.7, 10.2.0.1", "203.0.113.7", id="forged as a proxy"),
        pytest.param("10.0.0.1", "127.0.0.1,203.0.113.7", "203.0.113.7", id="forged as the host"),
        pytest.param("10.0.0.1", "<script>,,, 203.0.113.7", "203.0.113.7", id="forged rubbish"),
        pytest.param("fd00::1", "2001:db8::5", "2001:db8::5", id="IPv6"),
        pytest.param("10.0.0.1", "10.0.0.3", "10.0.0.3", id="a client in the network of the proxies"),
        pytest.param("10.0.0.1", "", "10.0.0.1", id="empty"),
        pytest.param("203.0.113.9", "10.0.0.1", "203.0.113.9", id="not a proxy"),
        pytest.param("203.0.113.9", "1.1.1.1, 10.0.0.1", "203.0.113.9", id="not a proxy, pretends one"),
        pytest.param("11.0.0.1", "1.1.1.1", "11.0.0.1", id="beside the network"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(peer, forwarded, client):
    assert read_client(peer, HTTP_X_FORWARDED_FOR=forwarded)[0] == client


def test_the_scheme_comes_from_proxies_only():
    headers = {"HTTP_X_FORWARDED_FOR": "203.0.113.7", "HTTP_X_FORWARDED_PROTO": "https"}

    assert read_client("10.0.0.1", **headers) == ("203.0.113.7", "https")
    assert read_client("203.0.113.9", **headers) == ("203.0.113.9", "http")
    assert read_client("10.0.0.1", **{**headers, "HTTP_X_FORWARDED_PROTO": "javascript"})[1] == "http"


def test_without_the_setting_no_header_counts():
    headers = {"HTTP_X_FORWARDED_FOR": "203.0.113.7", "HTTP_X_FORWARDED_PROTO": "https"}

    assert read_client("10.0.0.1", (), **headers) == ("10.0.0.1", "http")


@pytest.mark.parametrize(("networks", "client"), [((), "127.0.0.1"), (PROXIES, "203.0.113.7")])
def test_repeated_headers_of_a_real_request_are_one_list(run_server, networks, client):
    server = run_server()
    seen: list[str] = []

    def app(environ, start):
        seen.append(environ["REMOTE_ADDR"])
        start("200 OK", [])
        return []

    server.app = trust_proxies(app, networks)
    lines = b"".join(
        b"X-Forwarded-For: %s\r\n" % address for address in (b"10.1.1.1", b"203.0.113.7", b"10.2.0.1")
    )
    # Some proxies pass a header with underscores on; it must not count as the one that they replace.
    lines += b"X_Forwarded_For: 198.51.100.9\r\n"
    server.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + lines + b"\r\n")

    assert seen == [client]
