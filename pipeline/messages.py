"""The content of a message, in plain words for a person who was just woken up.

The content says what happened, where, how severe, since when, why this person is notified, and where to go.
Texts come from unknown senders, so this module cleans and shortens each of them again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from models.domain.enums import AlertType, IncidentStatus, Urgency
from models.domain.reasons import format_duration
from pipeline.sources.cleaning import clean_line, clean_text, clean_url

# Mail programs on phones show about 40 characters of a subject, others about 100.
MAX_TITLE = 120
MAX_NAME = 40
MAX_SUMMARY = 2_000
MAX_STAKEHOLDER_BODY = 4_000
# At most this many incidents are listed in one message; the others are counted.
MAX_LISTED = 100
# At most this many labels and links of the source are in one message.
MAX_LABELS = 20
MAX_SOURCES = 10
# Programs that show mails may not read a longer list of the mails of a thread.
MAX_THREADS = 20

# The actions that a message offers for an incident: the new status, and the statuses in which the action is
# offered.
ACTIONS = {
    "acknowledge": (IncidentStatus.ACKNOWLEDGED, {IncidentStatus.TRIGGERED}),
    "resolve": (IncidentStatus.RESOLVED, {IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED}),
}

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Recipient:
    """The reader of the message. `zone` is the name of a time zone, as the person gave it."""

    name: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the policy does next if nobody acknowledges: after how many seconds it notifies these people."""

    after_s: int
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IncidentDetails:
    """What a message says about its only incident.

    - `began_at`: when the problem began, by the clock of the source. None: the source gave no time.
    - `labels`: names and values that the source sent. `sources`: texts and addresses of the source's links.
    - `acknowledged_by`: who acknowledged; empty if the incident is not acknowledged.
    - `ended_by`: why a resolved incident is resolved.
    - `next_step`: None if the policy notifies nobody any more.
    """

    began_at: datetime | None = None
    labels: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    acknowledged_by: str = ""
    acknowledged_at: datetime | None = None
    ended_by: str = ""
    next_step: NextStep | None = None


@dataclass(frozen=True, slots=True)
class IncidentSummary:
    """One incident in a message.

    `reason` is why this person is notified. `link` leads to the incident's page, `token` is the signed part
    of it. `trace_id` is that of the alert that opened the incident; empty if a person created it. The
    four may be empty for incidents after the first MAX_LISTED, which are only counted.

    - `sla`: the state of the SLA that is the reason of the message, for its subject; else empty.
    - `resolved_at`: set if the incident is resolved. `is_recovery`: that is the reason of the message.
    - `details`: only for the incident of a message about one incident.
    """

    number: int
    title: str
    service: str | None
    urgency: Urgency
    level: AlertType | None
    since: datetime
    reason: str
    link: str
    summary: str = ""
    status: IncidentStatus = IncidentStatus.TRIGGERED
    token: str = ""
    trace_id: str = ""
    unique_id: str = ""
    sla: str = ""
    resolved_at: datetime | None = None
    is_recovery: bool = False
    details: "IncidentDetails | None" = None


@dataclass(frozen=True, slots=True)
class InvitationDetails:
    """An invitation, with all names in words. `link` leads to the page on which the person joins."""

    account: str
    teams: Sequence[str]
    inviter: str
    link: str


@dataclass(frozen=True, slots=True)
class StakeholderText:
    """What a mail to a stakeholder says: the sender's words, which may be empty, and the incident.

    `author` is the name of the member who wrote the words; empty if the alert names none.
    """

    subject: str
    body: str
    author: str
    number: int
    title: str
    service: str | None
    status: IncidentStatus
    since: datetime


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A fact with its label, for example "Where"."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A button: an entry of ACTIONS, and the token that names the incident and the user."""

    name: str
    token: str


