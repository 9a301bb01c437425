"""Write a message as the words of a phone call, in TwiML: the XML that tells Twilio what a call does."""

import re
from collections.abc import Collection
from xml.sax.saxutils import escape, quoteattr

from pipeline.messages.content import CHOICES
from pipeline.sources.reading.cleaning import clean_line

# The digit with which the person hears everything again.
REPEAT = "3"
# The longest text of a call, in characters. It takes about half a minute.
MAX_SPOKEN = 400
# Twilio accepts at most this many characters of TwiML with a new call. MAX_SPOKEN and a URL are far below it.
MAX_TWIML = 4_000
GATHER_TIMEOUT_S = 10

_SERVICE = re.compile(r"^(Alert from Tocsin\. )?\[([^\]]*)\] ")
# A voice says the names of these signs.
_SPOKEN = {"%": " percent", "&": " and ", "<": " ", ">": " "}
_SIGNS = re.compile(r" ?[%&<>]")
_NUMBER = re.compile(r"#(?=\d)")
# A voice reads a long number as millions; codes are spelt.
_DIGITS = re.compile(r"\d{5,}")
# What XML 1.0 cannot contain, beside what clean_line() removes.
_UNFIT = re.compile("[\ufffe\uffff]")


def say(text: str) -> str:
    """Return a text as it is spoken, shortened: the service first, and codes digit by digit."""
    return spell(text)[:MAX_SPOKEN].rstrip(" .") + "."


def spell(text: str) -> str:
    """Return a text of any length as it is spoken."""
    words = _NUMBER.sub("number ", _SERVICE.sub(r"\1\2. ", clean_line(text)))
    words = clean_line(_SIGNS.sub(lambda found: _SPOKEN[found[0].strip()], words))
    return _UNFIT.sub("", _DIGITS.sub(lambda found: ", ".join(found[0]), words))


def build_question(text: str, offered: Collection[str], url: str) -> str:
    """Return TwiML that says a text twice and sends the digit that the person presses to `url`.

    `offered` are the names of the actions that the person can choose.
    """
    choices = [f"{digit} to {name}" for digit, name in CHOICES.items() if name in offered]
    menu = f"Press {', '.join([*choices, f'{REPEAT} to hear this again'])}."
    gather = f'input="dtmf" numDigits="1" timeout="{GATHER_TIMEOUT_S}" method="POST" action={quoteattr(url)}'
    spoken = f'<Say loop="2">{escape(f"{text} {menu}")}</Say>'
    return _wrap(f"<Gather {gather}>{spoken}</Gather><Say>No key was pressed. Goodbye.</Say>")


def build_statement(text: str, times: int = 1) -> str:
    """Return TwiML that says a text and hangs up."""
    return _wrap(f'<Say loop="{times}">{escape(text)}</Say>')


def _wrap(verbs: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><Response>{verbs}</Response>'
