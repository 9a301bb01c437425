"""Read the notifications of Amazon SNS around the messages of its sources.

docs.aws.amazon.com, "HTTP notification JSON format". SNS sends the message as JSON in a text.
"""

import re
from collections.abc import Callable

import msgspec

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.native.cloud.sns import CONFIRMATION, GOODBYE, NOTIFICATION
from pipeline.sources.reading.body import BadBody, check_payload
from pipeline.sources.reading.fields import Fields, Level, build_alert, build_note, read_level, read_other

# The addresses at which Amazon confirms subscriptions.
_OF_SNS = re.compile(r"https://sns\.[a-z0-9-]{1,40}\.amazonaws\.com(\.cn)?/")


def is_notification(data: Fields) -> bool:
    """Return whether a body is from SNS: a message, or about a subscription."""
    return data.text("Type") in {NOTIFICATION, CONFIRMATION, GOODBYE} and data.has("TopicArn")


def read_notification(
    kind: str, data: Fields, read: Callable[[Fields], list[ParsedAlert]]
) -> list[ParsedAlert]:
    """Return the alerts of a body of SNS. `read` returns those of a message, or none if it is no alarm.

    Another message, such as one of a budget, is read in the generic form of this kind.
    """
    topic, sent = data.text("TopicArn"), data.text("Type")
    if sent == NOTIFICATION:
        return _read_message(kind, data, read)
    if sent == GOODBYE:
        return [build_note(data.value, message=f"SNS ended the subscription to {topic}")]
    # Without topics of the integration, its link is the only way to confirm the subscription. Anybody can
    # send this body.
    address = data.text("SubscribeURL")
    link = ("Confirm the subscription", address if _OF_SNS.match(address) else "")
    return [
        build_alert(
            {name: value for name, value in data.value.items() if name != "Token"},
            Level(AlertType.INFO),
            message=f"SNS asks to confirm the subscription to {topic}",
            entity=f"subscription {topic}",
            links=[link],
            at=data.get("Timestamp"),
            suppressed=True,
        )
    ]


def _read_message(kind: str, data: Fields, read: Callable[[Fields], list[ParsedAlert]]) -> list[ParsedAlert]:
    inner = Fields(_decode(data.text("Message")))
    found = read(inner) if inner.value else []
    if found:
        return found
    if inner.value:
        return [read_other(kind, inner.value)]
    return [
        build_alert(
            data.value,
            read_level(""),
            message=data.text("Subject", "Message"),
            summary=data.text("Message"),
            entity="",
            at=data.get("Timestamp"),
        )
    ]


def _decode(text: str) -> object:
    """Return the message as JSON; None if it is a text for people, or nested too deeply."""
    try:
        return check_payload({"message": msgspec.json.decode(text)})["message"]
    except (msgspec.MsgspecError, BadBody, ValueError, RecursionError):
        return None