@dataclass(frozen=True, slots=True)
class LabelledLink:
    """A link with its text. In a message about several incidents each has one, with its details in `note`."""

    text: str
    url: str
    note: str = ""
    actions: tuple[Action, ...] = ()
    # What a button with this link says, where the text is too long.
    button: str = ""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What a message says. Each channel formats it: as an e-mail, as 160 characters, or with buttons.

    `title` says in one line what happened; a channel with little space can send only the title. `lines`,
    `details`, `links`, `closing` and `foot` follow in this order. All texts are clean; only `closing` and
    `foot` have line breaks.

    - `heading`: the one of `lines` that is a heading; empty if none is.
    - `threads`: the unique_ids of the incidents to which the message belongs.
    - `is_urgent`: an incident of high urgency needs the reader.
    """

    title: str
    lines: tuple[str, ...]
    details: tuple[LabelledText, ...] = ()
    links: tuple[LabelledLink, ...] = ()
    closing: str = ""
    foot: str = ""
    heading: str = ""
    threads: tuple[str, ...] = ()
    is_urgent: bool = False


def write_plain_text(content: MessageContent) -> str:
    """Return the content without its title as plain text, in paragraphs that a fixed-width font aligns."""
    width = max([8, *(len(detail.label) + 1 for detail in content.details)])
    paragraphs = [
        "\n".join(content.lines),
        "\n".join(f"{f'{detail.label}:':{width}} {detail.text}" for detail in content.details),
        *("\n".join(_list_lines(link)) for link in content.links),
    ]
    return "\n\n".join(filter(None, [*paragraphs, content.closing, content.foot])) + "\n"


def _list_lines(link: LabelledLink) -> list[str]:
    return [link.text, f"  {link.note}", f"  {link.url}"] if link.note else [link.text, link.url]


def build_incidents_content(incidents: Sequence[IncidentSummary], recipient: Recipient) -> MessageContent:
    """Return a message about these incidents, at least one."""
    if len(incidents) == 1:
        return _build_single(incidents[0], recipient)
    return _build_group(incidents, recipient)


def build_test_content(requested_by: str, recipient: Recipient, now: datetime) -> MessageContent:
    """Return a message that only shows whether messages arrive."""
    lines = (
        f"Hello {_shorten(recipient.name)},",
        "",
        "this is a test message of Tocsin. Nothing has happened. If you can read this, then this is a way to",
        "reach you when something does.",
    )
    details = (
        LabelledText("Sent", format_time(now, recipient.zone)),
        LabelledText("Because", f"{_shorten(requested_by)} asked for a test message."),
    )
    return MessageContent("[Tocsin] Test message", lines, details)


def build_code_content(code: str, requested_by: str, recipient: Recipient) -> MessageContent:
    """Return a message with the code that verifies the address to which it is sent."""
    lines = (
        f"Hello {_shorten(recipient.name)},",
        "",
        f"{_shorten(requested_by, MAX_NAME)} added this address to Tocsin, which notifies people when their",
        "services are in trouble. Enter this code within 10 minutes, and Tocsin can notify you here.",
    )
    closing = (
        "If you did not expect this, ignore this message. Without the code, Tocsin sends you nothing else."
    )
    return MessageContent(f"[Tocsin] Code {code}", lines, (LabelledText("Code", code),), closing=closing)


def build_invitation_content(invitation: InvitationDetails, recipient: Recipient) -> MessageContent:
    """Return an invitation. The person must confirm it on the page to which its link leads."""
    account = _shorten(invitation.account, MAX_NAME)
    inviter = _shorten(invitation.inviter, 200)
    return MessageContent(
        f"[Tocsin] Invitation to {account}",
        (
            f"Hello {_shorten(recipient.name)},",
            "",
            f"{inviter} invites you to {account} on Tocsin, which notifies people when their",
            "services are in trouble.",
        ),
        tuple(LabelledText("Team", _shorten(name, 200)) for name in invitation.teams[:MAX_LISTED]),
        (LabelledLink("Join here (once, within 7 days):", invitation.link, button="Join"),),
        "Tocsin may notify you of incidents by e-mail, whether you join or not. If you did not expect this,\n"
        "ask the person who invites you.",
    )


def build_stakeholder_content(text: StakeholderText, recipient: Recipient) -> MessageContent:
    """Return a mail to a stakeholder, who cannot acknowledge: it has no link."""
    title = _shorten(text.title, MAX_TITLE) or "(no title)"
    details = [
        LabelledText("Incident", f"#{text.number} {title}"),
        LabelledText("Where", _get_service_name(text.service)),
        LabelledText("Status", text.status.name.lower()),
        LabelledText("Since", format_time(text.since, recipient.zone)),
    ]
    if text.author:
        details.append(LabelledText("From", _shorten(text.author, 200)))
    subject = _shorten(text.subject, MAX_TITLE) or title
    return MessageContent(
        f"[{_shorten(_get_service_name(text.service), MAX_NAME)}] #{text.number} {subject}",
        (f"Hello {_shorten(recipient.name)},", "", "you get this mail as a stakeholder of this incident."),
        tuple(details),
        closing=clean_text(text.body, MAX_STAKEHOLDER_BODY),
    )


def format_time(at: datetime, zone: str) -> str:
    """Return a time in the reader's time zone, with the name of the zone. UTC if the zone is unknown."""
    local = at.astimezone(_get_zone(zone))
    name = local.tzname() or "UTC"
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"
    zone_name = "" if str(local.tzinfo) in ("UTC", name) else f" ({local.tzinfo})"
    return f"{day}, {local:%H:%M:%S} {name}{zone_name}"


