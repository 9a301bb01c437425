"""Which URLs and addresses of users Tocsin requests."""

from ipaddress import ip_address

import pytest

from models.domain.user_urls import (
    BadUrl,
    find_network_problem,
    find_problem,
    is_allowed,
    is_public,
    parse_networks,
    parse_user_url,
)
from tests.support.offenders import list_offenders

REFUSED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200",
    "127.0.0.1", "127.255.255.254", "169.254.169.254", "169.254.0.1", "172.16.0.1",
    "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1",
    "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fd12::1", "fe80::1",
    "fec0::1", "ff02::1", "ff0e::1", "4000::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1",
    "192.0.1.1", "168.63.129.17", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::200e",
    "2620:fe::fe", "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip


def test_special_addresses_are_refused():
    def check(address):
        assert not is_allowed(ip_address(address))

    assert list_offenders(check, REFUSED) == []


def test_addresses_in_the_internet_are_allowed():
    def check(address):
        assert is_allowed(ip_address(address))

    assert list_offenders(check, PUBLIC) == []


def test_a_network_of_the_operator_is_allowed_in_each_form_of_its_addresses():
    networks = parse_networks(("10.1.0.0/16", "fd00:1::/32"))
    allowed = ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "fd00:1::9")
    refused = ("10.2.0.1", "::ffff:10.2.0.1", "fd00:2::9", "127.0.0.1")

    assert all(is_allowed(ip_address(each), networks) for each in allowed)
    assert not any(is_allowed(ip_address(each), networks) for each in refused)
    assert not is_public(ip_address("10.1.2.3"))


WRONG_FORMS = [
    "", "example.org", "ftp://example.org/", "file:///etc/passwd", "gopher://example.org/",
    "//example.org/",
    "http://", "http:///path", "http://user@example.org/", "http://user:pass@example.org/",
    "http://example.org\\@10.0.0.1/", "http://exa mple.org/", "http://example.org/\r\nHost: x",
    "http://example.org/\x00", "http://example.org/#part", "http://exämple.org/", "http://example.org/ä",
    "http://example.org:99999/", "http://example.org:x/", "http://[::1/", "http://[fe80::1%25eth0]/",
    "http://example.org:22/", "http://example.org:25/", "http://example.org:6379/",
    "http://example.org:0/", "https://example.org/" + "x" * 2_000,
]  # fmt: skip


def test_urls_of_other_forms_are_refused():
    def check(url):
        assert find_problem(url)
        with pytest.raises(BadUrl):
            parse_user_url(url)

    assert list_offenders(check, WRONG_FORMS) == []


ORDINARY = [
    "https://example.org", "http://example.org/hook?key=a%20b&token=x~y", "https://example.org:443/x",
    "https://example.org:8443/hooks/abc", "http://[2606:4700::1111]:8080/", "https://a_b.example.org/?x",
    "https://prod-00.westeurope.logic.azure.com:443/workflows/0/triggers/manual/paths/invoke?sig=_a-b",
]  # fmt: skip


def test_ordinary_urls_are_accepted():
    def check(url):
        assert find_problem(url) == ""

    assert list_offenders(check, ORDINARY) == []


SPELLINGS = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "127.0.0.1.",
    "169.254.169.254", "2852039166", "10.1", "[::1]", "[::ffff:127.0.0.1]", "[fd00:ec2::254]",
    "[64:ff9b::7f00:1]",
]  # fmt: skip


def test_an_inner_address_in_a_url_is_found_in_any_spelling():
    def check(host):
        assert "TOCSIN_WEBHOOK_NETWORKS" in find_network_problem(f"https://{host}:8080/hook", ())

    assert list_offenders(check, SPELLINGS) == []


NOT_JUDGED = ["https://8.8.8.8/", "https://example.org/", "https://localhost/", "https://[2620:fe::fe]/", "x"]


def test_public_addresses_and_names_are_not_judged_before_they_are_used():
    def check(url):
        assert find_network_problem(url, ()) == ""

    assert list_offenders(check, NOT_JUDGED) == []


def test_an_inner_address_is_allowed_if_its_network_is():
    assert find_network_problem("http://10.1.2.3/hook", ("10.1.0.0/16",)) == ""
    assert find_network_problem("http://10.2.0.1/hook", ("10.1.0.0/16",))
