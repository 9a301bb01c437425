"""Mails are received by SMTP: a real client sends to the server of the listener, on a real socket."""

import contextlib
import smtplib
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from uuid import uuid4

import pytest

from models.domain.enums import ContactType, IncidentStatus
from models.store.store import connection, db, store
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.routers import GlobalRouter
from models.tables.services import Integration
from runtime.settings import load
from tests.support.mail_server import start_mailbox
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.processes import find_free_port
from tests.support.relays import certificate
from tests.support.stores import SERVER
from tocsin.server.listening import listen_for_mail
from tocsin.server.mail_in import message, server
from tocsin.server.mail_in.acceptance import Acceptance
from tocsin.server.mail_in.limits import MailLimits
from tocsin.server.mail_in.server import MAX_ROW_BYTES, STOP_S, MailServer
from web.ingest import group_commit
from workers.alerts import process_lane
from workers.delivery import deliver

__all__ = ["certificate"]

DOMAIN = "alerts.example.org"


@pytest.fixture
def start(home, world, enqueued):
    """start(limits, NAME="value"): run a server of the listener. Returns its port."""
    with contextlib.ExitStack() as stack:

        def start(limits=None, **given):
            port = find_free_port()
            settings = load(
                {
                    "TOCSIN_HOME": str(home),
                    "TOCSIN_MAIL_IN_DOMAIN": DOMAIN,
                    "TOCSIN_MAIL_IN_PORT": str(port),
                    **given,
                }
            )
            server = MailServer(settings, listen_for_mail(settings), limits or MailLimits())
            server.start()
            stack.callback(server.stop)
            return port

        yield start


@pytest.fixture
def client(start):
    with smtplib.SMTP("127.0.0.1", start(), timeout=30) as client:
        yield client


@pytest.fixture
def to(world):
    return f"{world.integration.integration_key}@{DOMAIN}"


def build(subject="CRITICAL: disk full on db1", text="/var is at 98 %", **headers):
    mail = EmailMessage()
    mail["From"] = "Monitor <root@db1.example.org>"
    mail["Subject"] = subject
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail


def send(client, to, mail, sender="root@db1.example.org"):
    """Send a mail as it is, and return the code and the text of the answer to its data."""
    client.ehlo_or_helo_if_needed()
    assert client.mail(sender)[0] == 250
    assert client.rcpt(to)[0] == 250
    code, text = client.data(mail if isinstance(mail, bytes) else mail.as_bytes())
    return code, text.decode()


def process(world):
    process_lane.run(world.service.id)


def get_last_reason():
    return list_reasons(Event.select().order_by(Event.id.desc()).get())[-1][1]


def test_a_problem_that_fires_repeats_and_ends_is_one_incident_that_is_resolved(client, to, world):
    found = [
        send(client, to, build(subject))
        for subject in (
            "CRITICAL: disk full on db1",
            "Re: CRITICAL: disk full on db1",
            "RESOLVED: disk full on db1",
        )
    ]
    process(world)

    assert [code for code, _ in found] == [250, 250, 250]
    assert all(receipt.trace_id in text for receipt, (_, text) in zip(Receipt.select(), found, strict=True))
    incident = Incident.get()
    assert (incident.title, incident.status) == ("CRITICAL: disk full on db1", IncidentStatus.RESOLVED)
    assert Event.select().count() == 3


def test_the_alert_has_what_the_mail_says(client, to, world):
    mail = build("Wärnung: Platte", "Größe: 98 %", Date="Sun, 01 Mar 2026 03:09:35 +0100")
    send(client, to, mail)
    process(world)

    event = Event.get()
    assert (event.message, event.summary) == ("Wärnung: Platte", "Größe: 98 %")
    assert event.source_at.isoformat() == "2026-03-01T02:09:35+00:00"
    assert event.alert["payload"]["from"] == "root@db1.example.org"
    assert world.integration.integration_key not in str(event.alert)


