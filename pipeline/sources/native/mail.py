"""Mails, as the JSON that tocsin/server/mail_in makes of them.

The subject names the problem and its state: "CRITICAL: disk full", later "RESOLVED: disk full". Without the
words for the state, it is the same text when the problem fires, repeats and ends.
"""

import re

from models.domain.enums import AlertType
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.cleaning import clean_line
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
    read_optional_level,
)
from pipeline.sources.reading.mail_subjects import ENDS, Subject, read_form, read_sentence, remove_tail

KIND = "email"
WITHOUT_TEXT = "mail without a subject and a text"

# The words for states, from the row that counts first to that which counts last.
ENDED = {"resolved": AlertType.RESOLVED, "recovered": AlertType.RESOLVED, "recovery": AlertType.RESOLVED}
ACKNOWLEDGED = {"acknowledged": AlertType.ACKNOWLEDGED, "acknowledgement": AlertType.ACKNOWLEDGED}
CRITICAL = dict.fromkeys(("critical", "crit", "fatal", "emergency", "disaster", "down"), AlertType.CRITICAL)
ERROR = dict.fromkeys(("error", "unreachable", "unknown"), AlertType.ERROR)
WARNING = dict.fromkeys(("warning", "warn"), AlertType.WARNING)
FINE = dict.fromkeys(("ok", "up"), AlertType.RESOLVED)
# These say no level.
FIRING = dict.fromkeys(("problem", "firing", "alert", "alerting", "alarm", "triggered"), AlertType.CRITICAL)
INFO = dict.fromkeys(("info", "information"), AlertType.INFO)
PRIORITIES = (ENDED, ACKNOWLEDGED, CRITICAL, ERROR, WARNING, FINE, FIRING, INFO)

# Senders with one of these values send to many, or answer by themselves.
BULK = ("bulk", "junk", "list")
# More of a subject is not searched for words. Mails have at most 998 characters in a line.
MAX_SEARCHED = 1_000

