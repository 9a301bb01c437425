"""Content is shortened to a number of characters, the most important texts first."""

from dataclasses import fields

import pytest

from pipeline.messages.content import KeyFacts, MessageContent
from pipeline.messages.shortening import count_characters, shorten_content, shorten_text
from tests.support.delivery.messages import build_group, build_hostile, build_single


def measure_texts(content: MessageContent) -> int:
    """Return the number of characters without the heading and the facts, which repeat others."""
    facts = sum(len(getattr(content.facts, field.name)) for field in fields(KeyFacts))
    return count_characters(content) - facts - len(content.heading)


@pytest.mark.parametrize("build", [build_single, build_group, build_hostile])
def test_a_limit_holds_and_no_link_is_broken(build):
    content = build()
    addresses = {link.url for link in content.links}
    total = count_characters(content)

    for limit in [*range(min(total, 700)), *range(0, total, 97)]:
        short = shorten_content(content, limit)
        note = len(short.closing) if short.closing.endswith("more in Tocsin") else 0
        assert measure_texts(short) - note <= limit
        assert {link.url for link in short.links} <= addresses


def test_with_its_own_length_a_content_stays_as_it_is():
    for content in (build_single(), build_group(), build_hostile()):
        assert shorten_content(content, count_characters(content)) == content


def test_the_title_and_the_first_link_stay_the_longest():
    content = build_single(summary="x" * 2_000)
    short = shorten_content(content, len(content.title) + len(content.links[0].url))

    assert (short.title, short.links[0].url) == (content.title, content.links[0].url)
    assert (short.lines, short.details, short.closing) == ((), (), "")


def test_incidents_that_are_left_out_are_counted():
    short = shorten_content(build_group(40), 1_000)

    assert 1 <= len(short.links) < 40
    assert short.closing == f"and {40 - len(short.links)} more in Tocsin"


@pytest.mark.parametrize(("limit", "text"), [(9, "Disk full"), (8, "Disk..."), (4, "D..."), (3, ""), (0, "")])
def test_a_shortened_text_ends_with_an_ellipsis(limit, text):
    assert shorten_text("Disk full", limit) == text
