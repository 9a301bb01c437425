"""The e-mail channel with real SMTP servers that work or fail, and the mails that arrive."""

import re
import socket
import threading
import time
from datetime import UTC, datetime

import pytest

from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.messages.content import MessageContent
from runtime.settings import Settings, load
from tests.support.processes import find_free_port
from tests.support.relays import (
    accept_login,
    build_server_context,
    certificate,
    drip,
    hang,
    hang_after_data,
    hang_after_mail,
    relay,
    start_silent_server,
)
from workers.delivery.channels.email import EmailChannel
from workers.delivery.transport.channel import (
    HostError,
    OutgoingMessage,
    Refused,
    RelayError,
    TemporaryError,
    UnusableAddress,
)
from workers.delivery.transport.mail import MailTexts, build_mail

__all__ = ["certificate"]

SOON = 0.3


def settings(port: int, **more: str) -> Settings:
    values = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(port), "SMTP_FROM": "tocsin@example.org", **more}
    return load({f"TOCSIN_{name}": value for name, value in values.items()})


def build_message(
    to="bob@example.org", subject="[Checkout] #12 Disk full", text="Disk full\n"
) -> OutgoingMessage:
    content = MessageContent(subject, (text.removesuffix("\n"),))
    return OutgoingMessage("c0ffee", to, content, datetime(2026, 3, 4, 12, 0, tzinfo=UTC))


def send(port: int, *messages: OutgoingMessage, deadline_s: float = 5.0, **more: str) -> list[Reason]:
    conn = EmailChannel(settings(port, **more), deadline_s).create_connection()
    try:
        return [conn.send(one).reason for one in messages or (build_message(),)]
    finally:
        conn.close()


# --- the mail --------------------------------------------------------------------------------------


def test_a_message_has_the_headers_that_mail_programs_use():
    with relay() as box:
        assert send(box.port) == [make_reason("smtp_accepted", code=250)]

    ((to, mail),) = box.mails
    assert to == "bob@example.org"
    assert mail["Message-ID"] == "<c0ffee@example.org>"
    assert mail["From"] == "Tocsin <tocsin@example.org>"
    assert mail["To"] == "bob@example.org"
    assert mail["Date"] == "Wed, 04 Mar 2026 12:00:00 +0000"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content() == "Disk full\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "Größe überschritten 🔥 ディスク",
        "a\r\nBcc: mallory@example.net\r\n\r\nbody",
        "a\nBcc: mallory@example.net",
        "NUL \x00 BEL \x07 bidi \u202e done",
        "x" * 70_000,
        "🔥" * 5_000,
        "=?utf-8?q?hi?= =?bad",
        "=?utf-8?q?x=0D=0ABcc=3A_mallory@example.net=0D=0A=0D=0A?=",
        "\ud800 alone",
        ". \n.\r\n..\n",
    ],
    ids=[
        "unicode",
        "crlf",
        "lf",
        "controls",
        "long",
        "long-emoji",
        "encoded",
        "encoded-crlf",
        "surrogate",
        "dots",
    ],
)
def test_hostile_text_arrives_and_adds_no_header(text):
    with relay() as box:
        send(box.port, build_message(subject=f"[Checkout] {text}", text=text.replace("\ud800", "")))

    ((to, mail),) = box.mails
    assert (to, mail["Bcc"]) == ("bob@example.org", None)
    assert mail["Subject"].startswith("[Checkout] ")
    assert mail.get_content().split() == text.replace("\ud800", "").split()


def test_every_row_of_the_mail_is_short_enough():
    with relay() as box:
        long = "é" * 9_000
        send(box.port, build_message(subject=long, text=long))

    assert max(map(len, box.mails[0][1].as_bytes().splitlines())) <= 998


