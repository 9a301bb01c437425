"""Texts of alerts are cleaned, and clean texts are not searched."""

import itertools
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.sources.reading import cleaning
from tests.support.offenders import list_offenders

LEAVES = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats() | st.text(max_size=3)
NUMBERS = st.lists(st.booleans() | st.sampled_from([0, -(2**63), 2**63 - 1, -(2**63) - 1, 2**63]))
PAYLOADS = NUMBERS | st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def test_printable_characters_need_no_cleaning():
    """So a text with only these is not searched for others."""
    text = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))

    assert cleaning._UNFIT.search(text) is None
    assert cleaning._NEWLINE.search(text) is None
    assert {each.group() for each in cleaning._BLANKS.finditer(text)} == {" "}


CLEANERS = [cleaning.clean_text, cleaning.clean_line]
PRINTABLE = ["", " ", " a", "a b", "a  b ", "ab ab", "aaaaaaa", " aaaaaaaaaaaaaaaaaaaa"]


def test_a_printable_text_is_cleaned_like_any_other():
    def check(case):
        clean, text, limit = case
        if len(text) < limit * 2:
            # The newline at its end is removed after the search.
            assert clean(text, limit) == clean(f"{text}\n", limit)
        assert len(clean(text, limit)) <= limit

    assert list_offenders(check, itertools.product(CLEANERS, PRINTABLE, [3, 4, 100])) == []


@given(PAYLOADS)
@example([1, 2**63])
@example([[1, -(2**63)], [0, -(2**63) - 1]])
def test_a_payload_that_is_not_copied_is_fit(payload):
    """Numbers over 64 bits become texts, in long lists too."""
    assert repr(cleaning.clean_payload(payload)) == repr(cleaning._copy_fit(payload, cleaning.PAYLOAD_DEPTH))
