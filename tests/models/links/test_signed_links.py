"""Signed links: content and expiry."""

from datetime import timedelta

import pytest
from itsdangerous import URLSafeSerializer

from models.links import signed_links
from models.links.signed_links import (
    LIFETIME,
    BadLink,
    CalendarFeed,
    ExpiredLink,
    IncidentLink,
    Invitation,
    Signer,
    get_signer,
)
from models.tables.accounts import Secret, User

LINK = IncidentLink(incident=1, user=2, notification=3)
CALENDAR = CalendarFeed(user=2, key="0123456789abcdef", schedule="", own_only=True, months=3)


def test_a_signed_link_is_read_unchanged(store, now):
    assert get_signer().read(get_signer().sign(LINK, now), now) == LINK
    assert Secret.select().count() == 1


def test_a_link_is_the_same_as_the_one_that_the_library_writes(now):
    library = URLSafeSerializer("key", salt="link")

    token = Signer("key").sign(LINK, now)

    assert token == library.dumps([1, 2, 3, int((now + LIFETIME).timestamp())])


def test_a_link_expires_after_seven_days(now):
    token = Signer("key").sign(LINK, now)

    assert Signer("key").read(token, now + LIFETIME) == LINK
    with pytest.raises(ExpiredLink):
        Signer("key").read(token, now + LIFETIME + timedelta(seconds=1))


@pytest.mark.parametrize("invalid", ["", ".", "x", "🔥", "a" * 5000, "WzEsMiwzLDRd.x", "\x00"])
def test_a_link_without_a_valid_signature_is_refused(now, invalid):
    with pytest.raises(BadLink):
        Signer("key").read(invalid, now)


def test_a_link_with_one_changed_character_is_refused(now):
    token = Signer("key").sign(LINK, now)
    # The last character of the signature contains two bits without a meaning.
    for position in range(len(token) - 1):
        other = "A" if token[position] != "A" else "B"
        with pytest.raises(BadLink):
            Signer("key").read(token[:position] + other + token[position + 1 :], now)


def test_a_link_of_another_installation_is_refused(now):
    with pytest.raises(BadLink):
        Signer("other").read(Signer("key").sign(LINK, now), now)


def test_a_new_signing_key_invalidates_all_links(store, now):
    token = get_signer().sign(LINK, now)
    Secret.delete().execute()

    with pytest.raises(BadLink):
        get_signer().read(token, now)


def test_a_signed_calendar_feed_is_read_unchanged_and_does_not_expire(store):
    token = get_signer().sign_feed(CALENDAR)

    assert signed_links.get_reader().read_feed(token) == CALENDAR
    assert get_signer().sign_feed(CALENDAR) == token
    Secret.delete().execute()
    with pytest.raises(BadLink):
        signed_links.get_reader().read_feed(token)


@pytest.mark.parametrize("invalid", ["", ".", "x", "🔥", "a" * 5000, "WzEsMiwzLDRd.x", "\x00"])
def test_a_calendar_feed_without_a_valid_signature_is_refused(invalid):
    with pytest.raises(BadLink):
        Signer("key").read_feed(invalid)


def test_a_calendar_feed_with_one_changed_character_is_refused():
    token = Signer("key").sign_feed(CALENDAR)
    for position in range(len(token) - 1):
        other = "A" if token[position] != "A" else "B"
        with pytest.raises(BadLink):
            Signer("key").read_feed(token[:position] + other + token[position + 1 :])


def test_a_token_of_one_kind_is_not_valid_for_another_kind(now):
    signer = Signer("key")
    tokens = {
        "link": signer.sign(LINK, now),
        "invitation": signer.sign_invitation(Invitation(2, "0123456789abcdef"), now),
        "feed": signer.sign_feed(CALENDAR),
    }
    readers = {
        "link": lambda token: signer.read(token, now),
        "invitation": lambda token: signer.read_invitation(token, now),
        "feed": signer.read_feed,
    }
    for kind, token in tokens.items():
        for other in readers.keys() - {kind}:
            with pytest.raises(BadLink):
                readers[other](token)


def test_a_calendar_feed_is_bound_to_the_calendar_key_of_its_user(now):
    user = User(id=7, calendar_key="one")
    calendar = CalendarFeed.for_user(user, own_only=False, months=3, schedule="x")

    assert calendar.has_key_of(user)
    assert "one" not in Signer("key").sign_feed(calendar)
    assert not calendar.has_key_of(User(id=7, calendar_key="two"))
    assert not calendar.has_key_of(User(id=7))
