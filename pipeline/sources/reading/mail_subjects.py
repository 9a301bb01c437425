"""The subjects of mails of tools whose words for a state stand elsewhere than at its usual places.

A form names its tool's words: the groups `ends`, `acks`, `warns` and `sev` say the state, and what `p`
matches names the problem, also when it ends. Times, numbers of builds and values are in no group.
"""

import re
from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """`problem` is the text without the words for the state; `words` are these, in small letters."""

    problem: str
    words: Set[str]


# The words that mail.py has for these states. A form without a group for the state fires.
ENDS, ACKNOWLEDGES, WARNS, FIRES = "resolved", "acknowledged", "warning", "alert"
# The severities of Azure.
SEVERITIES = {"0": "critical", "1": "critical", "2": "error", "3": "warning", "4": "info"}

_FORMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # monit
        r"^monit alert --\s+(?:(?P<p1>[\w ]{1,40}?) (?:(?P<ends>succeeded|ok|up|recovery|not changed"
        r"|changed not)"
        r"|failed|matched|error|down|changed)|(?P<ends_1>Exists)|Does not exist"
        r"|(?P<p2>Timeout)) (?P<p3>\S.*)$",
        # LibreNMS
        r"^Alert for device (?P<p1>.+?) - (?P<p2>.+?)(?: got (?:worse|better|(?P<acks>acknowledged)))?$",
        r"^Device (?P<p1>.+?) (?P<ends>recovered) from (?P<p2>.+)$",
        # Jenkins, GitLab, Travis CI
        r"^(?:Build failed in Jenkins|Jenkins build (?:is |became )?(?:(?P<ends>back to (?:normal|stable))"
        r"|(?:still )?unstable)) ?: +(?P<p1>.+?)(?: #\d+)?$",
        r"^(?P<p1>.+?) \| Pipeline #\d+ has (?:(?P<ends>succeeded|been fixed)|failed) for (?P<p2>.+?)"
        r" \| [0-9a-f]{7,40}\b.{0,40}$",
        r"^(?P<p1>.+?) \| (?:(?P<ends>Successful|Fixed)|Failed) pipeline for (?P<p2>.+?)"
        r" \| [0-9a-f]{7,40}\b.{0,40}$",
        r"^(?:\[CRON\] )?(?:(?P<ends>Fixed|Passed)|Broken|Failed|Still Failing"
        r"|Errored): (?P<p1>[\w.-]+/[\w.-]+)"
        r"#\d+ \((?P<p2>.+) - [0-9a-f]{7}\)$",
        # Azure Monitor
        r"^(?:(?P<ends>Resolved)"
        r"|Fired):Sev(?P<sev>\d) Azure Monitor Alert (?P<p1>.+? on .+?) at \d+/\d+/\d+ .*$",
        r"^Azure: (?:(?P<ends>Deactivated)|Activated) Severity: (?:Sev)?(?P<sev>\d) (?P<p1>.+)$",
        r"^(?:Azure Monitor )?Alert '(?P<p1>.+?)' was (?:(?P<ends>resolved|deactivated)|fired|activated)"
        r"(?P<p2> for .+)?$",
        # Gatus, Sensu Go
        r"^\[(?P<p1>[^\]]+)\] Alert (?:(?P<ends>resolved)|triggered)$",
        r"^Sensu Alert - (?P<p1>.+): (?:(?P<ends>passing)|failing)$",
        # Proxmox VE
        r"^(?P<p1>vzdump backup status \([^)]+\))(?: ?: .*?)??: (?:(?P<ends>backup successful)"
        r"|backup failed.*)$",
        # Netdata
        r"^(?:(?:CRITICAL|WARNING|CLEAR) )?(?P<p1>\S+) (?:(?P<ends>recovered|back to normal)"
        r"|(?P<warns>needs attention)|is critical) - (?P<p2>.+)$",
        # apcupsd
        r"^(?P<p1>.*\bUPS\b.*?) Power (?:Failure\W*|(?P<ends>has returned\W*))$",
        r"^(?:Warning )?(?P<p1>.*\bcommunications) (?:lost|(?P<ends>restored)) with (?P<p2>UPS\b.*)$",
        r"^(?P<p1>.*\b(?:power|mains|service|connection|connectivity|network|link"
        r"|signal)) (?:(?P<ends>(?:has )?returned)"
        r"|(?:is |was )?lost|has failed)\W*$",
        # UptimeRobot and others that write in capitals before the name
        r"^\W*Monitor (?:is )?(?:(?P<ends>UP)|DOWN) ?: (?P<p1>.+)$",
        # Cacti
        r"^(?:(?:ALERT|(?P<warns>WARNING)|NORMAL): ?)?(?P<p1>.+?) (?:(?P<ends>restored to normal threshold)"
        r"|(?:went|is still) (?:above|below) threshold)\b.*$",
        # VMware vCenter
        r"^\[VMware vCenter - (?P<p1>Alarm [^\]]+)\] (?P<p2>.*?)\bchanged (?:status )?from \w+ to"
        r" (?:(?P<ends>Green)|(?P<warns>Yellow)|Red)\W*$",
        # Uptime Kuma: the reason after the state is another one when the monitor is up.
        r"^\[(?P<p1>.+?)\] \[\W{1,4}(?:(?P<ends>Up)|Down)\](?: .*)?$",
        # PRTG
        r"^\[(?P<p1>[^\]]*PRTG[^\]]*)\] (?P<p2>.+?) (?:(?P<ends>Up|Down ended(?: \(now: Up\))?)"
        r"|Down(?: ESCALATION)?|(?P<warns>Warning|Unusual))(?: +\W.*| +ETA\b.*)?$",
        r"^(?P<p1>.+?) (?:(?P<ends>Up)|Down|(?P<warns>Warning)) +ETA\b.*$",
    )
)

