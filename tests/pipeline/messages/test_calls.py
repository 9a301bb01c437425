"""The words of a call, and the XML that says them."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from pipeline.messages.calls import MAX_SPOKEN, MAX_TWIML, build_question, build_statement, say

URL = "https://tocsin.example.org/callbacks/twilio/phone/digits/?step=1"


def test_a_call_says_the_service_and_the_title():
    assert say("[Checkout] #12 Disk full (critical)") == "Checkout. number 12 Disk full (critical)."


def test_a_code_is_spelt():
    assert say("[Tocsin] Code 123456") == "Tocsin. Code 1, 2, 3, 4, 5, 6."


def test_a_question_says_its_text_twice_and_names_the_keys():
    question = ElementTree.fromstring(build_question("Disk full.", ["acknowledge", "resolve"], URL))
    gather = question.find("Gather")

    assert gather is not None
    assert gather.attrib == {
        "input": "dtmf", "numDigits": "1", "timeout": "10", "method": "POST", "action": URL,
    }  # fmt: skip
    spoken = gather.find("Say")
    assert spoken is not None
    assert (spoken.attrib, spoken.text) == (
        {"loop": "2"},
        "Disk full. Press 1 to acknowledge, 2 to resolve, 3 to hear this again.",
    )


def test_only_actions_that_are_possible_are_named():
    assert "Press 2 to resolve, 3 to hear" in build_question("Disk full.", ["resolve"], URL)


@given(st.text(max_size=3_000))
def test_no_text_breaks_the_xml_or_exceeds_its_limit(text):
    spoken = say(text)
    question = build_question(spoken, ["acknowledge", "resolve"], URL)

    assert len(spoken) <= MAX_SPOKEN + 1
    assert len(question) <= MAX_TWIML
    assert [each.tag for each in ElementTree.fromstring(question)] == ["Gather", "Say"]
    (spoken_again,) = ElementTree.fromstring(build_statement(spoken, times=2))
    assert spoken_again.tag == "Say"
