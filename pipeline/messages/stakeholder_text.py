"""Build mails to stakeholders, who are not on call and cannot act."""

from dataclasses import dataclass
from datetime import datetime

from models.domain.enums import IncidentStatus
from pipeline.messages.content import (
    MAX_NAME,
    MAX_TITLE,
    LabelledText,
    MessageContent,
    Recipient,
    get_service_name,
    shorten_clean,
)
from pipeline.messages.times import format_time
from pipeline.sources.reading.cleaning import clean_text

MAX_STAKEHOLDER_BODY = 4_000


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


def build_stakeholder_content(text: StakeholderText, recipient: Recipient) -> MessageContent:
    """Return a mail to a stakeholder, who cannot acknowledge: it has no link."""
    title = shorten_clean(text.title, MAX_TITLE) or "(no title)"
    details = [
        LabelledText("Incident", f"#{text.number} {title}"),
        LabelledText("Where", get_service_name(text.service)),
        LabelledText("Status", text.status.name.lower()),
        LabelledText("Since", format_time(text.since, recipient.zone)),
    ]
    if text.author:
        details.append(LabelledText("From", shorten_clean(text.author, 200)))
    subject = shorten_clean(text.subject, MAX_TITLE) or title
    return MessageContent(
        f"[{shorten_clean(get_service_name(text.service), MAX_NAME)}] #{text.number} {subject}",
        (
            f"Hello {shorten_clean(recipient.name)},",
            "",
            "you get this mail as a stakeholder of this incident.",
        ),
        tuple(details),
        closing=clean_text(text.body, MAX_STAKEHOLDER_BODY),
    )
