"""Mails that come back are read, fail their message, and mark their address."""

import time

import pytest

from models.domain.enums import ContactType, MessageKind, MessageStatus
from models.domain.reasons import make_reason
from models.links.return_paths import is_return_path, make_return_path, read_return_path
from models.tables.accounts import User
from models.tables.notifications import Attempt, Message
from models.tables.users import ContactMethod
from models.write.bounces import PROVIDER, record_bounce
from runtime.settings import BadSetting, load
from tests.support.mail_server import start_mailbox
from tests.support.scenarios.delivery import alert
from tocsin.server.mail_in.acceptance import Acceptance
from tocsin.server.mail_in.bounces import find_failure
from workers.delivery import deliver

DOMAIN = "alerts.example.org"


def build_report(action="failed", status="5.1.1"):
    """Build a report in the form of RFC 3464, section 2."""
    return (
        "From: MAILER-DAEMON@mx.example.net\r\nSubject: Undelivered Mail\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/plain\r\n\r\nNot delivered.\r\n"
        "--b\r\nContent-Type: message/delivery-status\r\n\r\n"
        "Reporting-MTA: dns; mx.example.net\r\n\r\n"
        f"Final-Recipient: rfc822; gone@example.net\r\nAction: {action}\r\nStatus: {status}\r\n"
        "--b--\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (build_report(), "5.1.1"),
        (build_report("Failed", "5.7.1 (refused)"), "5.7.1"),
        (build_report("delayed", "4.4.1"), None),
        (build_report("failed", "nonsense"), None),
        (b"Subject: I am away\r\n\r\nUntil Monday.", None),
        (b"", None),
    ],
    ids=["failed", "with a comment", "delayed", "no status", "absent person", "empty"],
)
def test_a_report_names_the_status_of_a_failed_delivery(raw, status):
    assert find_failure(raw) == status


def test_a_return_path_names_its_message_and_is_signed(world):
    message_id = "0123456789abcdef" * 2 + "01234567"
    local, _, domain = make_return_path(message_id, DOMAIN).partition("@")

    assert (len(local), domain, is_return_path(local.upper())) == (64, DOMAIN, True)
    assert read_return_path(local) == message_id
    assert read_return_path(local[:-1] + ("0" if local[-1] != "0" else "1")) is None


@pytest.fixture
def sent(world, now):
    """The return path of a mail to a second address of Alice, about an incident that is open."""
    ContactMethod.update(value="gone@example.net", verified_value="gone@example.net").where(
        ContactMethod.user == world.alice
    ).execute()
    alert(world, now)
    with start_mailbox() as box:
        settings = {
            "TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port), "TOCSIN_SMTP_BOUNCES": "1",
            "TOCSIN_MAIL_IN_DOMAIN": DOMAIN, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
        }  # fmt: skip
        deliver.configure(load(settings))
        deliver.send_due(ContactType.EMAIL, now)
        yield box
    deliver._runtimes.clear()


def test_a_mail_that_comes_back_is_sent_in_another_way_and_marks_its_contact(sent, world, now):
    (path,) = sent.return_paths
    local, _, domain = path.partition("@")
    message = Message.get()
    assert (domain, read_return_path(local)) == (DOMAIN, message.message_id)
    assert (Attempt.get().provider, Attempt.get().provider_id) == (PROVIDER, message.message_id)

    acceptance = Acceptance()
    assert acceptance.knows(local)
    assert acceptance.accept([local], build_report(), "", time.monotonic()) == []

    contact = ContactMethod.get(ContactMethod.user == world.alice)
    assert contact.verified_value is None
    deliver.send_due(ContactType.EMAIL, now.replace(year=2027))
    assert Message.get_by_id(message.id).state == MessageStatus.FAILED
    later = [(address, str(mail["Subject"]).lstrip()) for address, mail in sent.mails[1:]]
    assert ("alice@example.org", f"[Tocsin] Mails to your contact {contact.name} come back") in later
    assert ("alice@example.org", "[Checkout] #1 Disk full on db1 (critical)") in later


def test_a_full_mailbox_fails_the_message_and_leaves_its_address(sent, world, now):
    record_bounce(Message.get().message_id, "5.2.2", now)

    assert ContactMethod.get(ContactMethod.user == world.alice).verified_value == "gone@example.net"
    assert not Message.select().where(Message.kind == MessageKind.BOUNCED).exists()


def test_the_own_address_that_does_not_exist_is_no_longer_verified(world, now):
    alert(world, now)
    message = Message.get()
    Message.update(state=MessageStatus.SENT, done_at=now).execute()
    Attempt.create(
        message=message, at=now, outcome="sent", detail=make_reason("smtp_accepted", code=250),
        milliseconds=1, provider=PROVIDER, provider_id=message.message_id,
    )  # fmt: skip

    record_bounce(message.message_id, "5.1.1", now)

    assert User.get_by_id(world.alice.id).verified_email is None


def test_a_forged_address_is_unknown(world):
    local = f"bounce-{'a' * 40}-{'b' * 16}"

    assert not Acceptance().knows(local)


def test_bounces_need_a_domain_for_mails():
    with pytest.raises(BadSetting, match="TOCSIN_MAIL_IN_DOMAIN"):
        load({"TOCSIN_SMTP_BOUNCES": "1"})
