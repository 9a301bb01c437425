"""Contents of messages for tests of channels: short, long and hostile."""

from typing import Any

from models.domain.values import replace
from pipeline.messages.content import MessageContent
from pipeline.messages.examples import AT, INCIDENT, PUBLIC_URL, READER
from pipeline.messages.incidents import IncidentDetails, NextStep, build_incidents_content
from workers.delivery.transport.channel import OutgoingMessage

NOON = AT
TOKEN = INCIDENT.token
HOSTILE = "<b>&amp; *bold* _it_ `code` [x](javascript:alert(1)) @everyone <!channel> \u202e\x07 {{7*7}} é🔥"

DISK = replace(
    INCIDENT,
    title="Disk full on db1",
    summary="97% of /var is used.",
    details=IncidentDetails(also_notified=("Bob",), next_steps=(NextStep(300, ("Carol",)),)),
)

__all__ = ["NOON", "PUBLIC_URL", "TOKEN", "build_group", "build_hostile", "build_message", "build_single"]


def build_single(**changes: Any) -> MessageContent:
    return build_incidents_content([replace(DISK, **changes)], READER)


def build_group(count: int = 3, **changes: Any) -> MessageContent:
    incidents = [
        replace(DISK, number=n, link=f"{DISK.link}{n}", details=None, **changes)
        for n in range(12, 12 + count)
    ]
    return build_incidents_content(incidents, READER)


def build_hostile() -> MessageContent:
    """Return content in which each text of a user is long and means something to some channel."""
    labels = tuple((f"{HOSTILE}{n}", HOSTILE * 20) for n in range(20))
    sources = tuple((HOSTILE, f"https://example.org/{n}") for n in range(10))
    return build_single(
        title=HOSTILE * 30,
        service=HOSTILE,
        summary=f"{HOSTILE}\n" * 200,
        reason=HOSTILE * 30,
        details=IncidentDetails(labels=labels, sources=sources, also_notified=(HOSTILE,) * 10),
    )


def build_message(content: MessageContent, to: str, message_id: str = "c0ffee" * 8) -> OutgoingMessage:
    return OutgoingMessage(message_id, to, content, NOON)
