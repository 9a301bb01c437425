"""The webhook of Prometheus Alertmanager, version 4: contract section 6. A group of 50 is 50 alerts."""

from typing import Annotated, Any

import msgspec

from models.domain.enums import AlertType
from models.domain.reasons import Reason, make_reason
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import BadBody, RequestBody, check_payload, parse_time
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line, clean_text, clean_url
from pipeline.sources.reading.fields import Level, build_broken, read_optional_level, read_other
from pipeline.sources.reading.titles import HOST, build_title

KIND = "prometheus"

# Values of the severity label. Without one, the default level applies.
SEVERITIES = {
    "critical": AlertType.CRITICAL,
    "page": AlertType.CRITICAL,
    "error": AlertType.ERROR,
    "high": AlertType.ERROR,
    "warning": AlertType.WARNING,
    "info": AlertType.INFO,
    "none": AlertType.INFO,
}

Labels = dict[str, object]

# More real alerts than fit into 8 MiB. Without this limit, 8 MiB could contain millions of empty alerts.
MAX_ALERTS = 40_000

# The fields of a group are stored with each of its alerts: at most this many bytes in all. Alertmanager only
# repeats labels there that every alert has, and sends far less than this.
MAX_SHARED_BYTES = 16 * 1024 * 1024


class Item(msgspec.Struct):
    status: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    fingerprint: str | None = None
    startsAt: Any = None  # noqa: N815 - Alertmanager's names
    endsAt: Any = None  # noqa: N815
    generatorURL: Any = None  # noqa: N815


class Group(msgspec.Struct):
    alerts: Annotated[list[Item], msgspec.Meta(max_length=MAX_ALERTS)]
    status: str | None = None
    receiver: Any = None
    groupLabels: dict[str, Any] | None = None  # noqa: N815
    commonLabels: dict[str, Any] | None = None  # noqa: N815
    commonAnnotations: dict[str, Any] | None = None  # noqa: N815
    externalURL: Any = None  # noqa: N815
    truncatedAlerts: Any = None  # noqa: N815


_DECODER = msgspec.json.Decoder(Group, strict=False)

Scalar = str | int | float | bool | None


class FlatItem(msgspec.Struct):
    """An alert as Alertmanager sends it: without objects or lists inside, it cannot be nested too deeply."""

    status: str | None = None
    labels: dict[str, Scalar] | None = None
    annotations: dict[str, Scalar] | None = None
    fingerprint: str | None = None
    startsAt: Scalar = None  # noqa: N815 - Alertmanager's names
    endsAt: Scalar = None  # noqa: N815
    generatorURL: Scalar = None  # noqa: N815


class FlatGroup(Group):
    alerts: Annotated[list[FlatItem], msgspec.Meta(min_length=1, max_length=MAX_ALERTS)]  # type: ignore[assignment]


_FLAT = msgspec.json.Decoder(FlatGroup)


