"""The text of an SMS: at most three segments, whatever its parts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.domain.values import replace
from pipeline.messages.content import Action, LabelledLink, MessageContent
from pipeline.messages.sms_segments import MAX_SEGMENTS, count_segments
from tests.support.delivery.messages import build_hostile, build_single
from workers.delivery.channels import sms
from workers.delivery.transport.texts import MessageText

TEXT = MessageText("sms.txt")
URL = "https://tocsin.example.org/i/" + "x" * 80


def content(title="[Checkout] #1 Disk full on db1 (critical)", actions=("acknowledge", "resolve"), links=1):
    each = LabelledLink("Open", URL, actions=tuple(Action(name, "token", 1) for name in actions))
    return MessageContent(title, ("Hello Alice,", "", "nothing has happened."), links=(each,) * links)


def write_sms(message: MessageContent, code: str) -> str:
    return sms.write_sms(TEXT, message, code)


def test_an_sms_about_one_incident_says_since_when_who_else_and_what_is_next():
    assert write_sms(build_single(), "K7PM").splitlines()[:3] == [
        "[Checkout] #12 Disk full on db1 (critical)",
        "Since Wed 13:00 CET. Also notified: Bob. Next, in 5 min: Carol.",
        "Reply 1 K7PM = acknowledge, 2 K7PM = resolve",
    ]


def test_the_title_the_code_and_the_link_stay_the_longest():
    text = write_sms(build_single(title="\u4e2d" * 50), "K7PM")

    assert text.splitlines()[1].startswith("Reply 1 K7PM")
    assert text.splitlines()[2].startswith("https://")


def test_a_long_hostile_message_keeps_its_code_and_its_segments():
    text = write_sms(build_hostile(), "K7PM")

    assert count_segments(text) <= MAX_SEGMENTS
    assert "1 K7PM = acknowledge" in text


def test_an_sms_says_what_happened_and_how_to_reply_and_where_to_see_it():
    assert write_sms(content(), "K7PM") == (
        f"[Checkout] #1 Disk full on db1 (critical)\nReply 1 K7PM = acknowledge, 2 K7PM = resolve\n{URL}"
    )


def test_an_acknowledged_incident_can_only_be_resolved():
    assert "\nReply 2 K7PM = resolve\n" in write_sms(content(actions=("resolve",)), "K7PM")


def test_a_message_about_two_incidents_has_no_link():
    both = content("[Checkout] 2 incidents: a, b", links=2)
    both = replace(both, links=tuple(replace(link, note="Checkout; critical") for link in both.links))

    assert write_sms(both, "K7PM") == (
        "[Checkout] 2 incidents: a, b\nReply 1 K7PM = acknowledge, 2 K7PM = resolve"
    )


def test_a_message_without_incidents_has_one_segment():
    text = write_sms(content("[Tocsin] Code 123456", actions=(), links=0), "")

    assert text == "[Tocsin] Code 123456: Hello Alice, nothing has happened."


def test_the_link_is_left_out_rather_than_the_title():
    text = write_sms(content("\u4e2d" * 100), "K7PM")

    assert URL not in text
    assert text.startswith("\u4e2d" * 100)
    assert text.endswith("2 K7PM = resolve")


def build_bundle(title, link):
    return MessageContent(title, ("12 more incidents.",), links=(LabelledLink("See the list:", link),))


@pytest.mark.parametrize("title", ["Disk full " * 90, "\u4e2d" * 900, "x\n" * 600])
@pytest.mark.parametrize("length", [30, 120, 180])
def test_a_bundle_keeps_its_link_whatever_its_title_is(title, length):
    link = "https://tocsin.example.org/b/".ljust(length, "x")
    text = write_sms(build_bundle(title, link), "K7PM")

    assert text.splitlines()[-1] == link
    assert count_segments(text) <= MAX_SEGMENTS
    assert text.startswith(title[0])


@given(st.text(max_size=900), st.integers(0, 2), st.sampled_from(["", "K7PM"]))
def test_no_text_makes_more_than_three_segments_or_loses_the_code(title, links, code):
    text = write_sms(content(title, links=links), code)

    assert count_segments(text) <= MAX_SEGMENTS
    assert not (links and code) or f"1 {code} = acknowledge, 2 {code} = resolve" in text