def test_a_mail_that_is_sent_again_after_a_lost_answer_is_stored_once(client, to):
    mail = build(Message_ID="<1@db1.example.org>")

    assert send(client, to, mail) == send(client, to, mail)
    assert Receipt.select().count() == 1


def test_equal_mails_without_an_id_are_two_alerts(client, to):
    send(client, to, build())
    send(client, to, build())

    assert Receipt.select().count() == 2


@pytest.mark.parametrize(
    "address",
    [
        f"00000000-0000-4000-8000-000000000000@{DOMAIN}",
        f"postmaster@{DOMAIN}",
        "KEY@example.org",
        f"KEY%example.org@{DOMAIN}",
        "someone@elsewhere.example",
        "KEY",
    ],
)
def test_only_known_keys_at_this_domain_get_mail_and_all_others_get_the_same_answer(client, world, address):
    client.ehlo()
    client.mail("root@db1.example.org")
    answer = client.rcpt(address.replace("KEY", world.integration.integration_key))

    assert answer == (550, b"5.1.1 no such address here")
    assert client.docmd("DATA")[0] == 503


def test_the_key_of_a_disabled_integration_is_unknown(client, to):
    Integration.update(is_enabled=False).execute()
    client.ehlo()
    client.mail("root@db1.example.org")

    assert client.rcpt(to)[0] == 550


def test_nobody_can_log_in(client):
    client.ehlo()

    assert not client.has_extn("auth")
    assert client.docmd("AUTH", "PLAIN AGEAYg==")[0] == 538


def test_a_mail_that_is_too_large_is_refused_before_and_after_its_data(client, to):
    client.ehlo()
    assert client.mail("a@example.org", [f"size={message.MAX_BYTES + 1}"])[0] == 552

    assert send(client, to, build().as_bytes() + (b"z" * 76 + b"\r\n") * 14_000)[0] == 552
    assert send(client, to, build().as_bytes() + b"\r\n" * 60_000)[0] == 554
    assert send(client, to, build())[0] == 250
    assert Receipt.select().count() == 1


def test_long_lines_are_read_up_to_a_bound(client, to, world):
    head = b"Subject: CRITICAL: disk full\r\nContent-Type: text/html\r\n\r\n"
    assert send(client, to, head + b"<p>first" + b" " * 200 * 1024 + b"\r\n")[0] == 250
    assert send(client, to, head + b"<p>" + b"x" * MAX_ROW_BYTES + b"\r\n")[0] == 500
    assert send(client, to, build())[0] == 250
    process(world)

    assert Event.select().order_by(Event.id).first().summary == "first"


def test_a_mail_that_cannot_be_read_is_refused_for_good(client, to):
    mail = b"Content-Type: multipart/mixed; boundary*=undefined''q%FF\r\n\r\n--q\r\n"

    assert send(client, to, mail) == (554, "5.6.0 the mail cannot be read")


def test_a_mail_without_an_end_is_disconnected(client, to):
    client.ehlo()
    client.mail("a@example.org")
    client.rcpt(to)
    assert client.docmd("DATA")[0] == 354

    with pytest.raises(OSError, match=r"reset|pipe|closed|aborted"):
        client.sock.sendall(b"x" * 100 * 1024 * 1024)


def build_parts(count):
    mail = MIMEMultipart()
    mail["Subject"] = "CRITICAL: disk full"
    for number in range(count):
        mail.attach(MIMEText(f"part {number}"))
    return mail.as_bytes()


def build_levels(depth):
    """Return a mail with parts in so many levels; the mail itself is the first."""
    inner = MIMEText("the innermost part")
    for _ in range(depth - 1):
        outer = MIMEMultipart()
        outer.attach(inner)
        inner = outer
    inner["Subject"] = "CRITICAL: disk full"
    return inner.as_bytes()


