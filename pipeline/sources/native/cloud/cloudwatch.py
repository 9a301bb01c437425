"""Alarms of Amazon CloudWatch in notifications of Amazon SNS, or as events of EventBridge.

docs.aws.amazon.com, "Alarm events and EventBridge". Account, region and name together are one alarm; an alarm
with several time series also has a contributor.
"""

from urllib.parse import quote

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.native.cloud.console import build_console_link
from pipeline.sources.native.cloud.notifications import is_notification, read_notification
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, join_entity, read_level

KIND = "cloudwatch_v2"

STATES = {
    "alarm": AlertType.CRITICAL,
    "ok": AlertType.RESOLVED,
    "insufficient_data": AlertType.WARNING,
}


def _is_known(data: Fields) -> bool:
    return is_notification(data) or _is_alarm(data)


def _is_alarm(data: Fields) -> bool:
    return data.has("AlarmName") or data.has("detail.alarmName")


def _read(data: Fields) -> list[ParsedAlert]:
    return _read_alarm(data) or read_notification(KIND, data, _read_alarm)


def _read_alarm(data: Fields) -> list[ParsedAlert]:
    """Return the alarm of a message; [] if it is about something else."""
    if not _is_alarm(data):
        return []
    reason = data.text("NewStateReason", "detail.state.reason")
    name, at = data.text("AlarmName", "detail.alarmName"), data.text("StateChangeTime", "time")
    return [
        build_alert(
            data.value,
            read_level(data.text("NewStateValue", "detail.state.value"), STATES),
            message=f"{name}: {reason}" if reason else name,
            summary=data.text("AlarmDescription", "detail.configuration.description"),
            entity=join_entity(
                data.text("AWSAccountId", "account"),
                _find_region(data),
                name,
                *filter(None, [data.text("AlarmContributorId", "detail.alarmContributor.id")]),
            ),
            links=[("CloudWatch", _build_link(data, name))],
            at=at,
        )
    ]


def _build_link(data: Fields, name: str) -> str:
    arn = data.text("AlarmArn", "resources.0")
    fragment = f"alarmsV2:alarm/{quote(name, safe='')}"
    return build_console_link(arn, _find_region(data), "cloudwatch", fragment)


def _find_region(data: Fields) -> str:
    """Return the code of the region. `Region` is its name for people, which AWS has changed before."""
    arn = data.text("AlarmArn").split(":")
    return arn[3] if len(arn) > 3 and arn[3] else data.text("region", "Region")


parse = as_parser(KIND, _is_known, _read)
