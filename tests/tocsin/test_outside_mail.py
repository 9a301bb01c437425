"""While pages do not go out, the URL outside is not pinged; one person's wrong address withholds nothing."""

from datetime import timedelta

import pytest

from models import metrics as kept
from models.enums import ContactType, MessageState
from models.notices import Message
from models.trials import new_trial
from models.users import ContactMethod
from tests.alerts import accept
from tests.processes import free_port
from tests.relays import relay
from tocsin import outside
from tocsin.settings import load
from workers import deliver, road
from workers.channels.relay import Relay

MAIL = ContactType.EMAIL
LATE, NOT_SENT = "messages are late", "messages cannot be sent"


@pytest.fixture
def post(world, now):
    post = Post(world, now)
    yield post
    deliver._posts.clear()


class Post:
    """Deliveries by a relay; a worker looks every 15 seconds."""

    def __init__(self, world, now):
        self.world, self.now, self.seconds = world, now, 0.0

    def by(self, port):
        where = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(port)} if port else {}
        deliver.configure(load({**where, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
        deliver._posts[MAIL].relay = Relay(lambda: self.seconds)

    def page(self, entity="db1"):
        accept(self.world, self.now, message="m", alert_type="critical", entity_id=entity, exactly=True)
        road.run(self.world.service.id)

    def tell_bob(self):
        new_trial(ContactMethod.get(ContactMethod.user == self.world.bob), "a test", self.now)

    def after(self, **span):
        """What is wrong by then."""
        until = self.now + timedelta(**span)
        while self.now < until:
            step = min(timedelta(seconds=15), until - self.now)
            self.now += step
            self.seconds += step.total_seconds()
            deliver.drain(MAIL, self.now)
        return self.wrong()

    def wrong(self):
        return list(outside._late(kept.backlog(self.now), self.now))


@pytest.mark.parametrize("pages", [1, 4])
def test_a_dead_relay_withholds_it_until_something_is_sent_again(post, pages):
    post.by(free_port())
    for number in range(pages):
        post.page(f"db{number}")
    assert post.after(seconds=295) == []
    assert all(post.after(minutes=1) == [LATE] for _ in range(54))
    assert post.after(minutes=15) == [NOT_SENT]
    assert Message.select().where(Message.state != MessageState.FAILED).count() == 0

    with relay() as box:
        post.by(box.port)
        assert post.after(minutes=1) == [NOT_SENT]
        post.tell_bob()
        assert post.after(seconds=5) == []


def test_without_a_relay_no_page_goes_out(post):
    post.by(None)
    post.page()
    assert post.wrong() == []

    assert post.after(seconds=5) == [NOT_SENT]


def test_a_relay_that_does_not_take_the_sender_takes_nothing(post):
    with relay({"MAIL": "550 5.7.1 not you"}) as box:
        post.by(box.port)
        post.page()

        assert post.after(seconds=330) == [LATE]
        assert post.after(minutes=60) == [NOT_SENT]


def test_an_address_that_is_refused_for_good_withholds_nothing(post):
    with relay({"RCPT": "550 5.1.1 unknown"}) as box:
        post.by(box.port)
        post.page()

        assert post.after(minutes=10) == []
        assert Message.get().state == MessageState.FAILED


def test_an_address_that_is_never_taken_withholds_nothing_while_others_are(post):
    with relay({"RCPT alice@example.org": "450 4.1.2 domain not found"}) as box:
        post.by(box.port)
        post.page()
        assert post.after(minutes=6) == [LATE]

        post.tell_bob()
        assert post.after(seconds=5) == []
        assert post.after(minutes=50) == []
        assert post.after(minutes=10) == [NOT_SENT]
        post.tell_bob()
        assert post.after(seconds=5) == []


def test_what_nobody_tries_is_late_whatever_was_sent_since(post):
    post.page()
    Message.update(next_at=post.now - timedelta(seconds=301)).execute()
    post.tell_bob()
    Message.update(state=MessageState.SENT, done_at=post.now).where(Message.reason == "a test").execute()

    assert post.wrong() == [LATE]
