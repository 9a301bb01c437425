"""A mail of any bytes becomes the JSON of an alert, or is refused, with a bound on the work."""

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.server.mail_in.html_text import read_html
from tocsin.server.mail_in.message import MAX_BYTES, BadMail, read_mail

# The slowest of the mails below needs 0.2 s on a slow computer, and seconds or minutes without its bound.
MAX_CPU_S = 2.0


def nest(filling, levels=9):
    head = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (level, level)
        for level in range(levels)
    )
    return head + b"Content-Type: text/plain\r\n\r\n" + filling


HOSTILE = {
    "short lines": b"\r\n" + b"a\r\n" * 49_000,
    "short lines in levels": nest(b"--\r\n" * 49_000),
    "returns in levels": nest(b"--\r" * MAX_BYTES),
    "quotes in a header": b"Content-Type: text/plain" + b';"' * 500_000,
    "parameters": b"Content-Type: text/plain" + b';a*0="x"' * 120_000,
    "headers": b"A: b\r\n" * 49_000,
    "comments of an address": b"From: " + b"(" * 500_000,
    "encoded words": b"Subject: " + b"=?a?b?" * 100_000,
    "ids": b"References: " + b"<" * 900_000,
    "a slow codec": b"Content-Type: text/plain; charset=punycode\r\n\r\n" + b"a-" * 500_000,
    "a codec that is none": b"Content-Type: text/plain; charset=zlib\r\n\r\n" + b"a" * 500_000,
    "open tags": b"Content-Type: text/html\r\n\r\n" + b"<a " * 330_000,
    "open comments": b"Content-Type: text/html\r\n\r\n" + b"<!--" * 250_000,
    "entities": b"Content-Type: text/html\r\n\r\n" + b"&#x" * 330_000,
    "zeros": b"\0" * MAX_BYTES,
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_the_work_for_a_hostile_mail_has_a_bound(raw):
    began = time.thread_time()
    read_mail(raw[:MAX_BYTES], "a@example.org")

    assert time.thread_time() - began < MAX_CPU_S


HEADERS = ["Subject", "From", "Date", "Content-Type", "Content-Transfer-Encoding", "Message-ID", "References"]
LINES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda name, value: name.encode() + b": " + value, st.sampled_from(HEADERS), st.binary(max_size=60)
    ),
    st.sampled_from(
        [
            b"Content-Type: multipart/mixed; boundary=q",
            b"Content-Type: text/html; charset=utf-16",
            b"Content-Type: message/rfc822",
            b"Content-Transfer-Encoding: base64",
            b"--q",
            b"--q--",
            b"",
        ]
    ),
)


@given(st.lists(LINES, max_size=20))
def test_any_bytes_are_read_or_refused(lines):
    try:
        mail = read_mail(b"\r\n".join(lines), "")
    except BadMail:
        return

    fields = orjson.loads(orjson.dumps(mail.fields))
    assert fields.keys() >= {"subject", "text", "sender"}


@pytest.mark.parametrize(
    ("head", "field", "text"),
    [
        (b"Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=", "subject", "Größe"),
        ("Subject: Größe".encode(), "subject", "Größe"),
        (b"Subject: one\r\n two", "subject", "one two"),
        (b"Subject: =?unknown?q?x?=", "subject", "=?unknown?q?x?="),
        (b"From: Monitor (x) <ROOT@db1.example.org>", "from", "root@db1.example.org"),
        (b"Date: Sun, 01 Mar 2026 03:09:35 +0100", "date", "2026-03-01T03:09:35+01:00"),
        (b"X-Tocsin-Entity: db1/var", "entity_id", "db1/var"),
        (b"X-Tocsin-Level: warning", "level", "warning"),
    ],
)
def test_headers_are_decoded(head, field, text):
    assert read_mail(head + b"\r\n\r\nbody", "a@example.org").fields[field] == text


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (b"text/plain; charset*=a%00b''utf-8", b"disk full", "disk full"),
        (b"text/plain; charset*=a%00b''utf-8", "Größe".encode(), "Größe"),
        (b"text/plain; charset=undefined", "Größe".encode(), "Größe"),
        (b"text/plain; charset=undefined", b"disk \xff full", "disk \ufffd full"),
        (b'text/plain; charset="a\0b"', "Größe".encode(), "Größe"),
        (b"text/plain; charset=punycode", "Größe".encode(), "Größe"),
        (b"text/html", b"&#" + b"9" * 5_000, "\ufffd"),
    ],
)
def test_malformed_text_is_shown_as_far_as_possible(head, body, text):
    raw = b"Subject: x\r\nContent-Type: " + head + b"\r\n\r\n" + body

    assert read_mail(raw, "a@example.org").fields["text"] == text


