"""Requests to swap shifts end when the first of the shifts begins, and the mails name the shifts."""

from datetime import timedelta

import pytest

from models.contacts.messages import create_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, SwapState
from models.store.ids import make_uuid
from models.tables.notifications import Message
from models.tables.schedules import ShiftSwap
from pipeline.messages.content import write_plain_text
from tests.support.schedules import stored
from workers.delivery.render import render_message
from workers.periodic.past_swaps import end_past

DAY = timedelta(days=1)


@pytest.fixture
def swap(world, now):
    """Bob asks Alice to take his shift of tomorrow, for her shift of the day after."""
    schedule = stored.schedule(world.team, stored.layer(world.alice, world.bob))
    return ShiftSwap.create(
        unique_id=make_uuid(), creation_date=now, schedule=schedule,
        asker=world.bob, asked_start=now + DAY, asked_end=now + 2 * DAY,
        partner=world.alice, returned_start=now + 2 * DAY, returned_end=now + 3 * DAY,
    )  # fmt: skip


def list_mails():
    return [(mail.user.first_name, mail.kind) for mail in Message.select().order_by(Message.id)]


def test_a_request_that_has_passed_ends_with_a_message_to_the_person_who_asked(swap, now):
    assert end_past(now + DAY - timedelta(seconds=1)) == 0
    assert (end_past(now + DAY), end_past(now + DAY)) == (1, 0)

    assert (ShiftSwap.get().state, list_mails()) == (SwapState.PASSED, [("Bob", MessageKind.SWAP_PASSED)])


def test_both_people_get_a_message_if_the_other_one_had_consented(swap, now):
    ShiftSwap.update(state=SwapState.AGREED).execute()
    end_past(now + DAY)

    assert list_mails() == [("Bob", MessageKind.SWAP_PASSED), ("Alice", MessageKind.SWAP_PASSED)]


def test_a_request_that_was_answered_does_not_pass(swap, now):
    ShiftSwap.update(state=SwapState.DECLINED).execute()

    assert end_past(now + 9 * DAY) == 0


def render(swap, to, kind, now):
    mail = create_message(to, "Bob", now, channel=USER_EMAIL_CHANNEL, kind=kind, group_key=swap.unique_id)
    return render_message(mail.id, "https://tocsin.example.org", now).message


def test_a_mail_about_a_request_names_schedule_and_shifts_and_links_to_the_answer(swap, world, now):
    text = write_plain_text(render(swap, world.alice, MessageKind.SWAP, now).content)

    assert "Schedule: Primary\n" in text
    assert "You give: Fri 6 Mar 2026, 12:00:00 UTC to Sat 7 Mar 2026, 12:00:00 UTC\n" in text
    assert "You take: Thu 5 Mar 2026, 12:00:00 UTC to Fri 6 Mar 2026, 12:00:00 UTC\n" in text
    assert "https://tocsin.example.org/swap/" in text


def test_a_mail_about_a_request_is_not_sent_after_its_answer_or_its_shift(swap, world, now):
    assert render(swap, world.alice, MessageKind.SWAP, now + DAY) is None
    ShiftSwap.update(state=SwapState.DECLINED).execute()

    assert render(swap, world.alice, MessageKind.SWAP, now) is None
    assert render(swap, world.bob, MessageKind.SWAP_DECLINED, now) is not None