@pytest.mark.parametrize(
    "address",
    [
        "bob@example.org\r\nRCPT TO:<mallory@example.net>",
        "bob",
        "",
        "@",
        "a@b, c@d",
        "bob@",
        "<bob@example.org",
        "=?utf-8?q?a=0D=0ABcc=3Amallory?=@example.org",
        "bob@=?utf-8?q?x=0D=0ABcc=3Amallory?=.org",
        "bob\u2028@example.org",
    ],
)
def test_an_invalid_address_is_refused_before_any_command(address):
    with relay() as box:
        with pytest.raises(UnusableAddress):
            send(box.port, build_message(to=address))

        assert box.mails == []


def test_a_non_ascii_address_needs_a_relay_with_smtputf8():
    with relay(utf8=False) as box, pytest.raises(UnusableAddress, match="only ASCII"):
        send(box.port, build_message(to="jörg@example.org"))

    with relay() as box:
        send(box.port, build_message(to="jörg@example.org"))
    assert box.mails[0][0] == "jörg@example.org"


@pytest.mark.parametrize("sender", ["tocsin@example.org", "The pager <tocsin@example.org>"])
def test_the_sender_may_have_a_name(sender):
    with relay() as box:
        send(box.port, SMTP_FROM=sender)

    assert "tocsin@example.org" in box.mails[0][1]["From"]


def test_a_mail_is_the_same_before_and_after_others():
    """Headers that many mails have are parsed once."""
    plain = build_message()
    urgent = replace(plain, content=replace(plain.content, threads=("abc",), is_urgent=True))
    german = build_message(to="jörg@example.org", text=f"Müller {'x' * 2000}\n")
    mails = (plain, urgent, german)

    first, second = ([build_without_boundary(mail) for mail in mails] for _ in range(2))

    assert first == second
    assert [b"Importance: high" in text for text in first] == [False, True, False]
    assert [text.count(b"quoted-printable") + text.count(b"base64") for text in first] == [0, 0, 2]


def build_without_boundary(message):
    return re.sub(rb"=+\d+==", b"", build_mail(message, "Tocsin", "tocsin@example.org", MailTexts.load()))


def test_a_missing_setting_is_named():
    assert EmailChannel(load({})).find_missing_setting() == "set TOCSIN_SMTP_HOST"
    assert EmailChannel(settings(25)).find_missing_setting() is None


# --- what relays answer ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "kind", "refused_step", "answer"),
    [
        (
            {"RCPT": "550 5.1.1 <bob@example.org>: is bob"}, Refused,
            "recipient", "550 5.1.1 [address] is [hidden]",
        ),
        ({"RCPT": "451 4.7.1 greylisted"}, TemporaryError, "recipient", "451 4.7.1 greylisted"),
        ({"DATA": "554 5.7.1 spam"}, Refused, "message", "554 5.7.1 spam"),
        ({"DATA": "452 4.3.1 disk full"}, TemporaryError, "message", "452 4.3.1 disk full"),
        ({"MAIL": "550 5.7.1 who are you"}, TemporaryError, "sender", "550 5.7.1 who are you"),
    ],
    ids=["rcpt-550", "rcpt-451", "data-554", "data-452", "mail-550"],
)  # fmt: skip
def test_the_meaning_of_a_reply_depends_on_the_command(replies, kind, refused_step, answer):
    with relay(replies) as box, pytest.raises(kind) as refused:
        send(box.port)

    assert refused.value.reason == make_reason(f"smtp_refuses_{refused_step}", answer=answer)
    assert "bob" not in str(refused.value)


def test_a_message_is_sent_after_a_refused_one():
    with relay({"RCPT bob@example.org": "550 no"}) as box:
        conn = EmailChannel(settings(box.port), 5.0).create_connection()
        with pytest.raises(Refused):
            conn.send(build_message())
        conn.send(build_message(to="alice@example.org"))
        conn.close()

    assert [to for to, _ in box.mails] == ["alice@example.org"]
    assert box.sessions == 1


def test_messages_share_a_connection():
    with relay() as box:
        send(box.port, *[build_message()] * 5)

    assert (len(box.mails), box.sessions) == (5, 1)


