"""Rules of Kibana, by a webhook connector with the body of our page; also the variables of Kibana as objects.

elastic.co, "Rule action variables". The rule and its alert together are one problem.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, Level, as_parser, build_alert, join_entity, read_level

KIND = "elastic"

RULE, ALERT = ("rule_id", "rule.id", "ruleId"), ("alert_id", "alert.id", "alertId", "alert.uuid")
RECOVERED = "recovered"


def _is_known(data: Fields) -> bool:
    return data.has(*RULE)


def _read(data: Fields) -> list[ParsedAlert]:
    name, alert = data.text("rule_name", "rule.name"), data.text(*ALERT)
    return [
        build_alert(
            data.value,
            _read_level(data),
            message=f"{name}: {alert}" if name and alert else name or alert,
            summary=data.text("reason", "message", "context.reason", "context.message"),
            entity=join_entity(data.text(*RULE), alert),
            links=[("Kibana", data.text("url", "rule.url"))],
            at=data.get("date"),
        )
    ]


def _read_level(data: Fields) -> Level:
    group = data.text("action_group", "alert.actionGroup").lower()
    if group == RECOVERED or data.text("status").lower() == RECOVERED:
        return Level(AlertType.RESOLVED)
    # Rules with thresholds have a group of their own for warnings; the other groups name no level.
    of_group = "warning" if "warning" in group else ""
    return read_level(data.text("severity", "rule.severity") or of_group)


parse = as_parser(KIND, _is_known, _read)