# What a tool or a script says of the end of a problem, at the end of a subject.
_RECOVERIES = (
    r"(?:has |have |is |are |was |were )?(?:fully |now )?recovered|(?:is |are |has "
    r"|went )?(?:now )?back (?:to normal"
    r"|up|online|in service|to stable)|(?:is |are )(?:up|online|reachable|healthy|working|available"
    r"|operational)"
    r" again|(?:has |have )?(?:returned to normal|come back)|came back(?: up"
    r"| online)?"
    r"|(?:has been |is |was )fixed|returned to (?:normal|a normal state)"
)
_TROUBLES = (
    r"(?:has |is |are |went |gone )?(?:now )?(?:down|offline)|(?:is |are )(?:unreachable|unhealthy"
    r"|unavailable)"
    r"|is (?:not working|not reachable|broken)|(?:has been |was )?triggered"
)
_AT_END = re.compile(rf"^(?P<rest>.+?)\W{{0,3}} (?:(?P<ends>{_RECOVERIES})|{_TROUBLES})\W*$", re.IGNORECASE)
# The end of a run. Elsewhere, as for a login, success can be the problem.
_JOB = re.compile(
    r"\b(?:back-?ups?|jobs?|builds?|pipelines?|deploy(?:ment)?s?|replication|sync(?:hronization)?"
    r"|snapshots?"
    r"|tasks?|restores?|imports?|exports?|updates?|cron|scripts?|transfers?|scrubs?|checks?|tests?|runs?"
    r"|workflows?)\b",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"^(?P<rest>.+?)\W{0,2} (?:(?P<ends>(?:has |was |is |completed |finished "
    r"|ended )?(?:successful(?:ly)?|succeeded"
    r"|success)|(?:has )?passed)|(?:has |was |is )?(?:failed|unsuccessful|failing|not successful))\W*$",
    re.IGNORECASE,
)
_NOUN = r"(?:alert|alarm|incident|problem|issue|event)"
_CHANGE = (
    r"(?:has been |was |is )?(?:(?P<ends>cleared|closed|deactivated|ended|over|recovered|fixed)|opened"
    r"|triggered"
    r"|activated|started|raised)"
)
_ALERTS = (
    # Alert cleared: ..., Incident #7 closed - ...
    re.compile(
        rf"^\W*(?:the )?{_NOUN}(?: #?\w{{1,20}})? {_CHANGE} ?[:"
        rf"|\u2013\u2014-] ?(?P<rest>.+)$",
        re.IGNORECASE,
    ),
    # ... alarm cleared
    re.compile(rf"^(?P<rest>.+?\b{_NOUN})\W{{0,3}} {_CHANGE}\W*$", re.IGNORECASE),
)
# [Closed] ..., Cleared: ...
_LABEL = re.compile(
    r"^\W{0,6}(?:(?P<ends>closed|cleared|fixed|normal|restored|online|all clear|back to normal|recovered?)"
    r"|(?P<runs>success(?:ful)?|succeeded|passed|completed)|failed|failure|failing|opened|activated"
    r"|offline|broken)"
    r"(?:\]|\)| ?[:|]| [-\u2013\u2014] )\W{0,3}(?P<rest>\S.*)$",
    re.IGNORECASE,
)
# Times and values at the end, which are others in each mail about a problem.
_DURATION = r"\d+(?:[.,]\d+)? ?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b"
_TIME = (
    rf"(?:{_DURATION}|\d{{1,2}}:\d\d|\d{{4}}-\d\d-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}(?!\.?\d)"
    r"|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )"
)
_TAIL = re.compile(
    rf"[\s,;(\[\u2013\u2014-]*\b(?:at|since|started(?: at)?|for|after|lasted|on|(?:it )?was down for"
    rf"|down for|downtime"
    rf"|duration|outage)\b:? {_TIME}.{{0,60}}$|[\s(:=]+\d+(?:[.,]\d+)? ?%\)?$",
    re.IGNORECASE,
)

