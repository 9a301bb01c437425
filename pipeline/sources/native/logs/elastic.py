"""Rules of Kibana, by a webhook connector with the body of our page; also the variables of Kibana as objects,
and watches of Elasticsearch with their `watch_id`.

elastic.co, "Rule action variables". The rule and its alert together are one problem. A watch reports no end.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    as_parser,
    build_alert,
    join_entity,
    read_level,
    read_optional_level,
)
from pipeline.sources.reading.names import to_snake_case

KIND = "elastic"

RULE, ALERT = ("rule_id", "rule.id"), ("alert_id", "alert.id", "alert.uuid")
WATCHER_ID = ("watch_id", "ctx.watch_id")
RECOVERED = "recovered"


def _is_known(data: Fields) -> bool:
    return to_snake_case(data).has(*RULE, *WATCHER_ID)


def _read(sent: Fields) -> list[ParsedAlert]:
    data = to_snake_case(sent)
    if not data.has(*RULE):
        return [_read_watcher(sent, data)]
    name, alert = data.text("rule_name", "rule.name"), data.text(*ALERT)
    return [
        build_alert(
            sent.value,
            _read_level(data),
            message=f"{name}: {alert}" if name and alert else name or alert,
            summary=data.text("reason", "message", "context.reason", "context.message"),
            entity=join_entity(data.text(*RULE), alert),
            links=[("Kibana", data.text("url", "rule.url"))],
            at=data.get("date"),
        )
    ]


def _read_watcher(sent: Fields, data: Fields) -> ParsedAlert:
    """Return the alert of a watch, whose body is what people make of its variables."""
    watcher = data.text(*WATCHER_ID)
    state = data.text("alert_type", "severity", "level", "metadata.severity", "ctx.metadata.severity")
    return build_alert(
        sent.value,
        read_optional_level(state),
        message=data.text("message", "subject", "metadata.name", "ctx.metadata.name") or watcher,
        summary=data.text("text", "description"),
        entity=join_entity("watch", watcher, *filter(None, [data.text("key")])),
        at=data.get("execution_time") or data.get("ctx.execution_time"),
    )


def _read_level(data: Fields) -> Level:
    group = data.text("action_group", "alert.actionGroup").lower()
    if group == RECOVERED or data.text("status").lower() == RECOVERED:
        return Level(AlertType.RESOLVED)
    # Rules with thresholds have a group of their own for warnings; the other groups name no level.
    of_group = "warning" if "warning" in group else ""
    return read_level(data.text("severity", "rule.severity") or of_group)


parse = as_parser(KIND, _is_known, _read)
