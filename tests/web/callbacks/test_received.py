"""A callback acts once, and only if it is recent."""

from datetime import timedelta

from models.tables.callbacks import Callback
from web.callbacks.received import KEPT, MAX_AGE, is_new


def test_the_same_callback_is_new_only_once(world, now):
    assert is_new("slack", "T1", now)
    assert not is_new("slack", "T1", now + MAX_AGE)
    assert is_new("telegram", "T1", now)


def test_callbacks_are_forgotten_when_their_signatures_are_too_old(world, now):
    is_new("slack", "T1", now)

    assert is_new("slack", "T2", now + KEPT + timedelta(seconds=1))
    assert Callback.select().count() == 1


def test_a_callback_can_be_remembered_for_longer(world, now):
    is_new("twilio", "reply", now, timedelta(days=2))
    is_new("twilio", "report", now)
    is_new("twilio", "another", now + timedelta(days=1))

    assert not is_new("twilio", "reply", now + timedelta(days=1))
    assert is_new("twilio", "report", now + timedelta(days=1))
    assert is_new("twilio", "reply", now + timedelta(days=2, seconds=1))


def test_a_callback_of_an_earlier_version_is_forgotten_too(world, now):
    Callback.create(key="0", at=now)
    is_new("slack", "T1", now + KEPT + timedelta(seconds=1))

    assert Callback.select().count() == 1
