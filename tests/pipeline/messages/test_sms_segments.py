"""An SMS has at most three segments, whatever its texts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.messages.sms_segments import count_segments, shorten, write_replies


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("", 1),
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("a" * 306, 2),
        ("a" * 307, 3),
        # These need two characters each. None is divided.
        ("[" * 80, 1),
        ("[" * 81, 2),
        ("[" * 153, 3),
        ("é" * 160, 1),
        ("\u4e2d" * 70, 1),
        ("\u4e2d" * 71, 2),
        ("a" * 70 + "\u4e2d", 2),
        ("\U0001f525" * 35, 1),
        ("\U0001f525" * 66, 2),
        ("\U0001f525" * 67, 3),
    ],
)
def test_segments_are_counted_as_networks_do(text, segments):
    assert count_segments(text) == segments


@pytest.mark.parametrize(
    ("offered", "code", "text"),
    [
        (("acknowledge", "resolve"), "K7PM", "Reply 1 K7PM = acknowledge, 2 K7PM = resolve"),
        (("resolve",), "K7PM", "Reply 2 K7PM = resolve"),
        ((), "K7PM", ""),
        (("resolve",), "", ""),
    ],
)
def test_a_reply_needs_an_action_and_a_code(offered, code, text):
    assert write_replies(offered, code) == text


@given(st.text(min_size=300, max_size=900))
def test_a_shortened_text_uses_its_segments(text):
    short = shorten(text, "tail", 2)

    assert count_segments(short) <= 2
    assert short.endswith("\ntail")
    assert short == f"{text}\ntail" or len(short) > 55
