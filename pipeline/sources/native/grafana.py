"""Webhooks of Grafana: unified alerting (a group of alerts), and the older form (one rule).

docs: grafana.com, "Configure webhook notifications". Each alert has its own status: that of the group says
only that some alert fires.
"""

from collections.abc import Iterable
from functools import partial

from models.domain.enums import AlertType
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.cleaning import clean_url
from pipeline.sources.reading.fields import (
    Fields,
    Level,
    Value,
    as_parser,
    build_alert,
    pick_shared,
    read_group,
    read_items,
    read_level,
    read_optional_level,
    to_text,
)
from pipeline.sources.reading.titles import HOST, build_title

KIND = "grafana"

# States of the older form. A paused or pending rule is a note: it neither fires nor resolves.
STATES = {
    "alerting": AlertType.CRITICAL,
    "no_data": AlertType.ERROR,
    "ok": AlertType.RESOLVED,
    "paused": AlertType.INFO,
    "pending": AlertType.INFO,
}
# Alerts that Grafana makes itself when a rule has no data. The name of the rule is in another label.
WITHOUT_DATA = {"DatasourceNoData": "no data", "DatasourceError": "error of the data source"}
LINKS = (
    ("Runbook", "annotations.runbook_url"),
    ("Dashboard", "dashboardURL"),
    ("Panel", "panelURL"),
    ("Silence", "silenceURL"),
    ("Rule", "generatorURL"),
)
# Texts for people, and fields that are in each alert anyway.
NOT_SHARED = ("alerts", "message", "title", "state", "status")


def _is_known(data: Fields) -> bool:
    return isinstance(data.get("alerts"), list) or data.has("ruleId")


def _read(data: Fields) -> Iterable[ParsedAlert]:
    return _read_group(data) if isinstance(data.get("alerts"), list) else [_read_rule(data)]


def _read_group(data: Fields) -> list[ParsedAlert]:
    items = data.get("alerts")
    shared = pick_shared(data.value, NOT_SHARED, len(items) if isinstance(items, list) else 0)
    remarks = _describe_omitted(data.get("truncatedAlerts"))

    def read(item: Fields) -> ParsedAlert:
        alert = _read_item(item, data.text("status"), shared)
        return replace(alert, remarks=(*alert.remarks, *remarks)) if remarks else alert

    return read_items(KIND, items, read)


def _describe_omitted(count: object) -> tuple[Reason, ...]:
    known = isinstance(count, int) and not isinstance(count, bool) and count > 0
    return (make_reason("alerts_omitted", count=str(count)),) if known else ()


def _read_item(item: Fields, group_status: str, shared: Value) -> ParsedAlert:
    resolved = (item.text("status") or group_status).lower() == "resolved"
    image = clean_url(item.text("imageURL"))
    alert = build_alert(
        {**shared, **item.value},
        # No label is usual, as for Alertmanager.
        Level(AlertType.RESOLVED) if resolved else read_optional_level(item.text("labels.severity")),
        message=_build_title(item),
        summary=item.text("annotations.description", "annotations.message", "valueString"),
        entity=item.text("fingerprint") or _format_labels(item.get("labels")),
        links=[(text, item.text(path)) for text, path in LINKS],
        at=item.get("endsAt" if resolved else "startsAt"),
    )
    if not image:
        return alert
    return replace(alert, images=({"image_src": image, "image_url": image, "image_text": ""},))


def _build_title(item: Fields) -> str:
    alertname, rule = item.text("labels.alertname"), item.text("labels.rulename")
    if rule and alertname in WITHOUT_DATA:
        return f"{rule}: {WITHOUT_DATA[alertname]}"
    description = item.text("annotations.description", "annotations.message")
    host = item.text(*(f"labels.{name}" for name in HOST))
    return item.text("annotations.summary") or build_title(alertname, description, host)


def _format_labels(labels: object) -> str:
    known = labels if isinstance(labels, dict) else {}
    return ",".join(f"{name}={to_text(known[name])}" for name in sorted(known))


def _read_rule(data: Fields) -> ParsedAlert:
    level = read_level(data.text("state"), STATES)
    if level.alert_type is AlertType.CRITICAL and data.has("tags.severity"):
        level = read_level(data.text("tags.severity"))
    return build_alert(
        data.value,
        level,
        message=data.text("ruleName", "title"),
        summary=data.text("message"),
        entity=f"rule {data.text('orgId') or '1'}/{data.text('ruleId')}",
        links=[("Rule", data.text("ruleUrl"))],
    )


parse = as_parser(KIND, _is_known, _read, partial(read_group, name="alerts"))
