"""Build messages about incidents: one, several, or those of a bundle.

The content says what happened, where, how severe, since when, why this person is notified, and where to go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from urllib.parse import urlsplit

from models.domain.enums import AlertType, IncidentStatus, Urgency
from models.domain.reasons import format_duration
from models.domain.values import replace
from pipeline.messages.content import (
    ACTIONS,
    MAX_NAME,
    MAX_TITLE,
    Action,
    KeyFacts,
    LabelledLink,
    LabelledText,
    MessageContent,
    Recipient,
    get_service_name,
    shorten_clean,
)
from pipeline.messages.times import format_short_time, format_time
from pipeline.sources.reading.cleaning import clean_text, clean_url

MAX_SUMMARY = 2_000
# At most this many incidents are listed in one message; the others are counted.
MAX_LISTED = 100
# At most this many labels and links of the source are in one message.
MAX_LABELS = 20
MAX_SOURCES = 10
# Programs that show mails may not read a longer list of the mails of a thread.
MAX_THREADS = 20


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next messages if nobody reacts: after how many seconds these people get one.

    The reader is "you" with the channel.
    """

    after_s: int
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IncidentDetails:
    """What a message says about its only incident.

    - `began_at`: when the problem began, by the clock of the source. None: the source gave no time.
    - `labels`: names and values that the source sent. `sources`: texts and addresses of the source's links.
    - `acknowledged_by`: who acknowledged; empty if the incident is not acknowledged.
    - `ended_by`: why a resolved incident is resolved. `resolved_by`: the name of the person; empty: none.
    - `also_notified`: the names of other people who were notified.
    - `next_steps`: in the order of their times. `next_end`: why a triggered incident has none.
    """

    began_at: datetime | None = None
    labels: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    acknowledged_by: str = ""
    acknowledged_at: datetime | None = None
    ended_by: str = ""
    resolved_by: str = ""
    also_notified: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    next_end: str = ""


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
    notification: int = 0
    details: "IncidentDetails | None" = None


def build_incidents_content(incidents: Sequence[IncidentSummary], recipient: Recipient) -> MessageContent:
    """Return a message about these incidents, at least one."""
    if len(incidents) == 1:
        return _build_single(incidents[0], recipient)
    return _build_group(incidents, recipient)


def build_bundle_content(
    incidents: Sequence[IncidentSummary], recipient: Recipient, link: str
) -> MessageContent:
    """Return a message about the incidents of a bundle, at least one. `link` leads to the list of them."""
    if len(incidents) == 1:
        return _build_single(incidents[0], recipient)
    is_recovery = _is_recovery(incidents)
    reasons = list(dict.fromkeys(shorten_clean(each.reason) for each in incidents[:MAX_LISTED]))
    return MessageContent(
        _build_group_subject(incidents, more=True),
        (
            f"{len(incidents)} more incidents. You got many messages in a short time, so this one message is",
            "about all of the others.",
        ),
        tuple(LabelledText("Why you", reason) for reason in reasons[:5]),
        (LabelledLink("See the list of them (no login needed, for 7 days):", link, button="Open the list"),),
        threads=tuple(each.unique_id for each in incidents[:MAX_THREADS] if each.unique_id),
        is_urgent=not is_recovery and any(each.urgency is Urgency.HIGH for each in incidents),
    )


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


def _get_title(incident: IncidentSummary, limit: int = 1_000) -> str:
    return shorten_clean(incident.title, limit) or "(no title)"


def _build_single_subject(incident: IncidentSummary) -> str:
    level = f" ({incident.level.name.lower()})" if incident.level is not None else ""
    end = f": {_describe_end(incident)}" if incident.is_recovery else level
    service, title = (
        shorten_clean(get_service_name(incident.service), MAX_NAME),
        _get_title(incident, MAX_TITLE),
    )
    sla = f"{shorten_clean(incident.sla, MAX_TITLE)}: " if incident.sla else ""
    return f"[{service}] {sla}#{incident.number} {title}{end}"


def _describe_state(incident: IncidentSummary) -> str:
    """Return what the title of a message says more than the common subject of the incident's mails."""
    if incident.is_recovery:
        end = _describe_end(incident)
        return f"{end[:1].upper()}{end[1:]}."
    return f"{shorten_clean(incident.sla, MAX_TITLE)}." if incident.sla else ""


def _list_services(incidents: Sequence[IncidentSummary]) -> str:
    names = dict.fromkeys(incident.service for incident in incidents)
    services = list(dict.fromkeys(shorten_clean(get_service_name(name), MAX_NAME) for name in names))
    return services[0] if len(services) == 1 else f"{services[0]} and {len(services) - 1} more"


def _build_group_subject(incidents: Sequence[IncidentSummary], *, more: bool = False) -> str:
    where = _list_services(incidents)
    titles = ", ".join(dict.fromkeys(_get_title(incident, MAX_TITLE) for incident in incidents[:3]))
    slas = {incident.sla for incident in incidents}
    sla = f"{shorten_clean(incidents[0].sla, MAX_TITLE)}: " if len(slas) == 1 and incidents[0].sla else ""
    what = "incidents are resolved" if _is_recovery(incidents) else "incidents"
    what = f"more {what}" if more else what
    return shorten_clean(f"[{where}] {sla}{len(incidents)} {what}: {titles}", MAX_TITLE + 2 * MAX_NAME)


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
    if summary.strip().casefold() == title.casefold():
        summary = ""
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
        facts=_build_facts(incident, details, recipient.zone),
        subject=_build_single_subject(replace(incident, is_recovery=False, sla="")),
        state=_describe_state(incident),
    )


