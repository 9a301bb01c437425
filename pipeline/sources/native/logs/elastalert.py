"""Matches of ElastAlert 2, by its alerter `http_post2` with the settings of our page.

ElastAlert only reports matches: nothing is resolved. `key` is what the rule counts separately, by query_key.
"""

from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, join_entity, read_level

KIND = "elastalert"


def _is_known(data: Fields) -> bool:
    return data.has("rule_name", "num_hits", "num_matches", "_index")


def _read(data: Fields) -> list[ParsedAlert]:
    rule = data.text("rule_name", "alert_subject", "_index")
    return [
        build_alert(
            data.value,
            read_level(data.text("severity", "alert_type")),
            message=data.text("alert_subject") or rule,
            summary=data.text("alert_text", "message"),
            entity=join_entity(rule, data.text("key")),
            links=[("Kibana", data.text("kibana_discover_url", "kibana_link"))],
            at=data.get("@timestamp"),
        )
    ]


parse = as_parser(KIND, _is_known, _read)
