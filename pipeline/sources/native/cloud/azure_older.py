"""Alerts of Azure in the schemas that are older than the common one.

learn.microsoft.com, "Noncommon alert schema definitions", "Webhook for activity log alerts", "Sample payloads
for log search alerts", "Manage costs with budgets" and "Autoscale notifications". The oldest schemas have no
`schemaId`.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import (
    LEVELS,
    Fields,
    Level,
    build_alert,
    build_note,
    join_entity,
    read_level,
    read_optional_level,
    to_text,
)

SEVERITIES = {
    **LEVELS,
    "0": AlertType.CRITICAL,
    "1": AlertType.CRITICAL,
    "2": AlertType.ERROR,
    "3": AlertType.WARNING,
    "4": AlertType.INFO,
    "verbose": AlertType.INFO,
}
ENDED = frozenset({"deactivated", "resolved"})
# Stages of an incident of Azure itself after which nothing is broken.
STAGES_OF_THE_END = frozenset({"resolved", "complete", "completed", "canceled", "rca"})
# Planned work, and what people should read: they neither open nor end anything.
NOTES = frozenset({"maintenance", "informational", "information"})
HEALTH = {
    "available": AlertType.RESOLVED,
    "degraded": AlertType.ERROR,
    "unavailable": AlertType.CRITICAL,
    "unknown": AlertType.WARNING,
}
BUDGET = "aip budget notification"
OF_METRIC = ("context.conditionType", "context.condition")
MAX_DIMENSIONS = 50


def is_older(data: Fields) -> bool:
    """Return whether a body is in one of these schemas."""
    return _find_kind(data) != ""


def _find_kind(data: Fields) -> str:
    """Return the name of the schema; "" if it is none of these."""
    if data.has("data.context.activityLog.eventSource") or data.has("data.context.activityLog.operationName"):
        return "activity"
    if data.text("schemaId").lower() == BUDGET:
        return "budget"
    if data.has("AlertRuleName") or data.has("data.AlertRuleName"):
        return "log"
    if data.has("operation") and data.has("context.resourceName", "context.resourceId"):
        return "autoscale"
    return "metric" if data.has(*(path + name for path in ("", "data.") for name in OF_METRIC)) else ""


def read_older(data: Fields) -> list[ParsedAlert]:
    """Return the alert of a body in one of these schemas."""
    kind = _find_kind(data)
    if kind == "activity":
        return [_read_activity(data, data.within("data.context.activityLog"))]
    if kind == "budget":
        return [_read_budget(data, data.within("data"))]
    if kind == "log":
        return [_read_log(data, data.within("data") if data.has("data.AlertRuleName") else data)]
    if kind == "autoscale":
        return [_read_autoscale(data)]
    return [_read_metric(data, data.within("data") if data.has("data.context") else data)]


def _read_metric(data: Fields, found: Fields) -> ParsedAlert:
    """Return an alert on a metric: classic, or of the schema AzureMonitorMetricAlert."""
    context = found.within("context")
    ended = found.text("status").lower() in ENDED
    rule, resource = context.text("name"), context.text("resourceName")
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED) if ended else read_optional_level(context.text("severity"), SEVERITIES),
        message=f"{rule}: {resource}" if rule and resource else rule or resource,
        summary=context.text("description") or _describe_condition(context),
        entity=join_entity(
            context.text("id").lower() or rule,
            context.text("resourceId").lower(),
            *_list_dimensions(context.get("condition.allOf.0.dimensions")),
        ),
        links=[("Resource", context.text("portalLink"))],
        at=context.get("timestamp"),
    )


def _describe_condition(context: Fields) -> str:
    found = context.within("condition.allOf.0" if context.has("condition.allOf") else "condition")
    parts = (found.text("metricName"), found.text("operator"), found.text("threshold"))
    return " ".join(filter(None, parts))


def _list_dimensions(found: object) -> list[str]:
    """Return the dimensions of an alert as texts, in an order that does not depend on the body."""
    items = found[:MAX_DIMENSIONS] if isinstance(found, list) else []
    known = [one for one in items if isinstance(one, dict)]
    return sorted(f"{to_text(one.get('name'))}={to_text(one.get('value'))}" for one in known)


def _read_log(data: Fields, found: Fields) -> ParsedAlert:
    """Return an alert on a search of logs. These report no end."""
    scope = found.text("WorkspaceId", "ApplicationId", "ResourceId", "SubscriptionId")
    dimensions = _list_dimensions(found.get("Dimensions"))
    rule = found.text("AlertRuleName")
    return build_alert(
        data.value,
        read_level(found.text("Severity"), SEVERITIES),
        message=": ".join(filter(None, [rule, ", ".join(dimensions)])),
        summary=found.text("Description") or _describe_search(found),
        entity=join_entity(scope, rule, *dimensions),
        links=[("Results", found.text("LinkToFilteredSearchResultsUI", "LinkToSearchResults"))],
        at=found.get("SearchIntervalEndtimeUtc"),
    )


def _describe_search(found: Fields) -> str:
    return f"{found.text('ResultCount')} results of {found.text('SearchQuery')}"


def _read_activity(data: Fields, log: Fields) -> ParsedAlert:
    source = log.text("eventSource").lower()
    if source == "servicehealth":
        return _read_service(data, log)
    if source == "resourcehealth":
        return _read_resource(data, log)
    operation, resource = log.text("operationName"), log.text("resourceId")
    ended = log.text("status").lower() in ENDED
    # Only a security alert has a severity of its own.
    severity = log.text("properties.severity") if source == "security" else ""
    title = log.text("properties.title", "properties.recommendationName") or operation
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED) if ended else read_level(severity or log.text("level"), SEVERITIES),
        message=": ".join(filter(None, [title, resource.rpartition("/")[2], log.text("status")])),
        summary=log.text("description", "properties.message", "properties.statusMessage"),
        entity=join_entity(source, operation.lower(), resource.lower() or log.text("correlationId")),
        links=[("Resource", _build_portal_link(resource))],
        at=log.get("eventTimestamp"),
    )


def _read_service(data: Fields, log: Fields) -> ParsedAlert:
    """Return an incident of Azure itself. Its tracking ID is the same in all its messages."""
    found = log.within("properties")
    stage = found.text("stage", "currentStage").lower() or log.text("status").lower()
    title = found.text("title", "defaultLanguageTitle") or log.text("operationName")
    entity = join_entity("service health", found.text("trackingId") or log.text("correlationId"))
    if found.text("incidentType").lower() in NOTES:
        return build_note(data.value, message=title, entity=entity)
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED)
        if stage in STAGES_OF_THE_END
        else read_level(log.text("level"), SEVERITIES),
        message=f"Azure: {title}",
        summary=f"{found.text('service')}, {found.text('region')}",
        entity=entity,
        links=[("Azure status", "https://azure.status.microsoft/")],
        at=log.get("eventTimestamp"),
    )


def _read_resource(data: Fields, log: Fields) -> ParsedAlert:
    found, resource = log.within("properties"), log.text("resourceId")
    ended = log.text("status").lower() in ENDED
    return build_alert(
        data.value,
        Level(AlertType.RESOLVED) if ended else read_level(found.text("currentHealthStatus"), HEALTH),
        message=f"{resource.rpartition('/')[2]}: {found.text('title') or log.text('operationName')}",
        summary=found.text("details", "cause"),
        entity=join_entity("resource health", resource.lower()),
        links=[("Resource", _build_portal_link(resource))],
        at=log.get("eventTimestamp"),
    )


def _read_budget(data: Fields, found: Fields) -> ParsedAlert:
    """Return a budget that has reached one of its thresholds. It has no level, and reports no end."""
    name = found.text("BudgetName")
    spent = f"{found.text('SpendingAmount')} of {found.text('Budget')} {found.text('Unit')}"
    return build_alert(
        data.value,
        read_optional_level(""),
        message=f"Budget {name}: {spent} spent",
        summary=f"Threshold {found.text('NotificationThresholdAmount')} of {found.text('SubscriptionName')}",
        entity=join_entity(
            found.text("SubscriptionId", "SubscriptionName"), found.text("ResourceGroup"), name,
            found.text("NotificationThresholdAmount"),
        ),
    )  # fmt: skip


def _read_autoscale(data: Fields) -> ParsedAlert:
    context = data.within("context")
    message = f"{data.text('operation')}: {context.text('resourceName')}"
    return build_note(data.value, message=message, entity=context.text("resourceId").lower())


def _build_portal_link(resource: str) -> str:
    return f"https://portal.azure.com/#resource{resource}" if resource.startswith("/") else ""
