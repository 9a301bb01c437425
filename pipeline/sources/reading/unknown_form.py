"""Guess the title of an object in an unknown form, and what names its problem.

Tools change their bodies, and people write scripts in place of a tool's own webhook. Such an alert must be
read, and its repeat must be about the same problem, also with other times and counters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.sources.reading.cleaning import MESSAGE_LIMIT, clean_entity_id, clean_line

# Names are compared without case, and without signs between words: alertName and alert_name are the same. The
# first name that has a useful text counts. The names of alerts count before other texts, also in CASES.
NAMES = (
    "title", "subject", "alertname", "alerttitle", "alertsubject", "alarmname", "alertrule", "rulename",
    "conditionname", "monitorname", "checkname", "problemtitle", "eventname", "searchname",
)  # fmt: skip
TEXTS = (
    "name", "displayname", "checkoutput", "message", "headline", "output", "summary", "shortmessage",
    "reason", "statereason", "description", "details", "text", "msg", "body", "event", "alert",
)  # fmt: skip
# The objects in which tools send their alert.
CASES = frozenset((
    "alert", "alerts", "alarm", "alarms", "incident", "problem", "issue", "event", "events", "check",
    "monitor", "rule", "watch", "trigger", "data", "payload", "context", "detail", "details", "essentials",
    "labels", "annotations", "commonlabels", "commonannotations", "result",
))  # fmt: skip
# What tools call the identifier of a problem, of its rule or of what is checked. It stays the same while the
# problem fires. Identifiers of events, requests and notifications are left out: each has another one.
IDENTIFIERS = (
    "entityid", "dedupkey", "dedupekey", "dedupid", "deduplicationkey", "fingerprint", "incidentkey",
    "alertkey", "alertuid", "alias", "aggregkey", "alertid", "incidentid", "problemid", "pid", "issueid",
    "alarmid", "watchid", "monitorid", "checkid", "ruleid", "triggerid", "conditionid", "contextid",
    "sensorid",
)  # fmt: skip
OWN_IDENTIFIER = "id"
# What the problem is about, besides its title or identifier: at most one of each row.
SUBJECTS = (
    ("host", "hostname", "hostaddress", "instance", "server", "servername", "node", "nodename", "device",
     "devicename", "resourceid", "resource", "resourcename"),
    ("service", "servicename", "servicedescription", "serviceid"),
    ("check", "checkname", "component", "entity"),
)  # fmt: skip

# What is searched of an object and of the objects in it; a body of a tool has less.
MAX_FIELDS, MAX_OBJECTS = 300, 60
# More of a title does not name the problem.
MAX_TITLE = 400
# Of the name of a field, in a reason.
MAX_NAME = 100
WITHOUT_TITLE = "alert in an unknown form"

_SIGNS = re.compile(r"[\s_\-.]+")
_WORD = re.compile(r"[^\W\d_]{2}")
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://\S*$", re.IGNORECASE)
# What changes from one notification about a problem to the next, in small letters. Names with digits, such as
# db1 and web-02, and addresses of hosts stay: two hosts are two problems.
_CHANGING = (
    # Dates and times of a day.
    re.compile(
        r"\b\d{4}-\d\d?-\d\d?(?:[t ]\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?: ?(?:z|utc|gmt|[+-]\d\d:?\d\d))?"
    ),
    re.compile(r"\b\d{1,4}[./]\d{1,2}[./]\d{2,4}\b(?![.\d])"),
    re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?(?:am|pm|utc|gmt|z)\b)?"),
    re.compile(
        r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? (?=\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
        r"|\b\d{0,2} ?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,4}\b"
    ),
    # Identifiers of one event.
    re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"),
    # Numbers with and without a unit, but not in names and in addresses.
    re.compile(
        r"(?<![\w.\-])[#+-]?\d+(?:[.,]\d+)*(?: ?(?:%|percent\b|(?:[kmgtp]i?)?b(?:/s)?\b|[nmuµ]?s\b"
        r"|sec(?:ond)?s?\b|min(?:ute)?s?\b|h(?:ours?|rs?)?\b|d(?:ays?)?\b|°?[cf]\b))?(?![\w\-]|\.\d)"
    ),
    re.compile(r"\d{6,}"),
)
_ADDRESS_OF_HOST = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")


@dataclass(frozen=True, slots=True)
class Guess:
    """`title` is from the field `title_field`; without one, both are "".

    `names` together name the problem, and are from the fields `named_by`.
    """

    title: str
    title_field: str
    names: Sequence[str]
    named_by: Sequence[str]


def guess(data: Mapping[str, object], title: str = "") -> Guess:
    """Guess the title and the problem of an object. `title`: it is known already."""
    own, cases, others = _list_texts(data)
    title_field = ""
    if not title:
        found = (
            _find(own, NAMES, useful=True)
            or _find(cases, NAMES, useful=True)
            or _find(own, TEXTS, useful=True)
            or _find(cases, TEXTS, useful=True)
            or _find(others, (*NAMES, *TEXTS), useful=True)
            or _find_sentence({**others, **cases, **own})
        )
        title_field, title = found or ("", "")
    identifier = _find(own, IDENTIFIERS) or _find(cases, IDENTIFIERS) or _find(own, [OWN_IDENTIFIER])
    if identifier is None and title:
        identifier = (title_field or "the title", name_problem(title))
    elif identifier is None:
        # The form itself: the same for each repeat.
        identifier = ("the names of the fields", " ".join(sorted(data)[:MAX_FIELDS])[:MAX_TITLE])
    subjects = [_find(own, names) or _find(cases, names) for names in SUBJECTS]
    parts = list(dict.fromkeys([identifier, *filter(None, subjects)]))
    named_by = [clean_line(name, MAX_NAME) for name, _ in parts]
    return Guess(clean_line(title), clean_line(title_field, MAX_NAME), [text for _, text in parts], named_by)


def name_problem(title: str) -> str:
    """Return a title in small letters without times and numbers that change; all of it if nothing is left."""
    text = clean_line(title, MAX_TITLE).casefold()
    hosts: list[str] = []

    def keep(found: re.Match[str]) -> str:
        hosts.append(found[0])
        # No expression matches it, and no title has it.
        return "\ue000"

    stable = _ADDRESS_OF_HOST.sub(keep, text)
    for changing in _CHANGING:
        stable = changing.sub(" ", stable)
    for host in hosts:
        stable = stable.replace("\ue000", host, 1)
    stable = " ".join(stable.split()).strip(" :;,.-()[]")
    return stable if _WORD.search(stable) else text


# The texts of an object, each with the name of its field as it was sent, by the form of this name.
_Texts = dict[str, tuple[str, str]]


def _list_texts(data: Mapping[str, object]) -> tuple[_Texts, _Texts, _Texts]:
    """Return the texts of an object, those of the objects in it that are CASES, and those of its others.

    Of several fields with the same name, the first one counts. Of a list, the first item counts.
    """
    own: _Texts = {}
    cases: _Texts = {}
    others: _Texts = {}
    objects = 0
    for name, value in list(data.items())[:MAX_FIELDS]:
        first: object = value[0] if isinstance(value, list) and value else value
        if isinstance(first, dict) and objects < MAX_OBJECTS:
            objects += 1
            _add_texts(cases if _simplify(name) in CASES else others, first, f"{name}.")
        elif text := _to_text(first):
            own.setdefault(_simplify(name), (name, text))
    return own, cases, others


def _add_texts(texts: _Texts, inner: Mapping[str, object], prefix: str) -> None:
    """Add the texts of an object. A field is also named together with its object: `checkoutput`."""
    for name, value in list(inner.items())[:MAX_FIELDS]:
        if text := _to_text(value):
            found = (prefix + name, text)
            texts.setdefault(_simplify(name), found)
            texts.setdefault(_simplify(prefix + name), found)


def _find(texts: _Texts, names: Sequence[str], *, useful: bool = False) -> tuple[str, str] | None:
    """Return the first of these fields, as it was named, and its text. `useful`: only a text for people."""
    known = (texts[name] for name in names if name in texts)
    return next((found for found in known if not useful or _is_useful(found[1])), None)


def _find_sentence(texts: _Texts) -> tuple[str, str] | None:
    """Return the first field whose text has several words."""
    return next((found for found in texts.values() if " " in found[1] and _is_useful(found[1])), None)


def _is_useful(text: str) -> bool:
    return _WORD.search(text) is not None and _ADDRESS.match(text) is None


def _simplify(name: str) -> str:
    return _SIGNS.sub("", name[:MAX_TITLE]).lower()


def _to_text(value: object) -> str:
    if isinstance(value, str):
        return clean_entity_id(value[: MESSAGE_LIMIT * 2])
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