@pytest.mark.parametrize(
    ("mail", "answer"),
    [
        (build_parts(50), 250),
        (build_parts(51), (554, "5.6.0 the mail has more than 50 parts")),
        (build_levels(10), 250),
        (build_levels(11), (554, "5.6.0 the parts of the mail are nested deeper than 10")),
    ],
    ids=["50 parts", "51 parts", "10 levels", "11 levels"],
)
def test_parts_and_levels_have_a_bound(client, to, mail, answer):
    found = send(client, to, mail)

    assert answer in (found, found[0])


def test_the_text_of_html_is_shown_and_nothing_else(client, to, world):
    mail = build()
    mail.set_content(
        "<html><head><style>p {color: red}</style></head><body><p>Disk <b>full</b> &amp; slow</p>"
        '<img src="http://127.0.0.1:1/pixel"><script>alert(1)</script><!-- hidden > --><p>db1</body></html>',
        subtype="html",
    )
    send(client, to, mail)
    process(world)

    assert Event.get().summary == "Disk full & slow\ndb1"


@pytest.mark.parametrize(
    ("headers", "sender", "code"),
    [
        ({"Auto_Submitted": "auto-generated"}, "a@example.org", "mail_automatic"),
        ({"Precedence": "bulk"}, "a@example.org", "mail_automatic"),
        ({}, "", "mail_without_sender"),
    ],
)
def test_mails_that_programs_send_by_themselves_are_recorded_and_open_no_incident(
    client, to, world, headers, sender, code
):
    assert send(client, to, build(**headers), sender)[0] == 250
    process(world)

    assert Incident.select().count() == 0
    assert get_last_reason().code == code


@pytest.fixture
def own_mail(world, client, to):
    """Return the mail that Tocsin sent about an incident."""
    with start_mailbox() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        send(client, to, build())
        process(world)
        deliver.send_due(ContactType.EMAIL, store().now())
        return box.wait_for(1)[0][1]


def test_a_mail_of_tocsin_that_comes_back_opens_no_incident(client, to, world, own_mail):
    del own_mail["Auto-Submitted"]
    assert send(client, to, own_mail)[0] == 250
    process(world)

    assert Incident.select().count() == 1
    assert Event.select().count() == 2
    assert get_last_reason().code == "mail_own"


@pytest.mark.parametrize("header", ["In_Reply_To", "References"])
def test_an_answer_to_a_mail_of_tocsin_opens_no_incident(client, to, world, own_mail, header):
    send(client, to, build("I am away", **{header: own_mail["Message-ID"]}))
    process(world)

    assert (Incident.select().count(), get_last_reason().code) == (1, "mail_own")


def test_an_answer_in_the_thread_of_an_incident_opens_no_incident(client, to, world):
    send(client, to, build(References="<incident-abc@0123456789ab.invalid>"))
    process(world)

    assert (Incident.select().count(), get_last_reason().code) == (0, "mail_own")


@contextlib.contextmanager
def lock_store():
    """Let nobody write alerts while the context is open."""
    is_locked, may_end = threading.Event(), threading.Event()

    def lock():
        with connection(), store().write_transaction():
            if SERVER:
                db.execute_sql('lock table "receipt" in access exclusive mode')
            is_locked.set()
            may_end.wait(30)

    with ThreadPoolExecutor() as threads:
        locked = threads.submit(lock)
        try:
            assert is_locked.wait(PATIENCE_S)
            yield
        finally:
            may_end.set()
        locked.result(PATIENCE_S)


def test_while_nothing_can_be_stored_the_sender_must_send_the_mail_again(client, to, monkeypatch):
    send(client, to, build())
    mail = build(Message_ID="<1@db1.example.org>")
    with lock_store(), monkeypatch.context() as patched:
        patched.setattr(group_commit, "DEADLINE_S", 0.5)
        assert send(client, to, mail)[0] == 451
    assert Receipt.select().count() == 1

    assert send(client, to, mail)[0] == 250
    assert Receipt.select().count() == 2