def _get_zone(name: str) -> tzinfo:
    # OSError: the text is the name of a folder in the time zone database.
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def list_labels(payload: object) -> tuple[tuple[str, str], ...]:
    """Return the labels of the source or, without labels, the fields of its payload that are values."""
    if not isinstance(payload, Mapping):
        return ()
    labels = payload.get("labels")
    values = labels if isinstance(labels, Mapping) and labels else payload
    simple = ((str(name), value) for name, value in values.items() if isinstance(value, str | int | float))
    shown = ((name, str(value)[:1_000]) for name, value in simple if str(value).strip())
    return tuple(islice(shown, MAX_LABELS))


def describe_severity(level: AlertType | None, urgency: Urgency) -> str:
    words = f"{urgency.name.lower()} urgency"
    return f"{level.name.lower()}, {words}" if level is not None else words


def _shorten(text: str, limit: int = 1_000) -> str:
    """Return one line of at most `limit` characters. A shortened text ends with "..."."""
    clean = clean_line(text, limit + 1)
    return clean if len(clean) <= limit else f"{clean[: limit - 3].rstrip()}..."


def _get_title(incident: IncidentSummary, limit: int = 1_000) -> str:
    return _shorten(incident.title, limit) or "(no title)"


def _get_service_name(service: str | None) -> str:
    return _shorten(service or "", 200) or "(service deleted)"


def _build_single_subject(incident: IncidentSummary) -> str:
    level = f" ({incident.level.name.lower()})" if incident.level is not None else ""
    end = f": {_describe_end(incident)}" if incident.is_recovery else level
    service, title = _shorten(_get_service_name(incident.service), MAX_NAME), _get_title(incident, MAX_TITLE)
    sla = f"{_shorten(incident.sla, MAX_TITLE)}: " if incident.sla else ""
    return f"[{service}] {sla}#{incident.number} {title}{end}"


def _build_group_subject(incidents: Sequence[IncidentSummary]) -> str:
    names = dict.fromkeys(incident.service for incident in incidents)
    services = list(dict.fromkeys(_shorten(_get_service_name(name), MAX_NAME) for name in names))
    where = services[0] if len(services) == 1 else f"{services[0]} and {len(services) - 1} more"
    titles = ", ".join(dict.fromkeys(_get_title(incident, MAX_TITLE) for incident in incidents[:3]))
    slas = {incident.sla for incident in incidents}
    sla = f"{_shorten(incidents[0].sla, MAX_TITLE)}: " if len(slas) == 1 and incidents[0].sla else ""
    what = "incidents are resolved" if _is_recovery(incidents) else "incidents"
    return _shorten(f"[{where}] {sla}{len(incidents)} {what}: {titles}", MAX_TITLE + 2 * MAX_NAME)


def _is_recovery(incidents: Sequence[IncidentSummary]) -> bool:
    return all(incident.is_recovery for incident in incidents)


def _describe_end(incident: IncidentSummary) -> str:
    if incident.resolved_at is None:
        return "resolved"
    seconds = max(round((incident.resolved_at - incident.since).total_seconds()), 0)
    return f"resolved after {format_duration(seconds)}"


def _build_single(incident: IncidentSummary, recipient: Recipient) -> MessageContent:
    summary = clean_text(incident.summary, MAX_SUMMARY + 1)
    if len(summary) > MAX_SUMMARY:
        summary = summary[:MAX_SUMMARY] + " ..."
    details, title = incident.details or IncidentDetails(), _get_title(incident)
    link_text = "See it, acknowledge it or resolve it (no login needed, for 7 days):"
    if incident.is_recovery:
        link_text = "See what happened (no login needed, for 7 days):"
    page = LabelledLink(link_text, incident.link, actions=_list_actions(incident), button="Open the incident")
    return MessageContent(
        _build_single_subject(incident),
        (title,),
        tuple(_list_details(incident, details, recipient.zone)),
        (page, *_list_sources(details)),
        summary,
        foot=f"trace_id: {incident.trace_id}" if incident.trace_id else "",
        heading=title,
        threads=(incident.unique_id,) if incident.unique_id else (),
        is_urgent=incident.urgency is Urgency.HIGH and not incident.is_recovery,
    )