def _build_facts(incident: IncidentSummary, details: IncidentDetails, zone: str) -> KeyFacts:
    next_step = _describe_next(details)
    began_at = details.began_at or incident.since
    return KeyFacts(
        _get_title(incident),
        get_service_name(incident.service),
        describe_severity(incident.level, incident.urgency),
        format_time(began_at, zone),
        format_short_time(began_at, zone),
        shorten_clean(incident.reason),
        _list_also_notified(details),
        f"{next_step.label}: {next_step.text}" if next_step is not None else "",
        incident.link,
    )


def _list_also_notified(details: IncidentDetails) -> str:
    return shorten_clean(", ".join(shorten_clean(name, 200) for name in details.also_notified), 500)


def _list_details(incident: IncidentSummary, details: IncidentDetails, zone: str) -> Iterator[LabelledText]:
    yield LabelledText("Where", get_service_name(incident.service))
    yield LabelledText("How bad", describe_severity(incident.level, incident.urgency))
    if details.began_at is None:
        yield LabelledText("Since", format_time(incident.since, zone))
    else:
        yield LabelledText("Began", f"{format_time(details.began_at, zone)}, by the clock of the source")
        yield LabelledText("Received", format_time(incident.since, zone))
    if incident.is_recovery and incident.resolved_at is not None:
        at = format_time(incident.resolved_at, zone)
        yield LabelledText("Resolved", f"{at}, {_describe_end(incident).removeprefix('resolved ')}")
    if incident.is_recovery and details.ended_by:
        yield LabelledText("Because", shorten_clean(details.ended_by))
    yield LabelledText("Incident", f"#{incident.number}")
    if details.acknowledged_by and details.acknowledged_at is not None:
        by, at = shorten_clean(details.acknowledged_by, 200), format_time(details.acknowledged_at, zone)
        yield LabelledText("Acknowledged", f"by {by}, {at}")
    if details.also_notified:
        yield LabelledText("Also notified", _list_also_notified(details))
    following = _describe_next(details)
    if following is not None:
        yield following
    known = {_get_title(incident).casefold(), get_service_name(incident.service).casefold()}
    for name, value in details.labels[:MAX_LABELS]:
        text = shorten_clean(value, 200)
        if text.casefold() not in known:
            yield LabelledText(shorten_clean(name, MAX_NAME) or "(no name)", text)
    yield LabelledText("You" if incident.is_recovery else "Why you", _describe_reason(incident))


def _describe_reason(incident: IncidentSummary) -> str:
    reason = shorten_clean(incident.reason)
    return reason.removeprefix("you ") if incident.is_recovery else reason


def _describe_next(details: IncidentDetails) -> LabelledText | None:
    """Return who gets the next messages, for example "Next, in 1 min: Bob"."""
    if not details.next_steps:
        return LabelledText("Next", f"nobody: {details.next_end}") if details.next_end else None
    first, *others = details.next_steps
    later = (f"; {_describe_delay(each)}: {_list_people(each)}" for each in others)
    return LabelledText(f"Next, {_describe_delay(first)}", "".join((_list_people(first), *later)))


def _describe_delay(step: NextStep) -> str:
    return f"in {format_duration(step.after_s)}" if step.after_s > 0 else "now"


def _list_people(step: NextStep) -> str:
    return shorten_clean(", ".join(step.people), 500) or "nobody"


def _list_sources(details: IncidentDetails) -> Iterator[LabelledLink]:
    """Yield the links of the source with their texts. An address that may run a script is left out."""
    for text, url in details.sources[:MAX_SOURCES]:
        address = clean_url(url)
        if address is not None and is_openable(address):
            yield LabelledLink(shorten_clean(text, 200) or shorten_clean(address, 200), address)


_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|[0-9a-f]*:[0-9a-f:.]+")


def is_openable(url: str) -> bool:
    """Return whether a program can open this URL. Chats refuse a whole message because of one bad link."""
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return False
    return has_port and "@" not in parts.netloc and bool(_HOST.fullmatch(parts.hostname or ""))


def _build_group(incidents: Sequence[IncidentSummary], recipient: Recipient) -> MessageContent:
    listed, rest = incidents[:MAX_LISTED], incidents[MAX_LISTED:]
    reasons = list(dict.fromkeys(shorten_clean(incident.reason) for incident in listed))
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
        facts=KeyFacts(
            f"{len(incidents)} incidents are {state}", _list_services(incidents), link=listed[0].link
        ),
    )


def _describe(incident: IncidentSummary, zone: str) -> str:
    severity = describe_severity(incident.level, incident.urgency)
    end = f"; {_describe_end(incident)}" if incident.is_recovery else ""
    since = f"since {format_time(incident.since, zone)}"
    return f"{get_service_name(incident.service)}; {severity}; {since}{end}"


def _list_actions(incident: IncidentSummary) -> tuple[Action, ...]:
    return tuple(
        Action(name, incident.token, incident.notification)
        for name, (_, statuses) in ACTIONS.items()
        if incident.status in statuses
    )