def test_a_mail_for_the_key_of_a_router_waits_in_its_lane(client, world, now):
    router = GlobalRouter.create(
        unique_id="r" * 22,
        account=world.account,
        name="Router",
        integration_key=str(uuid4()),
        creation_date=now,
    )

    assert send(client, f"{router.integration_key}@{DOMAIN}", build())[0] == 250
    assert (Receipt.get().router, Receipt.get().source) == (router, "email")


def test_tls_begins_with_the_certificate_of_the_settings(start, to, certificate):
    port = start(TOCSIN_MAIL_IN_CERTIFICATE=str(certificate))
    with smtplib.SMTP("localhost", port, timeout=30) as client:
        client.starttls(context=ssl.create_default_context(cafile=str(certificate)))

        assert send(client, to, build())[0] == 250
        assert not client.has_extn("auth")
        assert client.sock.version().startswith("TLSv1")


def test_a_renewed_certificate_counts_and_a_broken_one_does_not(start, certificate, tmp_path):
    file = tmp_path / "renewed.pem"
    file.write_text("not yet")
    port = start(TOCSIN_MAIL_IN_CERTIFICATE=str(file))
    context = ssl.create_default_context(cafile=str(certificate))
    offered = []
    for text in ("not yet", certificate.read_text(), "broken"):
        file.write_text(text)
        with smtplib.SMTP("localhost", port, timeout=30) as client:
            client.ehlo()
            offered.append(client.has_extn("starttls") and client.starttls(context=context)[0])

    assert offered == [False, 220, 220]


def test_commands_that_came_before_tls_do_not_count(start, to, certificate):
    """Somebody on the way could otherwise put commands before those of the client."""
    port = start(TOCSIN_MAIL_IN_CERTIFICATE=str(certificate))
    context = ssl.create_default_context(cafile=str(certificate))
    with smtplib.SMTP("localhost", port, timeout=30) as client:
        client.ehlo()
        client.send(f"STARTTLS\r\nEHLO x\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<{to}>\r\n")
        assert client.getreply()[0] == 220
        with context.wrap_socket(client.sock, server_hostname="localhost") as encrypted:
            encrypted.sendall(b"DATA\r\n")

            assert encrypted.recv(100).startswith(b"503")


def test_without_a_certificate_there_is_no_tls(client):
    client.ehlo()

    assert not client.has_extn("starttls")


def test_only_a_dot_between_two_pairs_of_return_and_newline_ends_a_mail(client, to, world):
    """Servers that disagree about the end let a sender put a second mail into the first one."""
    rest = b"MAIL FROM:<a@example.org>\r\n"
    send_raw = b"\n.\n".join([build().as_bytes().replace(b"\n", b"\r\n"), rest])
    client.ehlo()
    client.mail("a@example.org")
    client.rcpt(to)
    client.docmd("DATA")
    client.sock.sendall(send_raw + b"\r\n.\r\n")

    assert client.getreply()[0] == 250
    process(world)
    assert "MAIL FROM" in Event.get().summary


def test_a_slow_client_is_disconnected(start):
    with socket.create_connection(("127.0.0.1", start(MailLimits(seconds=0.2))), timeout=30) as slow:
        received = b"".join(iter(lambda: slow.recv(1024), b""))

    assert received.splitlines()[-1] == b"421 4.4.2 the connection took too long"


def stay_silent(client):
    """Wait until the server ends the connection."""
    with contextlib.suppress(ConnectionError):
        assert client.recv(100) == b""


@pytest.mark.parametrize(
    "go_on",
    [stay_silent, lambda client: client.sendall(b"no handshake\r\n"), lambda client: None],
    ids=["is silent", "sends something else", "goes away"],
)
def test_a_handshake_that_does_not_end_gives_its_place_back(start, certificate, go_on):
    limits = MailLimits(seconds=3.0, connections_of_stranger=1, connections_a_minute=1_000_000)
    port = start(limits, TOCSIN_MAIL_IN_CERTIFICATE=str(certificate))
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        assert client.docmd("STARTTLS")[0] == 220
        go_on(client.sock)
        client.close()

    wait_until(lambda: read_greeting(port) == b"220")