def _list_details(incident: IncidentSummary, details: IncidentDetails, zone: str) -> Iterator[LabelledText]:
    yield LabelledText("Where", _get_service_name(incident.service))
    yield LabelledText("How bad", describe_severity(incident.level, incident.urgency))
    if details.began_at is None:
        yield LabelledText("Since", format_time(incident.since, zone))
    else:
        yield LabelledText("Began", f"{format_time(details.began_at, zone)}, by the clock of the source")
        yield LabelledText("Received", format_time(incident.since, zone))
    if incident.is_recovery and incident.resolved_at is not None:
        at = format_time(incident.resolved_at, zone)
        yield LabelledText("Resolved", f"{at}, {_describe_end(incident)}")
    if incident.is_recovery and details.ended_by:
        yield LabelledText("Because", _shorten(details.ended_by))
    yield LabelledText("Incident", f"#{incident.number}")
    if details.acknowledged_by and details.acknowledged_at is not None:
        by, at = _shorten(details.acknowledged_by, 200), format_time(details.acknowledged_at, zone)
        yield LabelledText("Acknowledged", f"by {by}, {at}")
    yield LabelledText("Why you", _shorten(incident.reason))
    if details.next_step is not None:
        yield _describe_next(details.next_step)
    for name, value in details.labels[:MAX_LABELS]:
        yield LabelledText(_shorten(name, MAX_NAME) or "(no name)", _shorten(value, 200))


def _describe_next(step: NextStep) -> LabelledText:
    """Return the next step as, for example, "Next, in 1 min: Bob"."""
    delay = f"in {format_duration(step.after_s)}" if step.after_s > 0 else "now"
    return LabelledText(f"Next, {delay}", _shorten(", ".join(step.people), 500) or "nobody")


def _list_sources(details: IncidentDetails) -> Iterator[LabelledLink]:
    """Yield the links of the source with their texts. An address that may run a script is left out."""
    for text, url in details.sources[:MAX_SOURCES]:
        address = clean_url(url)
        if address is not None:
            yield LabelledLink(_shorten(text, 200) or _shorten(address, 200), address)


def _build_group(incidents: Sequence[IncidentSummary], recipient: Recipient) -> MessageContent:
    listed, rest = incidents[:MAX_LISTED], incidents[MAX_LISTED:]
    reasons = list(dict.fromkeys(_shorten(incident.reason) for incident in listed))
    numbers = ", ".join(f"#{incident.number}" for incident in rest)
    is_recovery = _is_recovery(incidents)
    state, use = ("resolved", "") if is_recovery else ("open", ", to acknowledge or to resolve it")
    return MessageContent(
        _build_group_subject(incidents),
        (
            f"{len(incidents)} incidents are {state}. This one message is about all of them.",
            f"Each link shows one incident{use} (no login needed, for 7 days).",
        ),
        tuple(LabelledText("Why you", reason) for reason in reasons[:5]),
        tuple(
            LabelledLink(
                f"#{incident.number} {_get_title(incident)}",
                incident.link,
                _describe(incident, recipient.zone),
                _list_actions(incident),
            )
            for incident in listed
        ),
        f"and {len(rest)} more: {numbers}" if rest else "",
        foot="\n".join(f"trace_id of #{each.number}: {each.trace_id}" for each in listed if each.trace_id),
        threads=tuple(incident.unique_id for incident in listed[:MAX_THREADS] if incident.unique_id),
        is_urgent=not is_recovery and any(incident.urgency is Urgency.HIGH for incident in incidents),
    )


def _describe(incident: IncidentSummary, zone: str) -> str:
    severity = describe_severity(incident.level, incident.urgency)
    end = f"; {_describe_end(incident)}" if incident.is_recovery else ""
    since = f"since {format_time(incident.since, zone)}"
    return f"{_get_service_name(incident.service)}; {severity}; {since}{end}"


def _list_actions(incident: IncidentSummary) -> tuple[Action, ...]:
    return tuple(
        Action(name, incident.token) for name, (_, statuses) in ACTIONS.items() if incident.status in statuses
    )
