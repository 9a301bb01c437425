"""Problems of the mail relay stop the requests of the dead-man's switch; one wrong address does not."""

from datetime import timedelta

import pytest

from models.contacts.messages import create_test_message
from models.domain.enums import ContactType, MessageStatus
from models.reports.backlog import measure_backlog
from models.tables.notifications import Message
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.alerts import accept
from tests.support.processes import find_free_port
from tests.support.relays import relay
from tocsin.server import dead_mans_switch
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.delivery.transport.relay_gate import RelayGate

MAIL = ContactType.EMAIL
LATE, NOT_SENT = "messages are late", "messages cannot be sent"


@pytest.fixture
def delivery(world, now):
    delivery = MailDelivery(world, now)
    yield delivery
    deliver._runtimes.clear()


class MailDelivery:
    """Delivery by a relay with a worker that sends due messages every 15 seconds."""

    def __init__(self, world, now):
        self.world, self.now, self.seconds = world, now, 0.0

    def use_relay(self, port):
        where = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(port)} if port else {}
        deliver.configure(load({**where, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
        deliver._runtimes[MAIL].gate = RelayGate(lambda: self.seconds)

    def page_alice(self, entity="db1"):
        accept(self.world, self.now, message="m", alert_type="critical", entity_id=entity, exactly=True)
        process_lane.run(self.world.service.id)

    def page_bob(self):
        create_test_message(ContactMethod.get(ContactMethod.user == self.world.bob), "a test", self.now)

    def after(self, **span):
        """Let time pass and return the problems at its end."""
        until = self.now + timedelta(**span)
        while self.now < until:
            step = min(timedelta(seconds=15), until - self.now)
            self.now += step
            self.seconds += step.total_seconds()
            deliver.send_due(MAIL, self.now)
        return self.get_problem()

    def get_problem(self):
        return list(dead_mans_switch._find_backlogs(measure_backlog(self.now), self.now))


@pytest.mark.parametrize("pages", [1, 4])
def test_an_unreachable_relay_is_a_problem_until_a_message_is_sent(delivery, pages):
    delivery.use_relay(find_free_port())
    for number in range(pages):
        delivery.page_alice(f"db{number}")
    assert delivery.after(seconds=295) == []
    assert all(delivery.after(minutes=1) == [LATE] for _ in range(54))
    assert delivery.after(minutes=15) == [LATE]

    with relay() as box:
        delivery.use_relay(box.port)
        assert delivery.after(minutes=5) == []
        assert len(box.mails) == pages


def test_messages_that_were_given_up_are_a_problem_until_one_is_sent(delivery):
    delivery.use_relay(find_free_port())
    delivery.page_bob()
    assert delivery.after(minutes=70) == [NOT_SENT]

    with relay() as box:
        delivery.use_relay(box.port)
        assert delivery.after(minutes=1) == [NOT_SENT]
        delivery.page_bob()
        assert delivery.after(seconds=5) == []


def test_a_missing_relay_is_a_problem(delivery):
    delivery.use_relay(None)
    delivery.page_alice()
    assert delivery.get_problem() == []

    assert delivery.after(seconds=5) == [NOT_SENT]


def test_a_relay_that_refuses_the_sender_is_a_problem(delivery):
    with relay({"MAIL": "550 5.7.1 not you"}) as box:
        delivery.use_relay(box.port)
        delivery.page_alice()

        assert delivery.after(seconds=330) == [LATE]
        assert delivery.after(minutes=60) == [LATE]


def test_a_relay_that_refuses_everybody_is_a_problem(delivery):
    with relay({"RCPT": "550 5.7.1 no"}) as box:
        delivery.use_relay(box.port)
        delivery.page_alice()

        assert delivery.after(seconds=330) == [LATE]
        assert delivery.after(hours=25) == [LATE]


def test_an_address_that_is_refused_permanently_is_not_a_problem(delivery):
    with relay({"RCPT alice@example.org": "550 5.1.1 unknown"}) as box:
        delivery.use_relay(box.port)
        delivery.page_alice()
        delivery.after(seconds=15)
        delivery.page_bob()

        assert delivery.after(minutes=10) == []
        assert Message.get_by_id(1).state == MessageStatus.FAILED


def test_an_address_that_is_refused_temporarily_is_not_a_problem_while_others_work(delivery):
    with relay({"RCPT alice@example.org": "450 4.1.2 domain not found"}) as box:
        delivery.use_relay(box.port)
        delivery.page_alice()
        assert delivery.after(minutes=6) == [LATE]

        delivery.page_bob()
        assert delivery.after(seconds=5) == []
        assert delivery.after(minutes=60) == []


def test_a_message_without_an_attempt_is_late_even_if_others_were_sent(delivery):
    delivery.page_alice()
    Message.update(next_attempt_at=delivery.now - timedelta(seconds=301)).execute()
    delivery.page_bob()
    Message.update(state=MessageStatus.SENT, done_at=delivery.now).where(
        Message.requested_by == "a test"
    ).execute()

    assert delivery.get_problem() == [LATE]