# Words beside a word for an end that say the opposite, or that the end is to come.
_OPPOSITE = re.compile(
    r"(?:\b(?:not|never|cannot|only|partially|hardly|barely|almost|nearly|yet|until|unless|if|when|before"
    r"|to|will"
    r"|must|should|can|could|may|might|would|needs?|nobody|none|no|failed|fails|unable|0)\b|n['\u2019]t)"
    r"(?:\s+\w+){0,2}\W*$",
    re.IGNORECASE,
)
# 2 of 3, 1/3: an end of some says nothing of the others.
_SHARE = re.compile(
    r"\b\d{1,4} ?(?:of|/|out of) ?(?:the )?\d{1,4}\b|\b(?:some|several|few|most|half|part)\b", re.IGNORECASE
)
_STILL_FIRES = re.compile(
    r"\b(?:but|however|although|except|still|failed|failing|fails|failures?|errors?|degraded|broken|not"
    r"|never|cannot"
    r"|unable|log-?ins?|logons?|sign-?ins?|sudo|root)\b|n['\u2019]t\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A subject that says in words that something fires, or that it `ends`; `rest` is without these words."""

    rest: str
    ends: bool


def read_form(text: str) -> Subject | None:
    """Return the parts of a subject that has the form of a tool; None: it has another form."""
    found = next((match for form in _FORMS if (match := form.match(text))), None)
    return None if found is None else _build(found)


def remove_tail(text: str) -> str:
    """Return a subject without a time, a duration or a percentage at its end."""
    return _TAIL.sub("", text) or text


def read_sentence(text: str) -> Sentence | None:
    """Return the parts of a subject that says a state in words; None: it does not, or in doubt.

    A word for an end counts only if nothing beside it says the opposite.
    """
    label = _LABEL.match(text)
    if label is not None:
        ends = label["ends"] is not None or label["runs"] is not None
        if _SHARE.search(label["rest"]) or (label["runs"] and _STILL_FIRES.search(label["rest"])):
            return None
        return Sentence(label["rest"], ends)
    for form in (*_ALERTS, _AT_END, _RUN):
        found = form.match(text)
        if found is None or (form is _RUN and _JOB.search(found["rest"]) is None):
            continue
        contradicts = _OPPOSITE.search(found["rest"]) or _SHARE.search(found["rest"])
        if contradicts or (form is _RUN and _STILL_FIRES.search(found["rest"])):
            return None
        return Sentence(found["rest"], found["ends"] is not None)
    return None


def _build(found: "re.Match[str]") -> Subject:
    groups = {name: text for name, text in found.groupdict().items() if text is not None}
    problem = " ".join(text for name, text in groups.items() if name.startswith("p"))
    return Subject(_clean(problem), {_find_word(groups)})


def _find_word(groups: dict[str, str]) -> str:
    if any(name.startswith("ends") for name in groups):
        return ENDS
    if "acks" in groups:
        return ACKNOWLEDGES
    if "warns" in groups:
        return WARNS
    return SEVERITIES.get(groups.get("sev", ""), FIRES)


def _clean(problem: str) -> str:
    return " ".join(problem.split()).strip(" \t*:|!.,;-\u2013\u2014").casefold()
