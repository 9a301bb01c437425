"""Signed links: what they bind, and for how long."""

from datetime import timedelta

import pytest

from models.accounts import Secret
from models.links import LIFETIME, BadLink, ExpiredLink, Link, Signer, signer

LINK = Link(incident=1, user=2, notice=3)


def test_a_link_is_read_as_it_was_signed(store, now):
    assert signer().read(signer().sign(LINK, now), now) == LINK
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
    token = signer().sign(LINK, now)
    Secret.delete().execute()

    with pytest.raises(BadLink):
        signer().read(token, now)
