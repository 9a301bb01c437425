"""The content of a message that was sent before, when the status of its incidents has changed."""

from collections.abc import Sequence

from models.domain.enums import IncidentStatus
from models.domain.reasons import format_duration
from models.domain.values import replace
from pipeline.messages.content import MessageContent, Recipient
from pipeline.messages.incidents import IncidentDetails, IncidentSummary, build_incidents_content
from pipeline.messages.times import format_clock
from pipeline.sources.reading.cleaning import clean_line

_WORDS = {IncidentStatus.ACKNOWLEDGED: "Acknowledged", IncidentStatus.RESOLVED: "Resolved"}


def build_changed_content(incidents: Sequence[IncidentSummary], recipient: Recipient) -> MessageContent:
    """Return the message about these incidents, at least one, with their present status in front."""
    content = build_incidents_content(incidents, recipient)
    states = {incident.status for incident in incidents}
    word = _WORDS.get(next(iter(states))) if len(states) == 1 else None
    title = f"{word}: {content.title}" if word else content.title
    if len(incidents) == 1:
        state = describe_status(incidents[0], recipient.zone)
        return replace(content, title=title, lines=(state, *content.lines) if state else content.lines)
    shown = zip(content.links, incidents, strict=False)
    links = tuple(
        replace(link, note="; ".join(filter(None, (describe_status(incident, recipient.zone), link.note))))
        for link, incident in shown
    )
    return replace(content, title=title, links=links)


def describe_status(incident: IncidentSummary, zone: str) -> str:
    """Say who acknowledged, or who resolved the incident and when; empty for a triggered incident."""
    details = incident.details or IncidentDetails()
    match incident.status:
        case IncidentStatus.ACKNOWLEDGED:
            by = clean_line(details.acknowledged_by, 200)
            at = details.acknowledged_at
            return (
                "Acknowledged" + (f" by {by}" if by else "") + (f" at {format_clock(at, zone)}" if at else "")
            )
        case IncidentStatus.RESOLVED:
            at, name = incident.resolved_at, clean_line(details.resolved_by, 200)
            by = f" by {name}" if name else ""
            if at is None:
                return f"Resolved{by}"
            seconds = max(round((at - incident.since).total_seconds()), 0)
            return f"Resolved{by} at {format_clock(at, zone)}, after {format_duration(seconds)}"
    return ""
