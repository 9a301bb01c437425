"""Texts of alerts are cleaned, and clean texts are not searched."""

import sys

import pytest

from pipeline.sources import cleaning


def test_printable_characters_need_no_cleaning():
    """So a text with only these is not searched for others."""
    text = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))

    assert cleaning._UNFIT.search(text) is None
    assert cleaning._NEWLINE.search(text) is None
    assert {each.group() for each in cleaning._BLANKS.finditer(text)} == {" "}


@pytest.mark.parametrize("clean", [cleaning.clean_text, cleaning.clean_line])
@pytest.mark.parametrize("text", ["", " ", " a", "a b", "a  b ", "ab ab", "aaaaaaa", " aaaaaaaaaaaaaaaaaaaa"])
@pytest.mark.parametrize("limit", [3, 4, 100])
def test_a_printable_text_is_cleaned_like_any_other(clean, text, limit):
    if len(text) < limit * 2:
        # The newline at its end is removed after the search.
        assert clean(text, limit) == clean(f"{text}\n", limit)
    assert len(clean(text, limit)) <= limit
