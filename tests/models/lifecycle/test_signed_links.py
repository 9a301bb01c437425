"""Signed links: what they bind, and for how long."""

from datetime import timedelta

import pytest

from models.lifecycle import signed_links
from models.lifecycle.signed_links import (
    LIFETIME,
    BadLink,
    CalendarFeed,
    ExpiredLink,
    Invitation,
    Link,
    Signer,
    get_signer,
)
from models.tables.accounts import Secret, User

LINK = Link(incident=1, user=2, notification=3)
CALENDAR = CalendarFeed(user=2, key="0123456789abcdef", schedule="", own_only=True, months=3)


def test_a_link_is_read_as_it_was_signed(store, now):
    assert get_signer().read(get_signer().sign(LINK, now), now) == LINK
    assert Secret.select().count() == 1


def test_it_ends_after_seven_days(now):
    token = Signer("key").sign(LINK, now)

    assert Signer("key").read(token, now + LIFETIME) == LINK
    with pytest.raises(ExpiredLink):
        Signer("key").read(token, now + LIFETIME + timedelta(seconds=1))


@pytest.mark.parametrize("spoilt", ["", ".", "x", "🔥", "a" * 5000, "WzEsMiwzLDRd.x", "\x00"])
def test_what_was_not_signed_is_no_link(now, spoilt):
    with pytest.raises(BadLink):
        Signer("key").read(spoilt, now)


def test_every_letter_of_it_counts(now):
    token = Signer("key").sign(LINK, now)
    # The last letter of the signature carries two bits that mean nothing.
    for place in range(len(token) - 1):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(BadLink):
            Signer("key").read(token[:place] + other + token[place + 1 :], now)


def test_another_installation_signs_differently(now):
    with pytest.raises(BadLink):
        Signer("other").read(Signer("key").sign(LINK, now), now)


def test_a_new_key_ends_all_links(store, now):
    token = get_signer().sign(LINK, now)
    Secret.delete().execute()

    with pytest.raises(BadLink):
        get_signer().read(token, now)


def test_a_calendar_is_read_as_it_was_signed_however_late(store):
    token = get_signer().sign_feed(CALENDAR)

    assert signed_links.read_feed(token) == CALENDAR
    assert get_signer().sign_feed(CALENDAR) == token
    Secret.delete().execute()
    with pytest.raises(BadLink):
        signed_links.read_feed(token)


@pytest.mark.parametrize("spoilt", ["", ".", "x", "🔥", "a" * 5000, "WzEsMiwzLDRd.x", "\x00"])
def test_what_was_not_signed_is_no_calendar(spoilt):
    with pytest.raises(BadLink):
        Signer("key").read_feed(spoilt)


def test_every_letter_of_a_calendar_counts():
    token = Signer("key").sign_feed(CALENDAR)
    for place in range(len(token) - 1):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(BadLink):
            Signer("key").read_feed(token[:place] + other + token[place + 1 :])


def test_a_token_of_one_purpose_is_good_for_no_other(now):
    ours = Signer("key")
    tokens = {
        "link": ours.sign(LINK, now),
        "invitation": ours.sign_invitation(Invitation(2, "0123456789abcdef"), now),
        "feed": ours.sign_feed(CALENDAR),
    }
    reading = {
        "link": lambda token: ours.read(token, now),
        "invitation": lambda token: ours.read_invitation(token, now),
        "feed": ours.read_feed,
    }
    for purpose, token in tokens.items():
        for other in reading.keys() - {purpose}:
            with pytest.raises(BadLink):
                reading[other](token)


def test_a_calendar_is_by_the_key_that_its_user_has(now):
    user = User(id=7, calendar_key="one")
    calendar = CalendarFeed.for_user(user, own_only=False, months=3, schedule="x")

    assert calendar.has_key_of(user)
    assert "one" not in Signer("key").sign_feed(calendar)
    assert not calendar.has_key_of(User(id=7, calendar_key="two"))
    assert not calendar.has_key_of(User(id=7))
