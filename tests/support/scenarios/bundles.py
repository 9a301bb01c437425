"""A person who gets more messages than the limit of a contact allows."""

import pytest

from models.domain.message_limits import get_limit
from models.tables.users import NotificationRule
from tests.support.delivery.http_channels import HttpChannel, add_channel, add_contact, start_inbox
from tests.support.scenarios.delivery import deliver_to

__all__ = ["LIMIT", "PUSH", "deliver_to", "inbox"]

PUSH = 190
LIMIT = get_limit(PUSH)


@pytest.fixture
def inbox(world, monkeypatch, deliver_to):
    """The server of a push service, which is Alice's only contact."""
    with start_inbox() as inbox:
        deliver_to(1)
        add_channel(monkeypatch, PUSH, HttpChannel(inbox.url))
        NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
        add_contact(world.alice, PUSH, "a")
        yield inbox