# Words in capitals for an end, with which a subject may begin.
_ENDS = "RESOLVED|ACKNOWLEDGED|ACKNOWLEDGEMENT"
_WORDS = "|".join(sorted((word for words in PRIORITIES for word in words), key=len, reverse=True))
_PREFIX = re.compile(r"^\s*(?:(?:re|fwd?|aw|wg|sv|antw)\s?:\s?)+", re.IGNORECASE)
# "WARN -> OK": only the new state counts.
_OLD_STATE = re.compile(rf"\b(?:{_WORDS})\s?(?:->|→)\s?(?=(?:{_WORDS})\b)", re.IGNORECASE)
_DURATION = r"\d+ ?(?:ms|min|sec|[smhd])"
_TIME_TAKEN = rf"(?: in {_DURATION}(?: {_DURATION}){{0,3}})?"
# Where a word for a state stands in a subject. Elsewhere it has other meanings: names are resolved, a back-up
# fails, a page answers with 200 OK.
_PLACES = (
    # [FIRING:2], (Resolved)
    re.compile(rf"[\[(]\W{{0,4}}({_WORDS})(?: ?: ?\d+)?\W{{0,4}}[\])]", re.IGNORECASE),
    # Problem: ..., Resolved in 5m 3s: ..., Up - ...
    re.compile(rf"^\W*({_WORDS}){_TIME_TAKEN}(?: ?[:|]| [-\u2013\u2014] )", re.IGNORECASE),
    # ... is down, ... has been resolved, ...: OK
    re.compile(
        rf"(?<!\bnot )(?:\b(?:is|are|is now|was|has been|have been)\s|[:|]\s?|\s[-\u2013\u2014]\s)"
        rf"({_WORDS})\W*$",
        re.IGNORECASE,
    ),
    # The word alone
    re.compile(rf"^\W*({_WORDS})\W*$", re.IGNORECASE),
    # RESOLVED disk full, ALARM RESOLVED: ...
    re.compile(rf"^\W*(?:(?:{_WORDS.upper()})\s)?({_ENDS})(?![\w-])"),
)
# The same, for places that also have other words. Those are a part of the name of the problem.
_WIDER_PLACES = (
    # Incident RESOLVED: ...
    re.compile(r"^\W*(?:incident|issue|event|monitor|ticket)\s((?-i:RESOLVED))\b", re.IGNORECASE),
    # Monitor is UP: ...
    re.compile(r"^[^:|]*?\bis\s(UP|OK) ?:"),
    # ... RESOLVED, but not: 2 of 3 RESOLVED. Names such as db1 also end with a digit.
    re.compile(r"(?<!:)(?<!\s\d)(?<!\s\d\d)(?<!\s\d\d\d)\s(RESOLVED)\W*$"),
)
# Here a word for an end counts only if nothing in the subject says that a problem fires. In doubt it fires.
_DOUBTFUL_PLACES = (
    # ... is UP, ...
    re.compile(r"\bis\s(UP|OK)\b"),
    # ... OK, but not 200 OK
    re.compile(r"(?<!\s\d\d\d)(?<!\bnot)(?<!\bNOT)\s(OK)\W*$"),
)
_TROUBLE = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?|degraded|broken|missing|lost|offline|unavailable|unreachable|down|errors?"
    r"|critical|fatal|cannot|not|never|still)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NOT_ENDED = re.compile(
    r"(?:\b(?:be|being|to|cannot|only|(?:not|never|yet)(?: yet| been| fully)?)|n['\u2019]t)\s(?:RESOLVED)\b",
    re.IGNORECASE,
)
# [FIRING:1, RESOLVED:2] of a group of alerts
_COUNTS = re.compile(
    r"\[\s?(?:FIRING ?: ?(\d{1,9}), ?RESOLVED ?: ?\d{1,9}|RESOLVED ?: ?\d{1,9}, ?FIRING ?: ?(\d{1,9}))\s?\]",
    re.IGNORECASE,
)
# In capitals, a word is no part of the name of the problem, wherever it stands. Words for an end count at the
# places above; RESOLVED and ACKNOWLEDGED count everywhere, with the same doubt.
_CAPITALS = re.compile(
    rf"(?<!\bNOT )(?<!\bnot )(?<!\bBE )(?:\bis )?(?<![\w.-])({_WORDS.upper()})(?::\d+)?(?![\w-]|\.\w)"
)
_FIRES = {*CRITICAL, *ERROR, *WARNING, *FIRING}
_ENDS_ANYWHERE = {"resolved", *ACKNOWLEDGED}
# The types of notifications of Nagios and Icinga that say nothing about the problem itself.
_NOTE = re.compile(
    r"^\W*(?:DOWNTIME(?:START|END|CANCELLED|REMOVED)|FLAPPING(?:START|STOP|END|DISABLED))(?![\w-])"
)
_CUSTOM = re.compile(r"^\W*(?:CUSTOM (?:Host|Service) Alert\b|\[CUSTOM\])")
_STATE_AT_END = re.compile(r"\sis (?:OK|UP|DOWN|UNREACHABLE|WARNING|CRITICAL|UNKNOWN)\W*$")
_EMPTY_BRACKETS = re.compile(r"[\[(]\s*[\])]")
_AROUND = " \t*:|!.,;-\u2013\u2014"


def read_subject(text: str) -> Subject:
    """Divide a subject of one line into the name of the problem and the words for its state.

    A form of a tool counts first, then words at the usual places, then a sentence about the state.
    """
    searched, rest = _PREFIX.sub("", text[:MAX_SEARCHED]).strip(), text[MAX_SEARCHED:]
    if rest:
        found = _find_states(searched)
        return Subject((found.problem + rest).strip(_AROUND).casefold(), found.words)
    form = read_form(searched)
    if form is not None:
        return form
    searched = remove_tail(searched)
    whole, sentence = _find_states(searched), read_sentence(searched)
    if sentence is None or (sentence.ends and "firing" in whole.words):
        return whole
    part = _find_states(sentence.rest)
    return Subject(part.problem or whole.problem, {ENDS} if sentence.ends else whole.words)