def test_a_handshake_that_does_not_end_does_not_delay_the_stop(home, world, certificate):
    settings = load(
        {
            "TOCSIN_HOME": str(home),
            "TOCSIN_MAIL_IN_DOMAIN": DOMAIN,
            "TOCSIN_MAIL_IN_PORT": str(find_free_port()),
            "TOCSIN_MAIL_IN_CERTIFICATE": str(certificate),
        }
    )
    server = MailServer(settings, listen_for_mail(settings))
    server.start()
    with smtplib.SMTP("127.0.0.1", settings.mail_in_port, timeout=30) as client:
        client.ehlo()
        assert client.docmd("STARTTLS")[0] == 220
        began = time.monotonic()
        server.stop()

        assert time.monotonic() - began < STOP_S / 2
        client.close()


def test_a_client_that_is_slow_with_its_data_is_disconnected(start, to):
    with smtplib.SMTP("127.0.0.1", start(MailLimits(seconds=3.0)), timeout=30) as client:
        client.ehlo()
        client.mail("a@example.org")
        client.rcpt(to)
        assert client.docmd("DATA")[0] == 354
        client.sock.sendall(b"Subject: x\r\n")

        assert client.getreply()[0] == 421


def read_greeting(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        return client.recv(100)[:3]


def test_an_address_has_a_limit_of_connections_until_it_has_delivered_a_mail(start, to):
    port = start(MailLimits(connections_of_stranger=1, connections_of_address=2))
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        assert read_greeting(port) == b"421"

        assert send(client, to, build())[0] == 250
        with smtplib.SMTP("127.0.0.1", port, timeout=30):
            assert read_greeting(port) == b"421"


def read_to_the_end(client):
    """Return the last line before the server ended the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        received = b"".join(iter(lambda: client.recv(1024), b""))
    return received.splitlines()[-1] if received else b""


def test_a_connection_that_is_silent_before_a_command_is_ended(start):
    port = start(MailLimits(command_seconds=0.2))
    for first in (b"", b"EHLO a\r\n", b"EHLO a\r\nMAIL FROM:<a@example.org>\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(first)
            assert read_to_the_end(client) == b"421 4.4.2 the connection took too long"


def test_a_connection_that_is_silent_after_the_begin_of_tls_is_ended(start, certificate):
    limits = MailLimits(command_seconds=1.0)
    port = start(limits, TOCSIN_MAIL_IN_CERTIFICATE=str(certificate))
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.starttls(context=ssl._create_unverified_context())

        assert client.getreply()[0] == 421


def test_what_is_no_command_does_not_prolong_a_connection(start):
    port = start(MailLimits(command_seconds=0.5))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while client.recv(1024):
                client.sendall(b"\r\n")

    assert time.monotonic() - began < 10


def test_a_mail_may_take_longer_than_a_command(start, to):
    with smtplib.SMTP("127.0.0.1", start(MailLimits(command_seconds=1.0)), timeout=30) as client:
        client.ehlo()
        client.mail("a@example.org")
        client.rcpt(to)
        assert client.docmd("DATA")[0] == 354
        client.sock.settimeout(1.5)
        with pytest.raises(TimeoutError):
            client.sock.recv(100)
        client.sock.settimeout(30)
        client.sock.sendall(b"Subject: x\r\n\r\n.\r\n")

        assert client.sock.recv(100).startswith(b"250")


@contextlib.contextmanager
def fill(port, count):
    """Open silent connections."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            assert client.recv(100)[:3] == b"220"
            opened.append(client)
        yield opened


def test_when_there_are_too_many_the_oldest_silent_connection_makes_room(start, to, monkeypatch):
    monkeypatch.setattr(server, "SILENT_S", 0.0)
    port = start(MailLimits(connections=3, connections_of_stranger=10))
    with fill(port, 3) as opened, smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        assert send(client, to, build())[0] == 250
        assert read_to_the_end(opened[0]).startswith(b"421")
        opened[1].sendall(b"NOOP\r\n")
        assert opened[1].recv(100).startswith(b"250")
        with smtplib.SMTP("127.0.0.1", port, timeout=30) as other:
            assert send(other, to, build("CRITICAL: cpu"))[0] == 250
        # It was silent for longer than the one that has just sent a command.
        assert read_to_the_end(opened[2]).startswith(b"421")


def test_connections_that_send_commands_keep_their_places(start, to):
    port = start(MailLimits(connections=1))
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        assert read_greeting(port) == b"421"
        assert send(client, to, build())[0] == 250


def test_a_mail_that_is_being_sent_makes_no_room(start, to, monkeypatch):
    monkeypatch.setattr(server, "SILENT_S", 0.0)
    port = start(MailLimits(connections=1))
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        client.mail("a@example.org")
        client.rcpt(to)
        client.docmd("DATA")
        assert read_greeting(port) == b"421"
        client.sock.sendall(b"Subject: x\r\n\r\n.\r\n")
        assert client.getreply()[0] == 250


def test_an_address_has_a_limit_of_connections_in_a_minute(start):
    port = start(MailLimits(connections_a_minute=2))

    assert [read_greeting(port) for _ in range(3)] == [b"220", b"220", b"421"]


def test_a_key_has_a_limit_of_mails(start, to):
    with smtplib.SMTP("127.0.0.1", start(MailLimits(mails_of_key_a_minute=1)), timeout=30) as client:
        assert send(client, to, build())[0] == 250
        client.mail("a@example.org")

        assert client.rcpt(to)[0] == 452


def test_a_connection_has_a_limit_of_mails(start, to):
    with smtplib.SMTP("127.0.0.1", start(MailLimits(commands=1)), timeout=30) as client:
        assert send(client, to, build())[0] == 250

        assert client.mail("a@example.org")[0] == 421


def test_a_mail_for_more_keys_than_the_limit_is_for_the_first_ones(start, to):
    with smtplib.SMTP("127.0.0.1", start(MailLimits(recipients=0)), timeout=30) as client:
        client.ehlo()
        client.mail("a@example.org")

        assert client.rcpt(to)[0] == 452


def test_a_server_that_stops_says_so_and_ends(home, world):
    settings = load(
        {
            "TOCSIN_HOME": str(home),
            "TOCSIN_MAIL_IN_DOMAIN": DOMAIN,
            "TOCSIN_MAIL_IN_PORT": str(find_free_port()),
        }
    )
    server = MailServer(settings, listen_for_mail(settings))
    server.start()
    with smtplib.SMTP("127.0.0.1", settings.mail_in_port, timeout=30) as client:
        server.stop()

        assert client.docmd("NOOP")[0] == 421


def test_a_mail_that_is_being_stored_is_answered_before_the_server_stops(home, world, to, monkeypatch):
    settings = load(
        {
            "TOCSIN_HOME": str(home),
            "TOCSIN_MAIL_IN_DOMAIN": DOMAIN,
            "TOCSIN_MAIL_IN_PORT": str(find_free_port()),
        }
    )
    is_storing, may_store, accept = threading.Event(), threading.Event(), Acceptance.accept

    def accept_later(*arguments):
        is_storing.set()
        assert may_store.wait(PATIENCE_S)
        return accept(*arguments)

    monkeypatch.setattr(Acceptance, "accept", accept_later)
    server = MailServer(settings, listen_for_mail(settings))
    server.start()
    with (
        ThreadPoolExecutor() as threads,
        smtplib.SMTP("127.0.0.1", settings.mail_in_port, timeout=30) as client,
    ):
        sent = threads.submit(send, client, to, build())
        assert is_storing.wait(PATIENCE_S)
        stopped = threads.submit(server.stop)
        wait_until(lambda: server._stopping.is_set())
        may_store.set()

        assert sent.result(PATIENCE_S)[0] == 250
        assert client.getreply()[0] == 421
        stopped.result(PATIENCE_S)
    assert Receipt.select().count() == 1