def test_a_connection_that_the_relay_closed_is_opened_again():
    with relay() as first:
        conn = EmailChannel(settings(first.port), 5.0).create_connection()
        conn.send(build_message())
        port = first.port
    # The server and its connections are gone; another one now listens on its port.
    with relay() as second:
        conn._settings = settings(second.port)
        conn.send(build_message())
        conn.close()

    assert port != second.port
    assert len(second.mails) == 1


# --- TLS and passwords -----------------------------------------------------------------------------


def test_starttls_works_with_a_known_certificate(certificate):
    with relay(tls_context=build_server_context(certificate), require_starttls=True) as box:
        send(box.port, SMTP_TLS="starttls", SMTP_CA_FILE=str(certificate))

    assert len(box.mails) == 1


def test_tls_works_from_the_first_byte(certificate):
    with relay(ssl_context=build_server_context(certificate)) as box:
        send(box.port, SMTP_TLS="tls", SMTP_CA_FILE=str(certificate), SMTP_HOST="localhost")

    assert len(box.mails) == 1


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_an_unknown_certificate_is_not_trusted(certificate, tls):
    context = build_server_context(certificate)
    offered = {"tls_context": context} if tls == "starttls" else {"ssl_context": context}
    with relay(**offered) as box, pytest.raises(RelayError, match="certificate is not trusted"):
        send(box.port, SMTP_TLS=tls)


def test_a_relay_without_starttls_gets_no_message_if_it_is_required():
    with relay() as box, pytest.raises(RelayError, match="STARTTLS"):
        send(box.port, SMTP_TLS="starttls")

    assert box.mails == []


def test_the_relay_gets_user_and_password(certificate):
    options = {"authenticator": accept_login("tocsin", "open sesame"), "auth_required": True}
    tls = {"SMTP_TLS": "starttls", "SMTP_CA_FILE": str(certificate), "SMTP_USER": "tocsin"}
    with relay(tls_context=build_server_context(certificate), **options) as box:
        send(box.port, **tls, SMTP_PASSWORD="open sesame")
        with pytest.raises(RelayError) as refused:
            send(box.port, **tls, SMTP_PASSWORD="hocus pocus")

    assert len(box.mails) == 1
    assert refused.value.reason == make_reason("smtp_refuses_login", code=535)


# --- relays that do not work -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behave", "tls", "error"),
    [
        (hang, "none", RelayError),
        (hang, "tls", RelayError),
        (drip, "none", RelayError),
        (drip, "tls", RelayError),
        (hang_after_mail, "none", HostError),
        (hang_after_data, "none", HostError),
        # It fails at the start of TLS.
        (hang_after_data, "tls", RelayError),
    ],
)
def test_a_relay_that_hangs_is_left_at_the_deadline(behave, tls, error):
    with start_silent_server(behave) as server:
        started = time.monotonic()
        with pytest.raises(error) as trouble:
            send(server.port, deadline_s=SOON, SMTP_TLS=tls)
        took = time.monotonic() - started

    # The relay would hang for much longer.
    assert took < 15
    assert trouble.value.reason == make_reason("relay_silent", within="0.3") or tls == "tls"


def test_a_missing_relay_is_a_relay_error():
    with pytest.raises(RelayError, match="refuses connections"):
        send(find_free_port())


def test_an_unknown_host_name_is_a_relay_error():
    with pytest.raises(RelayError):
        send(25, SMTP_HOST="relay.invalid")


def test_a_closed_connection_is_a_relay_error():
    with (
        start_silent_server(lambda taken, over: None) as server,
        pytest.raises(RelayError, match="closed the connection"),
    ):
        send(server.port)


def test_a_reply_421_at_the_start_is_a_relay_error():
    def refuse(taken: socket.socket, over: threading.Event) -> None:
        taken.sendall(b"421 too busy for bob\r\n")
        over.wait(30)

    with start_silent_server(refuse) as server, pytest.raises(RelayError) as trouble:
        send(server.port)

    assert trouble.value.reason == make_reason("smtp_answered", code=421)