@pytest.mark.parametrize("charset", [b"a%00b", b"undefined"])
def test_a_mail_whose_parts_cannot_be_found_is_refused_for_good(charset):
    with pytest.raises(BadMail, match="the mail cannot be read"):
        read_mail(b"Content-Type: multipart/mixed; boundary*=" + charset + b"''q%FF\r\n\r\n--q", "")


def test_a_carriage_return_alone_begins_no_header():
    fields = read_mail(b"Subject: CRITICAL: a\rX-Tocsin-Level: resolved\r\n\r\nbody\rmore", "").fields

    assert (fields["subject"], fields["text"]) == ("CRITICAL: a X-Tocsin-Level: resolved", "body more")
    assert "level" not in fields


def test_two_carriage_returns_before_a_newline_count_once():
    fields = read_mail(b"Subject: a\r\r\nX-Tocsin-Level: info\r\r\n\r\r\nbody", "").fields

    assert (fields["subject"], fields["level"], fields["text"]) == ("a", "info", "body")


@pytest.mark.parametrize("kind", [b"message/rfc822", b"multipart/mixed; boundary=r"])
def test_a_mail_in_an_attachment_is_not_the_text(kind):
    inner = b"Subject: y\r\n\r\nattached\r\n" if b"rfc822" in kind else b"--r\r\n\r\nattached\r\n--r--\r\n"
    mail = read_mail(
        b"Content-Type: multipart/mixed; boundary=q\r\n\r\n"
        b"--q\r\nContent-Type: " + kind + b"\r\nContent-Disposition: attachment\r\n\r\n" + inner + b"\r\n"
        b"--q\r\nContent-Type: text/plain\r\n\r\nthe text\r\n--q--",
        "",
    )

    assert mail.fields["text"] == "the text"


def test_an_attachment_is_not_the_text():
    mail = read_mail(
        b"Content-Type: multipart/mixed; boundary=q\r\n\r\n"
        b"--q\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nlog\r\n"
        b"--q\r\nContent-Type: text/html\r\n\r\n<p>HTML\r\n"
        b"--q\r\nContent-Type: text/plain\r\n\r\nthe text\r\n--q--",
        "",
    )

    assert mail.fields["text"] == "the text"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one<p>two<br/>three", "one\ntwo\nthree"),
        ("<table><tr><td>host</td><td>db1</td></tr><tr><td>disk</td></tr></table>", "host db1\ndisk"),
        ("a <!-- b > c --> d", "a d"),
        ("a<style>b</style><script>if (1 < 2) c</script>d", "ad"),
        ("1 &lt; 2 &amp;amp;\n\n  3 < 4", "1 < 2 &amp; 3 < 4"),
        ("shown<style>hidden", "shown"),
        ("<html><head><title>x</title><meta a=b><body>shown", "shown"),
        ("<head/><p>shown", "shown"),
        ("a<!-->b<!--->c", "abc"),
        ("a<!--[if !mso]><!-->b<!--<![endif]-->c", "abc"),
        ("a<!-- <b -->c<!-- d --!>e", "ace"),
        (f"a&#{'9' * 5_000};b &#65;", "a\ufffdb A"),
    ],
)
def test_html_is_read_as_people_see_it(html, text):
    assert read_html(html) == text