def count(body: RequestBody) -> int:
    """Return the number of alerts, or raise the error of `parse`.

    A body as Alertmanager sends it is not parsed: measured with 8 MiB, a tenth of the CPU time.
    """
    try:
        group = _FLAT.decode(body.raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return len(parse(body))
    _build_shared(group)
    return len(group.alerts)


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the alerts of the group in order. The entity_id is the fingerprint, or else the labels."""
    try:
        group = body.decode(_DECODER)
    except BadBody as error:
        return _parse_separately(body, error)
    if not group.alerts:
        raise BadBody("alerts", "may not be empty")
    shared, omitted = _build_shared(group), _describe_omitted(group)
    try:
        return [parse_alert(item, group, shared, omitted) for item in group.alerts]
    except BadBody as error:
        return _parse_separately(body, error)


def _parse_separately(body: RequestBody, error: BadBody) -> list[ParsedAlert]:
    """Return the alerts of a group; some of them have wrong types or are nested too deeply.

    An object without a list of alerts is read as one alert in another form. Raise `error` for other bodies,
    and if no alert of the group can be read: its sender should know.
    """
    data = body.decode_json()
    if isinstance(data, dict) and data and "alerts" not in data:
        return [read_other(KIND, check_payload(data, "body"))]
    items = data.get("alerts") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(items, list) or len(items) > MAX_ALERTS:
        raise error
    try:
        group = msgspec.convert({**data, "alerts": []}, Group, strict=False)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
        raise error from None
    read = [_try_to_convert(item) for item in items]
    group.alerts = [item for item in read if item is not None]
    if not group.alerts:
        raise error
    shared, omitted = _build_shared(group), _describe_omitted(group)
    parsed = [_try_to_parse(item, group, shared, omitted) for item in read]
    if not any(parsed):
        raise error
    return [alert or build_broken(KIND, sent) for alert, sent in zip(parsed, items, strict=True)]


def _try_to_convert(item: object) -> Item | None:
    try:
        return msgspec.convert(item, Item, strict=False)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
        return None


def _try_to_parse(
    item: Item | None, group: Group, shared: Labels, omitted: tuple[Reason, ...]
) -> ParsedAlert | None:
    try:
        return parse_alert(item, group, shared, omitted) if item is not None else None
    except BadBody:
        return None


def _describe_omitted(group: Group) -> tuple[Reason, ...]:
    """Say how many alerts Alertmanager left out because of its `max_alerts`."""
    count = group.truncatedAlerts
    is_count = isinstance(count, int) and not isinstance(count, bool) and count > 0
    return (make_reason("alerts_omitted", count=str(count)),) if is_count else ()


def _build_shared(group: Group) -> Labels:
    """Return the fields of the group for each alert's payload.

    Raises BadBody if they need too much space in all.
    """
    shared: Labels = check_payload(
        {
            "externalURL": group.externalURL,
            "receiver": group.receiver,
            "groupLabels": group.groupLabels or {},
            "commonLabels": group.commonLabels or {},
            "commonAnnotations": group.commonAnnotations or {},
        },
        "alerts",
    )
    if len(msgspec.json.encode(shared)) * len(group.alerts) > MAX_SHARED_BYTES:
        raise BadBody(
            "alerts",
            "are too many for the size of the group's labels and annotations",
        )
    return shared


def parse_alert(item: Item, group: Group, shared: Labels, omitted: tuple[Reason, ...] = ()) -> ParsedAlert:
    labels, annotations = item.labels or {}, item.annotations or {}
    summary, description = _get_text(annotations, "summary"), _get_text(annotations, "description", "message")
    resolved = (item.status or group.status) == "resolved"
    level = Level(AlertType.RESOLVED) if resolved else _get_severity(labels)
    return ParsedAlert(
        message=clean_line(summary or _build_title(labels, description)) or "alert without a name",
        summary=clean_text(description),
        alert_type=level.alert_type,
        entity_id=clean_entity_id(item.fingerprint or _format_labels(labels)) or None,
        payload=check_payload(
            {
                "labels": labels,
                "annotations": annotations,
                "startsAt": item.startsAt,
                "endsAt": item.endsAt,
                "generatorURL": item.generatorURL,
                "fingerprint": item.fingerprint,
                "status": item.status,
            },
            "alerts",
        )
        | shared,
        urls=tuple(_list_urls(item, annotations)),
        # An alert that fires again has the same startsAt; a resolve has the time of its end.
        source_at=parse_time(item.endsAt if resolved else item.startsAt),
        remarks=(*level.remarks, *omitted),
        has_default_level=level.is_default,
    )


def _build_title(labels: Labels, description: str) -> str:
    return build_title(_get_text(labels, "alertname"), description, _get_text(labels, *HOST))


def _get_severity(labels: Labels) -> Level:
    return read_optional_level(_get_text(labels, "severity").strip(), SEVERITIES)


def _get_text(values: Labels, *names: str) -> str:
    for name in names:
        value = values.get(name)
        if value:
            return str(value)
    return ""


def _format_labels(labels: Labels) -> str:
    return ",".join(f"{name}={labels[name]}" for name in sorted(labels))


def _list_urls(item: Item, annotations: Labels) -> list[dict[str, str]]:
    candidates = (
        ("Runbook", annotations.get("runbook_url")),
        ("Dashboard", annotations.get("dashboard_url")),
        ("Source", item.generatorURL),
    )
    links = [(text, clean_url(url)) for text, url in candidates if isinstance(url, str)]
    return [{"link_url": url, "link_text": text} for text, url in links if url]