def _find_states(text: str) -> Subject:
    """Return the words for the state at the places where they usually stand, and the text without them."""
    words: set[str] = set()
    found = _COUNTS.sub(_read_counts, _OLD_STATE.sub(": ", _PREFIX.sub("", text)))
    for place in _PLACES:
        words |= _find_words(place, found)
        found = _PREFIX.sub("", place.sub(" ", found))
    is_negated = _NOT_ENDED.search(found) is not None
    for place in _WIDER_PLACES:
        words |= _find_words(place, found) - ({"resolved"} if is_negated else set())
    doubtful: set[str] = set()
    for place in _DOUBTFUL_PLACES:
        doubtful |= _find_words(place, found)
        found = place.sub(" ", found)
    in_capitals = _find_words(_CAPITALS, found)
    words |= in_capitals & _FIRES
    doubtful |= in_capitals & _ENDS_ANYWHERE
    if not (is_negated or words & _FIRES or _TROUBLE.search(found)):
        words |= doubtful
    problem = " ".join(_EMPTY_BRACKETS.sub(" ", _CAPITALS.sub(" ", found)).split())
    return Subject(problem.strip(_AROUND).casefold(), words)


def _find_words(place: re.Pattern[str], text: str) -> set[str]:
    return {word.lower() for word in place.findall(text)}


def _read_counts(found: re.Match[str]) -> str:
    """Return the state of a group: it fires while one of its alerts does."""
    return "[firing]" if int(found[1] or found[2]) else "[resolved]"


def _is_known(data: Fields) -> bool:
    return data.has("subject")


def _read(data: Fields) -> list[ParsedAlert]:
    title, text = clean_line(data.text("subject"), MAX_SEARCHED * 4), data.text("text")
    subject = read_subject(title)
    if _is_note(title) and not data.text("level"):
        note = build_note(data.value, message=title, entity=_name_problem(data, title, subject))
        return [replace(note, refusal=_find_refusal(data))]
    alert = build_alert(
        data.value,
        _read_level(data, subject),
        message=title or text.strip().partition("\n")[0] or WITHOUT_TEXT,
        summary=text,
        entity=_name_problem(data, title, subject),
        at=data.get("date"),
    )
    return [replace(alert, refusal=_find_refusal(data))]


def _is_note(title: str) -> bool:
    """Return whether the subject is that of a downtime, of flapping, or of a message of a person.

    Other programs also write CUSTOM, so that the state at the end is needed too.
    """
    found = _PREFIX.sub("", title[:MAX_SEARCHED])
    return bool(_NOTE.search(found) or (_CUSTOM.search(found) and _STATE_AT_END.search(found)))


def _name_problem(data: Fields, title: str, subject: Subject) -> str:
    """Return what names the problem: the header of the sender, or the sender and the subject.

    "Disk full" of two hosts is two problems. Without a From that can be read, the sender is that of the
    envelope. A mail without a subject is about nothing known.
    """
    given = data.text("entity_id")
    sender = data.text("from") or data.text("sender")
    return given or (join_entity(sender.lower(), subject.problem) if title else "")


def _read_level(data: Fields, subject: Subject) -> Level:
    if data.text("level"):
        return read_level(data.text("level"), LEVELS)
    for words in PRIORITIES:
        if found := subject.words & words.keys():
            return read_optional_level("") if words is FIRING else Level(words[min(found)])
    return read_level("")


def _find_refusal(data: Fields) -> Reason | None:
    """Return why a mail may open and resolve nothing: two programs could answer each other without end."""
    if data.get("is_own") is True:
        return make_reason("mail_own")
    if data.get("sender") == "":
        return make_reason("mail_without_sender")
    submitted = data.text("auto_submitted").partition(";")[0].strip().lower()
    if submitted not in ("", "no"):
        return make_reason("mail_automatic", header="Auto-Submitted", value=clean_line(submitted, 100))
    precedence = data.text("precedence").lower()
    if precedence in BULK:
        return make_reason("mail_automatic", header="Precedence", value=precedence)
    return None


parse = as_parser(KIND, _is_known, _read)
