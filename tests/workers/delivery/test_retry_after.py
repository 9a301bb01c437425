"""A message is not sent earlier than the provider asks."""

from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.tables.notifications import Attempt, Message
from models.tables.users import NotificationRule
from tests.support.delivery.http_channels import HttpChannel, add_channel, add_contact, alert_at, start_inbox
from tests.support.scenarios.delivery import deliver_to
from workers.delivery import deliver

__all__ = ["deliver_to"]

PUSH = 190
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(("status", "outcome"), [(429, "retry"), (503, "retry")])
def test_a_provider_that_names_a_time_is_not_asked_earlier(
    world, now, deliver_to, monkeypatch, status, outcome
):
    with start_inbox(status, {"Retry-After": "90"}) as inbox:
        deliver_to(1)
        add_channel(monkeypatch, PUSH, HttpChannel(inbox.url))
        NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
        add_contact(world.alice, PUSH, "a")
        alert_at(world, now)
        deliver.send_due(PUSH, now)
        inbox.status = 200
        deliver.send_due(PUSH, now + 89 * SECOND)

        assert (inbox.requests, Attempt.get().outcome, Attempt.get().provider) == (1, outcome, "test")
        deliver.send_due(PUSH, now + 90 * SECOND)

    assert Message.get().state == MessageStatus.SENT
    assert len(inbox.taken) == 1
