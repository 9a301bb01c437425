"""Alarms of Amazon CloudWatch in notifications of Amazon SNS, or as events of EventBridge.

docs.aws.amazon.com, "HTTP notification JSON format" of SNS and "Alarm events and EventBridge". SNS sends the
message as JSON in a text. Account, region and name together are one alarm; an alarm with several time series
also has a contributor. Another message, such as one of a budget, is read in the generic form.
"""

import re
from collections.abc import Iterable

import msgspec

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.native.cloud.sns import CONFIRMATION, GOODBYE, NOTIFICATION
from pipeline.sources.reading.body import BadBody, check_payload
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    build_note,
    join_entity,
    read_level,
    read_other,
)

KIND = "cloudwatch_v2"

# The addresses at which Amazon confirms subscriptions.
_OF_SNS = re.compile(r"https://sns\.[a-z0-9-]{1,40}\.amazonaws\.com(\.cn)?/")

STATES = {
    "alarm": AlertType.CRITICAL,
    "ok": AlertType.RESOLVED,
    "insufficient_data": AlertType.WARNING,
}


def _is_known(data: Fields) -> bool:
    of_sns = data.text("Type") in {NOTIFICATION, CONFIRMATION, GOODBYE} and data.has("TopicArn")
    return of_sns or _is_alarm(data)


def _is_alarm(data: Fields) -> bool:
    return data.has("AlarmName") or data.has("detail.alarmName")


def _read(data: Fields) -> Iterable[ParsedAlert]:
    topic, kind = data.text("TopicArn"), data.text("Type")
    if _is_alarm(data):
        return [_read_alarm(data)]
    if kind == NOTIFICATION:
        return [_read_message(data)]
    if kind == GOODBYE:
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


def _read_message(data: Fields) -> ParsedAlert:
    inner = Fields(_decode(data.text("Message")))
    if _is_alarm(inner):
        return _read_alarm(inner)
    if inner.value:
        return read_other(KIND, inner.value)
    return build_alert(
        data.value,
        read_level(""),
        message=data.text("Subject", "Message"),
        summary=data.text("Message"),
        entity="",
        at=data.get("Timestamp"),
    )


def _decode(text: str) -> object:
    """Return the message as JSON; None if it is a text for people, or nested too deeply."""
    try:
        return check_payload({"message": msgspec.json.decode(text)})["message"]
    except (msgspec.MsgspecError, BadBody, ValueError, RecursionError):
        return None


def _read_alarm(data: Fields) -> ParsedAlert:
    name, at = data.text("AlarmName", "detail.alarmName"), data.text("StateChangeTime", "time")
    return build_alert(
        data.value,
        read_level(data.text("NewStateValue", "detail.state.value"), STATES),
        message=name,
        summary=data.text("NewStateReason", "detail.state.reason", "AlarmDescription"),
        entity=join_entity(
            data.text("AWSAccountId", "account"),
            _find_region(data),
            name,
            *filter(None, [data.text("AlarmContributorId", "detail.alarmContributor.id")]),
        ),
        at=at,
    )


def _find_region(data: Fields) -> str:
    """Return the code of the region. `Region` is its name for people, which AWS has changed before."""
    arn = data.text("AlarmArn").split(":")
    return arn[3] if len(arn) > 3 and arn[3] else data.text("region", "Region")


parse = as_parser(KIND, _is_known, _read)
