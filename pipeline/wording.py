"""What a message says: plain words that somebody who was just woken up understands.

What happened, where, how bad, since when, why you, and where to go. Texts come from strangers, so
each is made one line (or dropped of what is unfit) again here, whatever was done to it before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from models.enums import AlertType, Urgency
from pipeline.sources.cleaning import clean_line, clean_text

# Mail programs on phones show about 40 characters of a subject, others about 100.
TITLE_IN_SUBJECT = 120
NAME_IN_SUBJECT = 40
SUMMARY_IN_TEXT = 2_000
# Of a storm, so many incidents are told one by one; the others are counted.
MOST_LISTED = 100

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads the message; `zone` is the name of a time zone, as the person gave it."""

    name: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Told:
    """One incident, as a message speaks of it: `reason` is why this person is told, `link` the page."""

    number: int
    title: str
    service: str | None
    urgency: Urgency
    level: AlertType | None
    since: datetime
    reason: str
    link: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Invited:
    """What somebody is invited to, and by whom; all by name. `link` is the page on which they join."""

    account: str
    teams: Sequence[str]
    inviter: str
    link: str


@dataclass(frozen=True, slots=True)
class Words:
    subject: str
    text: str


def wording(told: Sequence[Told], reader: Reader) -> Words:
    """A message about these incidents, at least one."""
    if len(told) == 1:
        return Words(_subject_of_one(told[0]), _text_of_one(told[0], reader))
    return Words(_subject_of_many(told), _text_of_many(told, reader))


def trial_wording(reason: str, reader: Reader, now: datetime) -> Words:
    """A message that only tries whether messages arrive."""
    lines = [
        f"Hello {_line(reader.name)},",
        "",
        "this is a test message of Tocsin. Nothing has happened. If you can read this, then this is a way to",
        "reach you when something does.",
        "",
        f"Sent:    {moment(now, reader.zone)}",
        f"Because: {_line(reason)}",
    ]
    return Words("[Tocsin] Test message", "\n".join(lines) + "\n")


def invitation_wording(invited: Invited, reader: Reader) -> Words:
    """An invitation; nothing happens before the page behind its link is told to."""
    account, teams = _line(invited.account, NAME_IN_SUBJECT), [_line(name, 200) for name in invited.teams]
    lines = [
        f"Hello {_line(reader.name)},",
        "",
        f"{_line(invited.inviter, 200)} invites you to {account} on Tocsin, which tells people when their",
        "services are in trouble.",
        "",
        *(f"Team:    {name}" for name in teams[:MOST_LISTED]),
        "",
        "Join here, and get a token for the interface (once, within 7 days):",
        invited.link,
        "",
        "You may be told of incidents by e-mail, whether you join or not. If this comes as a surprise, ask",
        "who invites you.",
    ]
    return Words(f"[Tocsin] Invitation to {account}", "\n".join(lines) + "\n")


def moment(at: datetime, zone: str) -> str:
    """A moment on the reader's clock, which is named; UTC when that zone is unknown."""
    local = at.astimezone(_zone(zone))
    name = local.tzname() or "UTC"
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"
    place = "" if str(local.tzinfo) in ("UTC", name) else f" ({local.tzinfo})"
    return f"{day}, {local:%H:%M:%S} {name}{place}"


def _zone(name: str) -> tzinfo:
    # OSError: the name of a folder of the time zone database.
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def how_bad(level: AlertType | None, urgency: Urgency) -> str:
    words = f"{urgency.name.lower()} urgency"
    return f"{level.name.lower()}, {words}" if level is not None else words


def _line(text: str, limit: int = 1_000) -> str:
    """One line; what was cut says so."""
    clean = clean_line(text, limit + 1)
    return clean if len(clean) <= limit else f"{clean[: limit - 3].rstrip()}..."


def _title(one: Told, limit: int = 1_000) -> str:
    return _line(one.title, limit) or "(no title)"


def _where(one: Told) -> str:
    return _line(one.service or "", 200) or "(service deleted)"


def _subject_of_one(one: Told) -> str:
    level = f" ({one.level.name.lower()})" if one.level is not None else ""
    return f"[{_line(_where(one), NAME_IN_SUBJECT)}] #{one.number} {_title(one, TITLE_IN_SUBJECT)}{level}"


def _subject_of_many(told: Sequence[Told]) -> str:
    services = list(dict.fromkeys(_line(_where(one), NAME_IN_SUBJECT) for one in told))
    where = services[0] if len(services) == 1 else f"{services[0]} and {len(services) - 1} more"
    titles = ", ".join(dict.fromkeys(_title(one, TITLE_IN_SUBJECT) for one in told[:3]))
    return _line(f"[{where}] {len(told)} incidents: {titles}", TITLE_IN_SUBJECT + 2 * NAME_IN_SUBJECT)


def _text_of_one(one: Told, reader: Reader) -> str:
    lines = [
        _title(one),
        "",
        f"Where:    {_where(one)}",
        f"How bad:  {how_bad(one.level, one.urgency)}",
        f"Since:    {moment(one.since, reader.zone)}",
        f"Incident: #{one.number}",
        f"Why you:  {_line(one.reason)}",
        "",
        "See it, acknowledge it or resolve it (no login needed, for 7 days):",
        one.link,
    ]
    summary = clean_text(one.summary, SUMMARY_IN_TEXT + 1)
    if len(summary) > SUMMARY_IN_TEXT:
        summary = summary[:SUMMARY_IN_TEXT] + " ..."
    if summary:
        lines += ["", summary]
    return "\n".join(lines) + "\n"


def _text_of_many(told: Sequence[Told], reader: Reader) -> str:
    reasons = list(dict.fromkeys(_line(one.reason) for one in told))
    lines = [
        f"{len(told)} incidents are open, and you are told of all of them in this one message.",
        "Each link shows one incident, to acknowledge or to resolve it (no login needed, for 7 days).",
        "",
        *(f"Why you: {reason}" for reason in reasons[:5]),
    ]
    for one in told[:MOST_LISTED]:
        lines += [
            "",
            f"#{one.number} {_title(one)}",
            f"  {_where(one)}; {how_bad(one.level, one.urgency)}; since {moment(one.since, reader.zone)}",
            f"  {one.link}",
        ]
    rest = told[MOST_LISTED:]
    if rest:
        lines += ["", f"and {len(rest)} more: " + ", ".join(f"#{one.number}" for one in rest)]
    return "\n".join(lines) + "\n"
